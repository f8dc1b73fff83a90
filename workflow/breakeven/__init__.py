"""Breakeven: does speculative decoding pay on this server, and if not, could it ever?

The folders follow the data, one way only: config -> `runtime` and `engine` (a server) -> `verify` (is it the
arm it claims to be) -> `measure` (samples) -> `analysis` (acceptance, cost, verdict) -> `publish` (pages).
"""

__version__ = "0.1.0"
