"""vLLM's statistics lines: V0 lines are cumulative and differenced, V1 windows are added, per draft length."""

from collections.abc import Iterator
from typing import Any

from breakeven.engine.facts import Finding
from breakeven.engine.logtext import Line
from breakeven.engine.patterns import convert
from breakeven.engine.statistics_metrics import Metrics

MOST_WINDOWS = 2_000
"""Windows that are kept one by one; sums go on beyond it."""
MOST_ENGINES = 1_000
DEAD_DRAFTS = 20
"""Drafts from which a position without a single acceptance is no accident."""
BONUS_TOLERANCE = 0.011
COLD_TTFT_RATIO = 3.0
"""A first request that waits this many times longer than the second was not warm."""
_BENCH = {
    "acceptance_rate": "acceptance",
    "acceptance_length": "mean_len",
    "num_drafts": "num_drafts",
    "draft_tokens": "drafted",
    "accepted_tokens": "accepted",
    "per_position_acceptance_rates": "per_position",
}
_BENCH_TEXT = {
    "Acceptance rate (%)": "acceptance",
    "Acceptance length": "mean_len",
    "mean acceptance length": "mean_len",
    "Drafts": "num_drafts",
    "num_drafts": "num_drafts",
    "Draft tokens": "drafted",
    "num_draft_tokens": "drafted",
    "Accepted tokens": "accepted",
    "num_accepted_tokens": "accepted",
}


class _Length:
    """V1 windows of one draft length (None when the lines do not say it), added up."""

    def __init__(self, k: int | None) -> None:
        self.k, self.windows, self.counted = k, 0, 0
        self.accepted = self.drafted = 0
        self.drafts: int | None = 0
        self.positions = [0.0] * (k or 0)
        self.only: dict[str, Any] = {}

    def add(self, window: dict[str, Any]) -> None:
        self.windows += 1
        self.only = window if self.windows == 1 else {}
        if window["accepted"] is not None and window["drafted"] is not None:
            self.counted += 1
            self.accepted += window["accepted"]
            self.drafted += window["drafted"]
        drafts = window["num_drafts"]
        self.drafts = None if drafts is None or self.drafts is None else self.drafts + drafts
        if drafts and self.k:
            self.positions = [
                s + p * drafts for s, p in zip(self.positions, window["per_position"], strict=True)
            ]

    def facts(self) -> dict[str, Any]:
        if self.only:
            return {name: value for name, value in self.only.items() if name != "line"}
        known = self.counted == self.windows
        positions = [round(s / self.drafts, 4) for s in self.positions] if self.drafts and self.k else None
        return {
            "k": self.k,
            "accepted": self.accepted if known else None,
            "drafted": self.drafted if known else None,
            "acceptance": round(self.accepted / self.drafted, 5) if known and self.drafted else None,
            "num_drafts": self.drafts,
            "mean_len": round(1 + self.accepted / self.drafts, 4) if known and self.drafts else None,
            "mean_len_definition": "with_bonus" if known and self.drafts else None,
            "per_position": positions,
        }


class VllmStatistics:
    """All statistics of one vLLM log."""

    def __init__(self) -> None:
        self.metrics = Metrics("vllm")
        self.cumulative: list[dict[str, Any]] = []
        self.cumulative_lines = 0
        self.lengths: dict[int | None, _Length] = {}
        self.windows: list[dict[str, Any]] = []
        self.throughput: list[float] = []
        self.engines: list[str] = []
        self.busy_windows = 0
        self.bench: dict[str, Any] = {}
        self.rows: list[dict[str, Any]] = []
        self.first_line: int | None = None
        self.resets: list[int] = []

    def take(self, record: str, values: dict[str, Any], line: Line) -> None:
        """Take the values of one statistics line."""
        if record == "sample":
            self.metrics.take(values["sample"], line.number)
        elif record == "v0_cumulative":
            self._cumulative(values, line)
        elif record == "v1_window":
            self._window(values, line)
        elif record == "throughput":
            self.busy_windows += bool(values["generation_tok_s"])
            engine = values.get("engine")
            if engine is not None and engine not in self.engines and len(self.engines) < MOST_ENGINES:
                self.engines.append(engine)
            if len(self.throughput) < MOST_WINDOWS:
                self.throughput.append(values["generation_tok_s"])
        elif record == "client_row" and values["ttft_ms"] is not None and len(self.rows) < MOST_WINDOWS:
            self.rows.append(values)
        elif record == "bench_text":
            self._bench_text(values["bench_label"], values["bench_number"])
        elif record == "bench_json":
            self._bench(values["bench_key"], values["bench_value"], line)

    def _cumulative(self, values: dict[str, Any], line: Line) -> None:
        counts = {name: values.get(name) for name in ("accepted", "drafted", "emitted")}
        if self.cumulative and any(
            new is not None and old is not None and new < old
            for new, old in zip(counts.values(), self.cumulative[-1]["counts"].values(), strict=True)
        ):
            self.resets.append(line.number)
        self.cumulative_lines += 1
        entry = {"line": line.number, "counts": counts, "values": values}
        self.cumulative = [*self.cumulative[:1], entry]
        self.first_line = self.first_line or line.number

    def _window(self, values: dict[str, Any], line: Line) -> None:
        positions = values.get("per_position") or None
        k = len(positions) if positions else None
        accepted, drafted = values.get("accepted"), values.get("drafted")
        mean_len = values.get("mean_len")
        drafts = drafted // k if k and drafted is not None and drafted % k == 0 else None
        definition = _definition(accepted, drafts, mean_len)
        if drafts is not None and mean_len is not None and definition is None:
            drafts = None
        acceptance = values.get("acceptance_percent", values.get("acceptance"))
        window = {
            "k": k,
            "accepted": accepted,
            "drafted": drafted,
            "acceptance": acceptance,
            "num_drafts": drafts,
            "mean_len": mean_len,
            "mean_len_definition": definition,
            "per_position": positions,
            "line": line.number,
        }
        self.lengths.setdefault(k, _Length(k)).add(window)
        if len(self.windows) < MOST_WINDOWS:
            self.windows.append(window)
        self.first_line = self.first_line or line.number

    def _bench(self, key: str, value: str, line: Line) -> None:
        fact = _BENCH.get(key)
        self.first_line = self.first_line or line.number
        if fact == "per_position":
            text = value + " ".join(raw.decode("utf-8", "replace") for raw in line.following)
            self.bench[fact] = [round(item, 5) for item in convert(fact, text.partition("]")[0])]
        elif fact == "acceptance" and (rate := convert("acceptance", value)) is not None:
            self.bench[fact] = round(rate / 100, 5)
        elif fact:
            number = convert(fact, value)
            self.bench[fact] = round(number, 5) if isinstance(number, float) else number

    def _bench_text(self, label: str, text: str) -> None:
        """Read a row of a printed result; rates are percent, but for the offline example's rates per position."""
        name = _BENCH_TEXT.get(label)
        value = convert(name or "acceptance", text)
        if name is not None:
            self.bench[name] = round(value / 100, 6) if label.endswith("(%)") and value is not None else value
        elif value is not None and len(known := self.bench.setdefault("per_position", [])) == int(
            label.split()[-1][:6]
        ):
            known.append(value if label.startswith("acceptance") else round(value / 100, 6))

    def facts(self) -> dict[str, Any]:
        """Return what the lines add up to."""
        found: dict[str, Any] = dict(self.metrics.facts())
        if self.throughput:
            found |= {"generation_tok_s": self.throughput[0]} if len(self.throughput) == 1 else {}
        if self.engines:
            found["engine"] = self.engines[0] if len(self.engines) == 1 else self.engines
        if self.bench:
            found |= self.bench
            found["k"] = len(self.bench["per_position"]) if self.bench.get("per_position") else None
        if self.lengths:
            found |= {"engine_gen": "V1", "scope": "window"}
            found |= self._window_facts()
        if self.rows:
            found |= _client_facts(self.rows)
        if self.cumulative:
            last = self.cumulative[-1]
            found |= {"engine_gen": "V0", "scope": "cumulative"} | last["values"]
            if len(self.cumulative) > 1:
                found |= {"lines": self.cumulative_lines, "last": last["counts"], "delta": self._difference()}
        return found

    def _window_facts(self) -> dict[str, Any]:
        if len(self.lengths) == 1:
            return next(iter(self.lengths.values())).facts()
        arms = {}
        for k, length in self.lengths.items():
            facts = length.facts()
            arms[str(k)] = {name: facts[name] for name in ("per_position", "acceptance")}
        known = [length for length in self.lengths.values() if length.counted == length.windows]
        total = len(known) == len(self.lengths)
        return {
            "arms": arms,
            "accepted": sum(length.accepted for length in known) if total else None,
            "drafted": sum(length.drafted for length in known) if total else None,
            "k": None,
            "per_position": None,
        }

    def _difference(self) -> dict[str, int | None] | None:
        if self.resets:
            return None
        first, last = self.cumulative[0]["counts"], self.cumulative[-1]["counts"]
        return {
            name: last[name] - first[name] if None not in (last[name], first[name]) else None for name in last
        }

    def drafted(self) -> int | None:
        """Return how many draft tokens the statistics show in all; None when there are none."""
        facts = self.facts()
        value = facts.get("drafted")
        return value if isinstance(value, int) else None

    def findings(self) -> Iterator[Finding]:
        """Yield what the numbers show and the lines do not say."""
        if self.resets:
            message = "cumulative counters went back: the server restarted, no difference is taken across it"
            yield Finding("counter_reset", "error", message, tuple(self.resets[:20]))
        for k, length in self.lengths.items():
            facts = length.facts()
            positions = facts["per_position"] or []
            dead = [index for index, value in enumerate(positions) if value == 0]
            if k and len(dead) >= 2 and dead[-1] == k - 1 and (facts["num_drafts"] or 0) >= DEAD_DRAFTS:
                message = (
                    f"draft positions {dead[0] + 1}..{k} were never accepted: the drafter is cut or wrong"
                )
                yield Finding("dead_positions", "warn", message, (self.first_line or 0,))
        if len(self.lengths) > 1:
            lengths = sorted(str(k) for k in self.lengths)
            message = f"windows with different draft lengths ({', '.join(lengths)}): not added up"
            yield Finding("draft_length_changes", "note", message, (self.first_line or 0,))

    def summary(self) -> dict[str, Any]:
        """Return the kept records and the definition each was read under."""
        found: dict[str, Any] = {}
        if self.windows:
            found["windows"] = {
                "definition": "V1 line: counts of about ten seconds, "
                "added up; per_position is survival per draft",
                "count": sum(length.windows for length in self.lengths.values()),
                "first": self.windows,
            }
        if self.cumulative:
            found["cumulative"] = {
                "definition": "V0 line: counts since the start, differenced; emitted counts the bonus token",
                "count": self.cumulative_lines,
                "first": self.cumulative[0],
                "last": self.cumulative[-1],
            }
        if self.throughput:
            found["generation_tok_s"] = {"lines": len(self.throughput), "first": self.throughput}
        if delta := self.metrics.delta():
            found["metrics_delta"] = dict(delta)
        return found


def _client_facts(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Tell from a client's rows whether its first request was cold and which ended before the token limit."""
    found: dict[str, Any] = {}
    longest = max(row["toks"] or 0 for row in rows)
    short = [row["toks"] for row in rows if row["toks"] is not None and row["toks"] < longest]
    if short:
        found["early_eos_runs_tokens"] = short
    if len(rows) > 1 and rows[0]["ttft_ms"] > COLD_TTFT_RATIO * rows[1]["ttft_ms"]:
        found["cold_first_request"] = {
            "ttft_ms": rows[0]["ttft_ms"],
            "warm_ttft_ms": rows[1]["ttft_ms"],
            "decode_tps": rows[0]["decode_tps"],
            "warm_decode_tps": rows[1]["decode_tps"],
        }
    return found


def _definition(accepted: int | None, drafts: int | None, mean_len: float | None) -> str | None:
    """Tell whether a printed mean acceptance length counts the bonus token (since 0.10.2) or not (0.8.5)."""
    if accepted is None or not drafts or mean_len is None:
        return None
    if abs(1 + accepted / drafts - mean_len) < BONUS_TOLERANCE:
        return "with_bonus"
    return "without_bonus" if abs(accepted / drafts - mean_len) < BONUS_TOLERANCE else None
