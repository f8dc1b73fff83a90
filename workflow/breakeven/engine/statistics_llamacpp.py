"""llama.cpp's statistics: timings and acceptance per request, and `statistics` lines that count from the start."""

from collections.abc import Iterator
from typing import Any

from breakeven.engine.facts import Finding
from breakeven.engine.logtext import Line
from breakeven.engine.patterns import convert
from breakeven.engine.statistics_metrics import Metrics

MOST_REQUESTS = 2_000
_TOOL_NAMES = {
    "n_drafted": "drafted",
    "n_accept": "accepted",
    "accept": "acceptance",
    "t_draft": "t_draft_ms",
}
_TIMING_NAMES = {
    "prompt_per_second": "pp",
    "predicted_per_second": "tg",
    "draft_n": "drafted",
    "draft_n_accepted": "accepted",
}
_IMPL_COUNTS = ("calls", "gen_drafts", "acc_drafts", "gen_tokens", "acc_tokens")


class LlamacppStatistics:
    """All statistics of one llama.cpp log."""

    def __init__(self) -> None:
        self.metrics = Metrics("llamacpp")
        self.requests: list[dict[str, Any]] = []
        self.current: dict[str, Any] = {}
        self.served = 0
        self.drafted_total: int | None = None
        self.accepted_total: int | None = None
        self.impl: dict[str, dict[str, Any]] = {}
        self.depth_changes: list[list[int]] = []
        self.depth_last: dict[str, int] | None = None
        self.progress: dict[str, Any] = {}
        self.blocks: dict[str, dict[str, Any]] = {}
        self.block = ""
        self.tool: dict[str, Any] = {}
        self.timings: list[dict[str, Any]] = []
        self.rows: list[list[Any]] = []
        self.option: dict[str, float] = {}
        self.resets: list[int] = []

    def take(self, record: str, values: dict[str, Any], line: Line) -> None:
        """Take the values of one statistics line."""
        match record:
            case "sample":
                self.metrics.take(values["sample"], line.number)
            case "request_prompt":
                self._open(line, values)
            case "request_eval":
                self._eval(line, values)
            case "request_acceptance":
                self._acceptance(line, values)
            case "request_positions" if self.current:
                self.current["per_position"] = values["per_position"]
            case "statistics":
                self._implementation(values, line)
            case "depth_change":
                self._depth(values)
            case "progress":
                self.progress = values
            case "tool_block":
                self.block = values["tool_block"]
            case "tool_prompt" | "tool_eval":
                self.blocks.setdefault(self.block, {}).update(values)
            case "tool_count":
                self._tool(values["tool_key"], values["tool_value"])
            case "timings_json":
                self._timing(values["timing_key"], values["timing_value"])
            case "option":
                self._option(values["option"], values["option_value"])
            case "bench_row" if len(self.rows) < MOST_REQUESTS:
                self.rows.append(
                    [values.get(n) for n in ("prompt_name", "predicted_n", "drafted", "accepted", "tok_s")]
                )

    def _open(self, line: Line, values: dict[str, Any]) -> None:
        self.current = {"line": line.number, **values, **self.option}
        if len(self.requests) < MOST_REQUESTS:
            self.requests.append(self.current)

    def _eval(self, line: Line, values: dict[str, Any]) -> None:
        if not self.current or "predicted_n" in self.current:
            self._open(line, {})
        self.current.update({name: value for name, value in values.items() if name != "counted"})
        self.served += 1

    def _acceptance(self, line: Line, values: dict[str, Any]) -> None:
        if not self.current or "drafted" in self.current:
            self._open(line, {})
        self.current.update(values)
        if values["accepted"] is not None and values["drafted"] is not None:
            self.accepted_total = (self.accepted_total or 0) + values["accepted"]
            self.drafted_total = (self.drafted_total or 0) + values["drafted"]

    def _implementation(self, values: dict[str, Any], line: Line) -> None:
        name = values.pop("impl")
        if "calls" not in values and values.get("calls_draft") is not None:
            values["calls"] = values["calls_draft"]
        before = self.impl.get(name)
        if before is None and len(self.impl) >= 100:
            return
        if before and any((values.get(c) or 0) < (before["last"].get(c) or 0) for c in _IMPL_COUNTS):
            self.resets.append(line.number)
        entry = values | {"line": line.number}
        self.impl[name] = (
            {"first": before["first"], "last": entry} if before else {"first": entry, "last": entry}
        )

    def _depth(self, values: dict[str, Any]) -> None:
        if len(self.depth_changes) < MOST_REQUESTS:
            self.depth_changes.append([values["depth_from"], values["depth_to"]])
        counts: dict[str, int] = {n: values[n] for n in ("cur_accepted", "cur_generated") if n in values}
        self.depth_last = counts or self.depth_last

    def _tool(self, key: str, text: str) -> None:
        name = _TOOL_NAMES.get(key, key)
        value = convert(name, text)
        self.tool[name] = round(value / 100, 7) if key == "accept" and value is not None else value

    def _timing(self, key: str, text: str) -> None:
        name = _TIMING_NAMES.get(key, key)
        if not self.timings or name in self.timings[-1]:
            if len(self.timings) >= MOST_REQUESTS:
                return
            self.timings.append({})
        value = convert(name, text)
        self.timings[-1][name] = round(value, 3) if name in ("pp", "tg") and value is not None else value

    def _option(self, option: str, text: str) -> None:
        name = "p_min" if option == "p-min" else "n_max"
        if (value := convert(name, text)) is not None:
            self.option[name] = value

    def facts(self) -> dict[str, Any]:
        """Return what the lines add up to; one request gives flat facts, several give `runs`."""
        found = dict(self.metrics.facts())
        found |= self._block_facts() | self.tool | self._json_facts() | self._request_facts()
        if self.impl:
            found["impl"] = {name: _counts(entry["last"]) for name, entry in self.impl.items()}
            if len(self.impl) > 1:
                found["sum_impl"] = {
                    count: _total([entry.get(count) for entry in found["impl"].values()])
                    for count in ("gen_tokens", "acc_tokens")
                }
        if self.depth_changes:
            found |= {"depth_changes": self.depth_changes, "last": self.depth_last}
        found |= {name: value for name, value in self.progress.items() if name not in found}
        if self.rows:
            longest = max((row[1] or 0) for row in self.rows)
            found |= {
                "rows": self.rows,
                "early_stop": [row[0] for row in self.rows if (row[1] or 0) < longest],
            }
        return found

    def _block_facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for block, values in self.blocks.items():
            if block == "draft":
                found["draft_block"] = {n: values[n] for n in ("eval_runs", "eval_ms") if n in values}
            else:
                found |= values
        return found

    def _json_facts(self) -> dict[str, Any]:
        if len(self.timings) != 1:
            return {"runs": [_run(timing) for timing in self.timings]} if self.timings else {}
        found = dict(self.timings[0])
        found.setdefault("drafted", None)
        found.setdefault("accepted", None)
        drafted, accepted, predicted = found["drafted"], found["accepted"], found.get("predicted_n")
        if drafted and accepted is not None:
            found["acceptance"] = round(accepted / drafted, 5)
            if predicted and predicted > accepted:
                found |= {
                    "steps": predicted - accepted,
                    "tokens_per_step": round(predicted / (predicted - accepted), 4),
                }
        return found

    def _request_facts(self) -> dict[str, Any]:
        if not self.requests:
            return {}
        if len(self.requests) == 1:
            only = {name: value for name, value in self.requests[0].items() if name != "line"}
            return {"accepted": None, "drafted": None} | only
        options = [name for name in ("p_min", "n_max") if len({r.get(name) for r in self.requests}) > 1]
        if options and all("drafted" in request for request in self.requests):
            names = (*options, "accepted", "drafted", "acceptance")
            return {"arms": [{name: request.get(name) for name in names} for request in self.requests]}
        found: dict[str, Any] = {"accepted": self.accepted_total, "drafted": self.drafted_total}
        if self.drafted_total and self.accepted_total is not None:
            found["acceptance"] = round(self.accepted_total / self.drafted_total, 5)
        return found | {"runs": [_run(request) for request in self.requests]}

    def drafted(self) -> int | None:
        """Return how many draft tokens were submitted in all, 0 when requests were served and none drafted."""
        if self.drafted_total is not None:
            return self.drafted_total
        known = [entry["last"].get("gen_tokens") for entry in self.impl.values()]
        if known and None not in known:
            return int(sum(known))
        value = self.metrics.facts().get("drafted")
        if isinstance(value, int):
            return value
        timed = [timing.get("drafted") for timing in self.timings]
        if any(isinstance(item, int) for item in timed):
            return sum(item for item in timed if isinstance(item, int))
        return 0 if self.served or self.timings else None

    def findings(self) -> Iterator[Finding]:
        """Yield what the numbers show and the lines do not say."""
        if self.resets:
            message = (
                "cumulative statistics went back: the server restarted, no difference is taken across it"
            )
            yield Finding("counter_reset", "error", message, tuple(self.resets[:20]))
        cached = [r for r in [*self.requests, *self.timings] if r.get("prompt_n") == 1]
        if cached:
            message = f"{len(cached)} request(s) computed one prompt "
            "token: the prompt was cached, prefill speed is "
            "void"
            yield Finding(
                "prompt_cached", "warn", message, tuple(r["line"] for r in cached[:20] if "line" in r)
            )
        if self.depth_changes:
            yield Finding(
                "draft_length_changes",
                "warn",
                "the draft length changes inside requests: 1 + N*rate is invalid",
            )

    def summary(self) -> dict[str, Any]:
        """Return the kept records and the definition each was read under."""
        found: dict[str, Any] = {}
        if self.requests:
            found["requests"] = {
                "definition": "print_timing: one request each; "
                "acceptance = accepted / drafted of that request",
                "count": max(self.served, len(self.requests)),
                "first": self.requests,
            }
        if self.impl:
            found["implementations"] = {
                "definition": "statistics: cumulative over the process; "
                "delta = last - first line; g of dur(b,g,a) = "
                "drafting",
                "last": {name: entry["last"] for name, entry in self.impl.items()},
                "delta": {name: _difference(entry, bool(self.resets)) for name, entry in self.impl.items()},
            }
        if self.timings:
            found["timings"] = {
                "definition": "`timings` of responses: one request each",
                "first": self.timings,
            }
        if delta := self.metrics.delta():
            found["metrics_delta"] = dict(delta)
        return found


def _run(request: dict[str, Any]) -> dict[str, Any]:
    run = {name: request.get(name) for name in ("prompt_n", "pp", "tg")}
    run["valid"] = request.get("prompt_n") != 1
    if "drafted" in request:
        run |= {name: request.get(name) for name in ("accepted", "drafted", "acceptance")}
    return run


def _counts(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in (*_IMPL_COUNTS, "dur_ms") if name in entry}


def _difference(entry: dict[str, Any], reset: bool) -> dict[str, int] | None:
    first, last = entry["first"], entry["last"]
    if reset:
        return None
    return {
        c: last[c] - first[c] for c in _IMPL_COUNTS if last.get(c) is not None and first.get(c) is not None
    }


def _total(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
