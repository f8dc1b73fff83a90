"""Start-up facts that need more than one line: progress bars, kernels per layer kind, buffers per device, devices."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from breakeven.engine.logtext import Line

MOST_ITEMS = 2_000
"""Entries of one collection that are kept; a log that repeats a line forever must not fill memory."""
_STAMP = re.compile(r"\b(?:\d{4}-)?(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)")
_WEIGHT_ONLY = "marlin_weight_only_"


@dataclass(frozen=True)
class Told:
    """A fact of several lines, with the line that completed it."""

    value: Any
    line: Line
    complete: bool = True


class Structure:
    """Collects the records of start-up lines."""

    def __init__(self) -> None:
        self.bars: dict[str, tuple[int, int, Line]] = {}
        self.told: dict[str, tuple[Any, Line]] = {}
        self.counts: dict[str, int] = {}
        self.capture = ""
        self.stamps: list[float] = []

    def take(self, record: str, values: dict[str, Any], line: Line, scope: str) -> bool:
        """Take a start-up record; False when the record is not of this kind."""
        handler = getattr(self, f"_{record}", None)
        if handler is None:
            return False
        handler(values, line, scope)
        return True

    def _put(self, name: str, value: Any, line: Line) -> None:
        if name in self.told or len(self.told) < MOST_ITEMS:
            self.told[name] = (value, self.told[name][1] if name in self.told else line)

    def _first(self, name: str, value: Any, line: Line) -> None:
        if name not in self.told:
            self._put(name, value, line)

    def _append(self, name: str, value: Any, line: Line, unique: bool = True) -> None:
        items = self.told[name][0] if name in self.told else []
        if len(items) < MOST_ITEMS and not (unique and value in items):
            self._put(name, [*items, value], line)

    def _under(self, name: str, key: str, value: Any, line: Line) -> None:
        items: dict[str, Any] = self.told[name][0] if name in self.told else {}
        if key in items or len(items) < MOST_ITEMS:
            self._put(name, items | {key: value}, line)

    def _bar(self, values: dict[str, Any], line: Line, scope: str) -> None:
        name = _bar_name(values["bar"], values.get("bar_detail") or "", self.capture)
        if (
            values["done"] is None
            or values["total"] is None
            or (name not in self.bars and len(self.bars) > 100)
        ):
            return
        self.bars[name] = (values["done"], values["total"], line)

    def _capture_begin(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self.capture = (values.get("capture") or "").replace(" ", "_")

    def _capture_end(self, values: dict[str, Any], line: Line, scope: str) -> None:
        what = (values.get("capture") or "target").replace(" ", "_")
        rank = line.rank or "all"
        prefix = "graph" if what == "target" else f"{what}_graph"
        for name, unit in (("secs", "secs"), ("gb", "gb")):
            if values.get(name) is not None:
                self._under(f"{prefix}_{unit}", rank, values[name], line)
        self._put(what, {name: values.get(name) for name in ("secs", "gb")}, line)

    def _kv_pool(self, values: dict[str, Any], line: Line, scope: str) -> None:
        rank = line.rank or "all"
        seen = self.counts.get(f"pool {rank}", 0)
        self.counts[f"pool {rank}"] = seen + 1
        if seen < 2:
            for name, value in values.items():
                self._first(f"draft_{name}" if seen else name, value, line)
            if not seen and self.told["kv_tokens"][0] != values.get("kv_tokens"):
                self._under("kv_tokens_by_rank", rank, values.get("kv_tokens"), line)

    def _kernel(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._first("kernel", values["kernel"], line)
        self._first("kernel_for", values["kernel_for"], line)
        self._grouped("kernels", values["kernel_for"], values["kernel"], line)

    def _moe(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._first("moe_backend", values["moe_backend"], line)
        self._grouped("moe_backends", values["moe_kind"], values["moe_backend"], line)

    def _grouped(self, name: str, key: str, value: Any, line: Line) -> None:
        """Keep one value a key, or the list of its values when lines of one log name several."""
        before = self.told[name][0].get(key) if name in self.told else None
        known = before if isinstance(before, list) else [] if before is None else [before]
        if value not in known and len(known) < 100:
            self._under(name, key, [*known, value] if known else value, line)

    def _gdn_kernel(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._put(f"gdn_{values['gdn_stage'].replace(' ', '_')}_kernel", values["gdn_kernel"], line)

    def _gdn_fused(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._first(f"{_scoped(scope)}gdn_{values['gdn_stage']}_fused", values.get("gdn_fused") is True, line)

    def _shared(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._put(f"{values['shared']}_shared", True, line)
        self._first("drafter_kind", values["drafter_kind"], line)
        self._first("drafter_loaded", True, line)

    def _weight_only(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._first("wanted", values["wanted"].lower(), line)
        self._first("fallback", _WEIGHT_ONLY + values["wanted"].lower(), line)

    def _fallback(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._first("wanted", values["wanted"], line)
        self._first("fallback", values["fallback"], line)
        self._put("count", self.told.get("count", (0, line))[0] + 1, line)

    def _fallback_note(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._append("falls_back_to", values["fallback"].rstrip("."), line)

    def _warning(self, values: dict[str, Any], line: Line, scope: str) -> None:
        """Only the finding counts."""

    def _jit(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._append("jit_kernels", values["jit_kernel"], line)
        if (stamp := _seconds(line.text)) is not None:
            self.stamps = [*self.stamps[:1], stamp]
            if len(self.stamps) == 2 and self.stamps[1] >= self.stamps[0]:
                self._put("first_to_last_s", int(self.stamps[1] - self.stamps[0]), line)

    def _lazy_graph(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._put("lazy", True, line)
        if values.get("graph_size") is not None:
            self._append("graphs", values["graph_size"], line, unique=False)
        if values.get("graph_mib_each") is not None:
            self._append("graph_mib", values["graph_mib_each"], line, unique=False)

    def _kv_line(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._put("kv_lines", self.told.get("kv_lines", (0, line))[0] + 1, line)

    def _offload(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._first(f"{_scoped(scope)}layers_offloaded", [values["layers_done"], values["layers_all"]], line)

    def _model_buffer(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._add(f"{_scoped(scope)}model_mib", values, line)

    def _kv_buffer(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._add(f"{_scoped(scope)}kv_by_device_mib", values, line)

    def _compute_buffer(self, values: dict[str, Any], line: Line, scope: str) -> None:
        """Keep the first reservation: the buffers are reserved anew once drafting is set up."""
        name = f"{_scoped(scope)}compute_mib"
        if scope != "-" and values["buffer_device"] not in (self.told[name][0] if name in self.told else {}):
            self._under(name, values["buffer_device"], values["mib"], line)

    def _add(self, name: str, values: dict[str, Any], line: Line) -> None:
        device, mib = values["buffer_device"], values["mib"]
        if mib is not None:
            before = self.told[name][0].get(device, 0.0) if name in self.told else 0.0
            self._under(name, device, round(before + mib, 4), line)

    def _eos_biased(self, values: dict[str, Any], line: Line, scope: str) -> None:
        if not scope:
            self._put("eos_biased", self.told.get("eos_biased", (0, line))[0] + 1, line)

    def _device(self, values: dict[str, Any], line: Line, scope: str) -> None:
        index = int(values["device_index"][:6])
        if index < 1000:
            self._first(f"device{index}", values["device_name"].strip(), line)
        for name in ("compute_capability", "gfx"):
            if name in values:
                self._first(name, values[name], line)

    def _system_info(self, values: dict[str, Any], line: Line, scope: str) -> None:
        for name in ("threads", "threads_batch", "cores"):
            if values.get(name) is not None:
                self._first(name, values[name], line)
        told = values.get("system_info") or ""
        found = re.findall(r"(\w+) = (\d+)", told.rpartition("CPU :")[2])
        if found:
            self._first("cpu_features", [name for name, value in found if value != "0"], line)

    def _clamp(self, values: dict[str, Any], line: Line, scope: str) -> None:
        self._put("spec_n_asked", values["spec_n_asked"], line)
        self._put("spec_n_clamped", int(values["n_max_clamped"][:9]), line)

    def facts(self, graphs_finished: bool, failed: bool) -> Iterator[tuple[str, Told]]:
        """Yield the collected facts; a bar that was cut off gives no count, only what was seen of it.

        A bar that stands at 0 when the engine dies has captured nothing: that is a 0, not an unknown.
        """
        for name, (value, line) in self.told.items():
            yield name, Told(value, line)
        for name, (done, total, line) in self.bars.items():
            whole = done >= total or graphs_finished
            yield name, Told(total if whole else 0 if failed and not done else None, line, whole)
            yield f"{name}_seen", Told(total if whole else done, line)
            yield f"{name}_total", Told(total, line)
            if name == "graphs":
                yield "graphs_mode", Told("unspecified", line)
        if self.bars:
            lines = [line for _, _, line in self.bars.values()]
            done = all(done >= total for done, total, _ in self.bars.values()) or graphs_finished
            yield "complete", Told(done, lines[-1], done)


def _scoped(scope: str) -> str:
    return scope if scope == "draft_" else ""


def _bar_name(what: str, detail: str, capture: str) -> str:
    if what in ("batches", "num tokens"):
        kind = "graphs_decode" if what == "batches" else "graphs_piecewise"
        return f"{capture}_{kind}" if capture else kind
    draft = "draft_" if re.search(r"draft|eagle|specul|mtp", f"{what} {detail}", re.IGNORECASE) else ""
    mode = next((mode for mode in ("PIECEWISE", "FULL") if mode in detail.upper()), "")
    stage = "prefill_" if "prefill" in what else ""
    return f"{draft}{stage}graphs_{mode.lower()}" if mode else f"{draft}{stage}graphs"


def _seconds(text: str) -> float | None:
    """Return a log stamp as seconds inside its month; enough to tell how long a start took."""
    found = _STAMP.search(text)
    if not found:
        return None
    _, day, hour, minute, second = (int(part) for part in found.groups())
    return ((day * 24 + hour) * 60 + minute) * 60 + second
