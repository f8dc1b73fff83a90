"""Bytes of a model's decode step, held against the times that were measured (Method 7).

`model_bytes` reads headers and is stored; `against_time` is pure and speaks of what bandwidth was reached, and
whether the measured cost of a drafted token agrees with the bytes that it reads.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from breakeven.analysis.architecture import architecture, attention_layers, recurrent_state_bytes
from breakeven.analysis.comparison import CellNumbers
from breakeven.analysis.headers import Checkpoint, end_of_text, read_checkpoint
from breakeven.analysis.traffic import Bandwidth, achieved_gb_s, check_bytes, kv_bytes, step_bytes
from breakeven.errors import BreakevenError


def element_bytes(name: str | None) -> float | None:
    """Bytes of one element of a cache type such as f16, q8_0 or bfloat16; None when the name is not known."""
    spelled = {
        "bfloat16": "BF16",
        "float16": "F16",
        "half": "F16",
        "fp8": "I8",
        "fp8_e4m3": "I8",
        "fp8_e5m2": "I8",
    }
    key = spelled.get(str(name).lower(), str(name).upper())
    if key not in GGMLQuantizationType.__members__:
        return None
    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[key]]
    return size / elements


@cache
def _headers(path: Path) -> Checkpoint:
    """Headers of a model, read once: the arms of an experiment mostly share their files."""
    return read_checkpoint(path)


def model_bytes(path: Path, depths: Sequence[int], cache_type: str | None) -> dict[str, Any]:
    """Bytes that one step reads, and what ends a text, from the model's headers: JSON data. What cannot be known is
    None with its reason.
    """
    document: dict[str, Any] = {"model": path.name, "target": None, "draft": None, "b": None, "reason": None}
    document["eos_ids"] = []
    try:
        checkpoint = _headers(path)
        document["eos_ids"] = end_of_text(checkpoint)
        counted = step_bytes(checkpoint.tensors, architecture(checkpoint))
        document |= {"target": counted.target, "draft": counted.draft, "b": counted.b}
        document["left_out"] = dict(counted.left_out)
    except BreakevenError as error:
        return document | {"reason": str(error)}
    try:
        size = element_bytes(cache_type)
        if size is None:
            raise BreakevenError(f"the log does not tell the type of the KV cache (found {cache_type!r})")
        layers = attention_layers(checkpoint)
        document["cache"] = {str(depth): kv_bytes(layers, size, depth) for depth in depths}
        document["recurrent"] = recurrent_state_bytes(checkpoint)
    except BreakevenError as error:
        document["cache_reason"] = str(error)
    return document


def draft_bytes(path: Path, *, separate: bool) -> float | None:
    """Bytes of one draft pass: of a draft model's step, or of the draft block inside a target; None: unknown."""
    try:
        checkpoint = _headers(path)
        counted = step_bytes(checkpoint.tensors, architecture(checkpoint))
    except BreakevenError:
        return None
    return counted.target if separate else counted.draft


def against_time(
    counted: Mapping[str, Any], cells: Sequence[CellNumbers], baseline: str, bandwidth: Bandwidth | None
) -> dict[str, Any]:
    """Bandwidth that the baseline reached in each cell, and b against bytes; with one sentence for a person."""
    if counted["target"] is None:
        return {"cells": [], "sentence": f"Unknown: {counted['reason']}"}
    reached = [row for cell in cells if (row := _reached(counted, cell, baseline, bandwidth))]
    sentence = f"A plain step reads {_size(counted['target'])}"
    if counted["draft"] is not None:
        sentence += (
            f", a drafted token {_size(counted['draft'])}: bytes alone would make b = {counted['b']:.3f}"
        )
    sentence += "."
    if reached:
        best = max(reached, key=lambda row: row["gb_s"])
        sentence += f" The baseline reaches {best['gb_s']:.3g} GB/s at depth {best['depth']}"
        if bandwidth is not None:
            sentence += f", {best['share']:.0%} of {bandwidth.name}"
        sentence += "."
    for row in reached:
        if row["b"]:
            sentence += f" Depth {row['depth']}, {row['prompt_class']}: {row['b']}."
    return {"cells": reached, "sentence": sentence, **counted}


def _reached(
    counted: Mapping[str, Any], cell: CellNumbers, baseline: str, bandwidth: Bandwidth | None
) -> dict[str, Any] | None:
    arm = cell.arms.get(baseline)
    if arm is None or arm.tok_s.value is None:
        return None
    cache = counted.get("cache", {}).get(str(cell.depth), 0.0) + counted.get("recurrent", 0.0)
    gb_s = achieved_gb_s(counted["target"] + cache, 1 / arm.tok_s.value)
    share = None if bandwidth is None else gb_s / bandwidth.gb_s
    b = cell.fit.b.value if cell.fit else None
    known = b is not None and counted["b"] is not None
    return {
        "depth": cell.depth,
        "prompt_class": cell.prompt_class,
        "gb_s": gb_s,
        "share": share,
        "b": check_bytes(b, counted["b"], share).sentence if known and b is not None else None,
    }


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.3g} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.3g} MB"
