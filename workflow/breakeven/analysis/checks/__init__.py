"""Can the measured numbers be trusted? Checks over the tables of all launches up to a look; opens no socket.

`run` gives the rows of the checks table. A failed check of severity `block` makes the place it names invalid.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from breakeven.analysis.checks import caches, lever, machine, rounds, soundness, steps, tokens, traffic
from breakeven.analysis.checks.check import Check, rows_of
from breakeven.analysis.checks.measured import measured

REGISTRY: tuple[Check, ...] = (
    *tokens.CHECKS,
    *steps.CHECKS,
    *caches.CHECKS,
    *lever.CHECKS,
    *soundness.CHECKS,
    *traffic.CHECKS,
    *rounds.CHECKS,
    *machine.CHECKS,
)
"""Every check, once, in the order of the report."""


def run(
    requests: pd.DataFrame,
    events: pd.DataFrame,
    counters: pd.DataFrame,
    telemetry: pd.DataFrame,
    launches: pd.DataFrame,
    experiment: Mapping[str, Any],
    *,
    step_bytes: Mapping[str, float] | None = None,
    eos_ids: Iterable[int] = (),
    natural_tokens: Mapping[str, Sequence[int | None]] | None = None,
    margins: pd.DataFrame | None = None,
    registry: Iterable[Check] = REGISTRY,
) -> list[dict[str, Any]]:
    """Rows of the table CHECKS.

    `requests`, `events`, `counters`, `telemetry`: the tables of all launches up to a look, one below the other.
    `launches`: arm, round, slot, started_at, n_spec, gated, status, and where known n_ctx (context tokens) and
    late_compiles (`warmup.late_compiles`). `experiment`: as `config.experiment` gives it. `step_bytes`: arm -> bytes
    that one decode step reads (Method 7). `eos_ids`: tokens that end a text; `natural_tokens`: class -> length of each
    prompt's own answer (None: longer than asked), where outputs do not show it. `margins`: as `lossless.compare` takes.
    """
    seen = replace(
        measured(requests, events, counters, telemetry, launches, experiment),
        step_bytes=dict(step_bytes or {}),
        eos_ids=tuple(eos_ids),
        natural_tokens=natural_tokens,
        margins=margins,
    )
    return [row for check in registry for row in rows_of(check, seen)]
