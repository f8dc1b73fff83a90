"""SGLang's decode batches: windows per rank, and which of two definitions their accept rate follows."""

from collections.abc import Iterator
from statistics import median
from typing import Any

from breakeven.engine.facts import Finding
from breakeven.engine.logtext import Line
from breakeven.engine.statistics_metrics import Metrics

MOST_WINDOWS = 2_000
COLD_SHARE = 0.1
"""A window slower than this share of the median holds a compile or an idle time."""
LONGEST_DRAFT = 64
OLD_RATE, NEW_RATE = "len/num_draft_tokens", "(len-1)/(num_draft_tokens-1)"


class SglangStatistics:
    """All statistics of one SGLang log."""

    def __init__(self) -> None:
        self.metrics = Metrics("sglang")
        self.windows: list[dict[str, Any]] = []
        self.latest: dict[str | None, dict[str, Any]] = {}
        self.seen = 0
        self.graphless: list[int] = []
        self.prefill: list[dict[str, Any]] = []
        self.runs: list[dict[str, Any]] = []
        self.asked_drafts: int | None = None

    def take(self, record: str, values: dict[str, Any], line: Line) -> None:
        """Take the values of one statistics line."""
        if record == "sample":
            self.metrics.take(values["sample"], line.number)
        elif record == "decode_batch":
            window = {"rank": line.rank, "line": line.number, **values}
            self.seen += 1
            if len(self.latest) < 1000 or line.rank in self.latest:
                self.latest[line.rank] = window
            if len(self.windows) < MOST_WINDOWS:
                self.windows.append(window)
            if values.get("cuda_graph") is False:
                self.graphless = [*self.graphless[:19], line.number]
        elif record == "prefill_batch" and len(self.prefill) < MOST_WINDOWS:
            self.prefill.append({"rank": line.rank, "line": line.number, **values})
        elif record == "bench_run" and len(self.runs) < MOST_WINDOWS:
            self.runs.append({name: values[name] for name in ("tok_s", "accept_len")})

    def facts(self) -> dict[str, Any]:
        """Return what the lines add up to; one window gives flat facts, several `windows`, several ranks lists."""
        found = dict(self.metrics.facts())
        if self.windows:
            found |= self._windows()
        if len(self.prefill) == 1 and not self.windows:
            found |= {n: v for n, v in self.prefill[0].items() if n not in ("rank", "line", "queued")}
        if self.runs:
            found["runs"] = self.runs
        return found

    def _windows(self) -> dict[str, Any]:
        drafts, definition = rate_definition(
            [
                (w["accept_len"], w["accept_rate"])
                for w in self.windows
                if _has(w, "accept_len") and _has(w, "accept_rate")
            ],
            self.asked_drafts,
        )
        found: dict[str, Any] = {"rate_definition": definition}
        found |= {"num_draft_tokens": drafts} if drafts else {}
        if len(self.latest) > 1:
            ranks = list(self.latest.values())
            found["ranks"] = [w["rank"] for w in ranks]
            for name in ("accept_len", "accept_rate", "gen_tok_s", "cuda_graph", "running"):
                values = [w.get(name) for w in ranks]
                found[name] = values if name in ("accept_len", "gen_tok_s") else _one(values)
            found["accept_len"] = found["accept_len"] if any(found["accept_len"]) else None
            return found
        if self.seen == 1:
            names = ("accept_len", "accept_rate", "gen_tok_s", "cuda_graph", "running")
            return found | {name: self.windows[0].get(name) for name in names}
        typical = (
            median(w["gen_tok_s"] for w in self.windows if _has(w, "gen_tok_s")) if self._speeds() else 0.0
        )
        found["windows"] = [
            {
                "accept_len": w.get("accept_len"),
                "accept_rate": w.get("accept_rate"),
                "gen_tok_s": w.get("gen_tok_s"),
                "cuda_graph": w.get("cuda_graph"),
                "valid": w.get("cuda_graph") is not False
                and (w.get("gen_tok_s") or 0.0) >= COLD_SHARE * typical,
            }
            for w in self.windows
        ]
        return found

    def _speeds(self) -> bool:
        return any(_has(w, "gen_tok_s") for w in self.windows)

    def drafted(self) -> int | None:
        """Return 1 when some window shows speculation, 0 when windows show none, None without windows."""
        if any(_has(w, "accept_len") for w in self.windows):
            return 1
        page = self.metrics.facts()
        if isinstance(page.get("drafted"), int):
            return int(page["drafted"])
        if page.get("accept_len") is not None:
            return int(page["accept_len"] > 0)
        return 0 if self.windows else None

    def findings(self) -> Iterator[Finding]:
        """Yield what the numbers show and the lines do not say."""
        if self.graphless:
            message = "decode batches ran without CUDA graphs: their speed is not that of the others"
            yield Finding("decode_without_graphs", "warn", message, tuple(self.graphless))
        ones = [w["line"] for w in self.windows if w.get("accept_len") == 1.0]
        if ones:
            message = "accept length 1.00: nothing was accepted in these windows"
            yield Finding("nothing_accepted", "warn", message, tuple(ones[:20]))

    def summary(self) -> dict[str, Any]:
        """Return the kept records and the definition each was read under."""
        found: dict[str, Any] = {}
        if self.windows:
            _, definition = rate_definition(
                [
                    (w["accept_len"], w["accept_rate"])
                    for w in self.windows
                    if _has(w, "accept_len") and _has(w, "accept_rate")
                ],
                self.asked_drafts,
            )
            found["windows"] = {
                "definition": "Decode batch: means since the rank's last "
                "such line; accept len counts the bonus token",
                "rate_definition": definition,
                "count": self.seen,
                "first": self.windows,
            }
        if self.prefill:
            found["prefill"] = {
                "definition": "Prefill batch: new tokens are computed, cached are not",
                "first": self.prefill,
            }
        if delta := self.metrics.delta():
            found["metrics_delta"] = dict(delta)
        return found


def rate_definition(
    pairs: list[tuple[float, float]], asked: int | None = None
) -> tuple[int | None, str | None]:
    """Find the draft count D and the definition under which every (accept len, accept rate) pair is consistent.

    Old: rate = len/D. New: rate = (len-1)/(D-1). Both figures are printed with two decimals. (None, None) when
    no D fits, or both definitions fit (a full or an empty acceptance fits both) and `asked` does not decide.
    """
    fits = [
        (drafts, definition)
        for definition, offset in ((OLD_RATE, 0), (NEW_RATE, 1))
        for drafts in range(2, LONGEST_DRAFT + 1)
        if (asked is None or drafts == asked)
        and pairs
        and all(
            abs((length - offset) / (drafts - offset) - rate) <= 0.005 + 0.005 / (drafts - offset) + 1e-9
            for length, rate in pairs
        )
    ]
    return fits[0] if len(fits) == 1 else (None, None)


def _has(window: dict[str, Any], name: str) -> bool:
    return window.get(name) is not None


def _one(values: list[Any]) -> Any:
    return values[0] if all(value == values[0] for value in values) else values
