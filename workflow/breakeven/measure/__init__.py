"""Samples: what is asked of a server, how the answer is timed, what else the machine was doing."""
