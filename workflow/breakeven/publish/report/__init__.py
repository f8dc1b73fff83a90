"""The report of one experiment at one look: Markdown, HTML and figures. Formats what the analysis found, computes nothing."""
