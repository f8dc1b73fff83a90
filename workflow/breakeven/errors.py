"""Errors that a person is meant to read."""


class BreakevenError(Exception):
    """What was found, what was wanted, where, and what to do next, in one message."""


class ConfigError(BreakevenError):
    """A configuration or table that cannot be used as it stands."""


class LaunchError(BreakevenError):
    """A server that did not come up, or did not stay up: an arm's failure, which is data."""
