"""Facts that follow from other facts of the same log: block size from concurrency, totals from parts, fallbacks."""

from collections.abc import Mapping
from typing import Any

from breakeven.engine.facts import Finding

HYBRID_TOLERANCE = 0.02
"""Concurrency of a uniform cache is tokens/length; a larger difference means several cache groups."""
_BLOCK_SIZES = (8, 16, 32, 64, 128, 256)

DERIVED_FROM = {
    "attention_backend": ("attention_backends", "decode_backend", "graph_limited_by"),
    "block_size": ("gpu_blocks",),
    "kv_tokens": ("gpu_blocks",),
    "hybrid": ("max_concurrency",),
    "graphs_piecewise": ("graphs_piecewise_planned",),
    "graphs_full": ("graphs_full_planned",),
    "largest": ("largest_piecewise", "largest_full"),
    "fallback": ("kernel",),
    "engine_gen": ("version",),
    "kv_mib": ("kv_by_device_mib",),
    "draft_kv_mib": ("draft_kv_by_device_mib",),
    "version": ("build",),
    "backend": ("backends",),
    "graph_bs": ("graph_bs_sizes",),
    "graph_bs_max": ("graph_bs_sizes",),
    "graph_num_tokens": ("graph_num_tokens_sizes",),
}
"""A derived fact names the line of the first of these that the log says."""


def derived(engine: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return derived facts; a rule whose inputs are missing adds nothing."""
    rules = {"vllm": _vllm, "llamacpp": _llamacpp, "sglang": _sglang}
    return rules[engine](known)


def judged(known: Mapping[str, Any]) -> list[Finding]:
    """Return what start-up facts show and no line says: layers left on the host, several kernels for one layer kind."""
    found = []
    for name in ("layers_offloaded", "draft_layers_offloaded"):
        done, every = known.get(name) or (None, None)
        if done is not None and every is not None and done < every:
            found.append(
                Finding("partial_offload", "warn", f"{done} of {every} layers are offloaded ({name})")
            )
    for name in ("kernels", "moe_backends"):
        for kind, kernels in (known.get(name) or {}).items():
            if isinstance(kernels, list):
                message = f"{kind} runs {', '.join(map(str, kernels))}: ranks or layers differ"
                found.append(Finding("kernels_differ", "warn", message))
    return found


def _vllm(known: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    blocks, length, concurrency = (known.get(n) for n in ("gpu_blocks", "concurrency_len", "max_concurrency"))
    tokens = known.get("kv_tokens")
    if blocks and length and concurrency and tokens is None:
        size = concurrency * length / blocks
        block = next((b for b in _BLOCK_SIZES if abs(size / b - 1) < 0.01), None)
        if block:
            found |= {"block_size": block, "kv_tokens": blocks * block}
    elif tokens and length and concurrency and abs(tokens / length / concurrency - 1) > HYBRID_TOLERANCE:
        found["hybrid"] = True
    if "spec_resolved" in known and "engine_gen" not in known:
        found["engine_gen"] = "V0"
    if known.get("attention_backends"):
        found["attention_backend"] = known["attention_backends"][0]
    elif known.get("decode_backend") or known.get("graph_limited_by"):
        found["attention_backend"] = known.get("decode_backend") or known["graph_limited_by"][0]
    for mode in ("piecewise", "full"):
        planned = known.get(f"graphs_{mode}_planned")
        if planned is not None and f"graphs_{mode}" not in known:
            found[f"graphs_{mode}"] = planned
    largest = [known[n] for n in ("largest_piecewise", "largest_full") if known.get(n) is not None]
    if largest:
        found["largest"] = max(largest)
    if str(known.get("kernel", "")).startswith("Triton") and known.get("platform") in ("rocm", "cuda"):
        found.setdefault("fallback", True)
    return found


def _llamacpp(known: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for scope in ("", "draft_"):
        buffers = known.get(f"{scope}kv_by_device_mib")
        if buffers and f"{scope}kv_mib" not in known:
            found[f"{scope}kv_mib"] = round(sum(buffers.values()), 4)
    if known.get("build"):
        found["version"] = f"b{known['build']}"
    if "backend" not in known and known.get("backends"):
        named = [backend for backend in known["backends"] if backend not in ("CPU", "RPC", "BLAS")]
        found["backend"] = named[0] if named else "CPU"
    return found


def _sglang(known: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if sizes := known.get("graph_bs_sizes"):
        found |= {"graph_bs": len(sizes), "graph_bs_max": max(sizes)}
    if sizes := known.get("graph_num_tokens_sizes"):
        found["graph_num_tokens"] = len(sizes)
    return found
