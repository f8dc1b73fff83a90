"""Events that arrived together: the steps of an engine that sends one event a token, as a client sees them."""

from collections.abc import Sequence

import numpy as np

BURST_GAP = 0.2
"""Token events closer together than this share of the 95th percentile of their gaps arrived in one burst: gaps inside
a burst are microseconds of sending, gaps between bursts are steps. Holds up to about 19 tokens a step."""


def burst_starts(arrivals: Sequence[float]) -> Sequence[int]:
    """Index of the first event of every group that arrived together.

    What arrives together with the first token was held back until then: its time is not in the decode window.
    """
    gaps = np.diff(arrivals)
    if not len(gaps):
        return [0]
    return [0, *(1 + np.flatnonzero(gaps >= BURST_GAP * np.percentile(gaps, 95))).tolist()]
