"""From verdicts to pages: renders what the analysis decided, computes nothing."""
