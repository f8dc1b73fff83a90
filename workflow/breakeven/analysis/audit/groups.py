"""A published table re-read under the definitions of Method 2 and 3: what it supports, and what it cannot say.

Rows of one table that differ in N alone form a group, which may give a line C(N) = a + b*N.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from breakeven.analysis.audit.acceptance import GATE, Refusal
from breakeven.analysis.audit.arm import Arm, audit_arm
from breakeven.analysis.audit.claims import Claim, check_claims
from breakeven.analysis.audit.fit import Fit, fit_points
from breakeven.analysis.audit.readings import Point, Readings, read_both
from breakeven.analysis.audit.table import Row
from breakeven.analysis.cost import Change, changes, rate_breakeven
from breakeven.analysis.prefix_cache import computed_tokens
from breakeven.analysis.traffic import achieved_gb_s

RESTATED_N = re.compile(r"\b(?:n[-_ ]?max|n|k|num_speculative_tokens)\s*[=:]?\s*(\d+)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Counts:
    """Pooled counters of an arm against the completion tokens they should cover (conservation, Method 2)."""

    n: int
    emitted: int
    low: int
    high: int
    conserved: bool


@dataclass(frozen=True)
class Bytes:
    """Bytes a step reads as the table gives them, and the bandwidth the baseline achieves with them."""

    b: float | None
    baseline_gb_s: float
    device_gb_s: float | None
    device_kind: str
    share: float | None


@dataclass(frozen=True)
class Group:
    """Arms that differ in N (and in gates) alone. `best_measured` is the fastest arm's N, 0 = the baseline."""

    setting: str
    arms: tuple[Arm, ...]
    fit: Fit | None
    fit_refusal: Refusal | None
    best_measured: int | None
    changes: tuple[tuple[int, tuple[Change, ...]], ...]
    bytes: Bytes | None
    readings: Readings | None
    counts: tuple[Counts, ...]
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class SameN:
    """Step costs at one N in all settings of a table: one cost, if nothing but acceptance differs between them."""

    n: int
    arms: int
    cost: tuple[float, float]
    breakeven_rate: tuple[float, float]
    breakeven_rate_of_mean: float


@dataclass(frozen=True)
class Prefill:
    """Prefill speed of an arm over the baseline's; `predicted` from whole cache blocks alone (Method 1.2).

    `computed_tokens`: (baseline, arm); both are None without the block sizes.
    """

    row: Row
    ratio: float | None
    predicted: float | None
    computed_tokens: tuple[int, int] | None


@dataclass(frozen=True)
class TableAudit:
    """All that one published table gives; `rows` in the order of the file."""

    table: str
    rows: tuple[Row, ...]
    groups: tuple[Group, ...]
    same_n: tuple[SameN, ...]
    prefill: tuple[Prefill, ...]


def audit(rows: Iterable[Row]) -> tuple[TableAudit, ...]:
    """Audit all tables, in the order in which they begin."""
    tables: dict[str, list[Row]] = {}
    for row in rows:
        tables.setdefault(row.table, []).append(row)
    return tuple(_table(name, tuple(members)) for name, members in tables.items())


def _table(name: str, rows: tuple[Row, ...]) -> TableAudit:
    grouped: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row.phase == "decode":
            key = (row.source, row.engine, row.model, row.hardware, _setting(row))
            grouped.setdefault(key, []).append(row)
    faster = next((row.line for row in rows if _faster(row)), None)
    groups = tuple(_group(key[-1], members, faster) for key, members in grouped.items())
    points = [arm.point for group in groups for arm in group.arms if arm.point is not None]
    prefill = tuple(_prefill(row) for row in rows if row.phase == "prefill")
    return TableAudit(name, rows, groups, _same_n(points), prefill)


def _setting(row: Row) -> str:
    """What a row's setting says besides its gate and its own N."""
    without_gate = GATE.sub("", row.setting)
    kept = RESTATED_N.sub(lambda found: "" if found[1] == str(row.n) else found[0], without_gate)
    return " ".join(kept.strip(" ,;").split())


def _faster(row: Row) -> bool:
    decodes = row.phase == "decode" and row.unit == "tok/s" and row.n != 0
    return (
        decodes
        and row.tok_s is not None
        and row.baseline_tok_s is not None
        and row.tok_s > row.baseline_tok_s
    )


def _group(setting: str, rows: Sequence[Row], faster_line: int | None) -> Group:
    arms = tuple(audit_arm(row) for row in rows)
    profiles = [arm.acceptance.survival for arm in arms if arm.point and arm.acceptance.survival]
    points = [arm.point for arm in arms if arm.point is not None]
    fit, refusal = fit_points(points, max(profiles, key=len, default=None))
    traffic = _bytes(rows)
    readings = _readings(arms, traffic, faster_line)
    return Group(
        setting=setting,
        arms=arms,
        fit=fit,
        fit_refusal=refusal,
        best_measured=_best_measured(arms),
        changes=tuple(_changes(arms, fit)),
        bytes=traffic,
        readings=readings,
        counts=tuple(_counts(rows)),
        claims=check_claims(arms, fit, readings),
    )


def _best_measured(arms: Sequence[Arm]) -> int | None:
    speedups = {arm.row.n: arm.speedup for arm in arms if arm.speedup is not None and arm.row.n is not None}
    if not speedups:
        return None
    return max({0: 1.0} | speedups, key=lambda n: ({0: 1.0} | speedups)[n])


def _changes(arms: Sequence[Arm], fit: Fit | None) -> Iterator[tuple[int, tuple[Change, ...]]]:
    for arm in arms:
        if arm.point is not None and arm.acceptance.length is not None:
            found = changes(*arm.point, arm.acceptance.length, None if fit is None else fit.line)
            if found:
                yield arm.point[0], found


def _bytes(rows: Sequence[Row]) -> Bytes | None:
    row = next((row for row in rows if row.baseline_tok_s and "bytes_target" in row.extra), None)
    if row is None or row.baseline_tok_s is None:
        return None
    target, draft, device = (row.extra.get(key) for key in ("bytes_target", "bytes_draft", "bandwidth_gb_s"))
    achieved = achieved_gb_s(target or 0.0, 1 / row.baseline_tok_s)
    return Bytes(
        b=None if draft is None or target is None else draft / target,
        baseline_gb_s=achieved,
        device_gb_s=device,
        device_kind=row.bandwidth_kind,
        share=None if device is None else achieved / device,
    )


def _readings(arms: Sequence[Arm], traffic: Bytes | None, faster_line: int | None) -> Readings | None:
    points = [
        Point(arm.row.n, arm.acceptance.length, arm.row.tok_s, arm.row.baseline_tok_s)
        for arm in arms
        if arm.point is not None and arm.row.unit == "tok/s"
        if arm.row.n and arm.acceptance.length and arm.row.tok_s and arm.row.baseline_tok_s
    ]
    if not points:
        return None
    b, share = (None, None) if traffic is None else (traffic.b, traffic.share)
    return read_both(points, arms[0].row.engine, b, share, faster_line)


def _counts(rows: Sequence[Row]) -> Iterator[Counts]:
    for row in rows:
        drafts, accepted, requests, tokens = (
            row.extra.get(key) for key in ("drafts", "accepted", "requests", "completion_tokens")
        )
        if None not in (row.n, drafts, accepted, requests, tokens):
            emitted, low = int(drafts or 0) + int(accepted or 0), int(tokens or 0) - int(requests or 0)
            high = low + int(requests or 0) * int(row.n or 0)
            yield Counts(int(row.n or 0), emitted, low, high, low <= emitted <= high)


def _same_n(points: Iterable[tuple[int, float]]) -> tuple[SameN, ...]:
    by_n: dict[int, list[float]] = {}
    for n, cost in points:
        by_n.setdefault(n, []).append(cost)
    return tuple(
        SameN(
            n=n,
            arms=len(costs),
            cost=(min(costs), max(costs)),
            breakeven_rate=(rate_breakeven(min(costs), n), rate_breakeven(max(costs), n)),
            breakeven_rate_of_mean=rate_breakeven(sum(costs) / len(costs), n),
        )
        for n, costs in sorted(by_n.items())
        if len(costs) > 1
    )


def _prefill(row: Row) -> Prefill:
    ratio = row.tok_s / row.baseline_tok_s if row.tok_s and row.baseline_tok_s else None
    keys = ("prefix_tokens", "new_tokens", "block_tokens", "baseline_block_tokens")
    if not all(key in row.extra for key in keys):
        return Prefill(row, ratio, None, None)
    prefix, new, block, baseline_block = (int(row.extra[key]) for key in keys)
    of_baseline = computed_tokens(prefix, new, baseline_block)
    of_arm = computed_tokens(prefix, new, block, dropped_blocks=1)
    return Prefill(row, ratio, of_baseline / of_arm, (of_baseline, of_arm))
