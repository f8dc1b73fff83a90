"""The truth report: the pipeline's own code against reference servers whose truth is known.

One module a section; each gives a JSON document of figures and tables, `page` makes one Markdown page of them.
"""
