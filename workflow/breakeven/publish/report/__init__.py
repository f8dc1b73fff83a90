"""The report of one experiment at one look, as Markdown, HTML and figures. It formats what the analysis found."""
