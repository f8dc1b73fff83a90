"""What a checkpoint says about its layers: experts, KV cache per token, recurrent state (Method 7).

Layers are counted from the tensors that exist, sizes come from the metadata. What neither says is an error,
since a guess would pass as a counted byte.
"""

import re
from collections.abc import Sequence
from typing import Any

from breakeven.analysis.headers import Checkpoint
from breakeven.analysis.traffic import LAYER, Architecture, Attention, attention, recurrent_bytes
from breakeven.errors import BreakevenError

HF_KEYS = re.compile(r"\.(k_proj|qkv_proj|query_key_value|kv_a_proj_with_mqa)\.")
HF_LINEAR = re.compile(r"\.linear_attn\.")


def architecture(checkpoint: Checkpoint) -> Architecture:
    """Layers of the target alone, experts and whether the head is tied."""
    meta = checkpoint.metadata
    if checkpoint.layout == "gguf":
        blocks, nextn = meta.get("block_count"), meta.get("nextn_predict_layers") or 0
        return Architecture(
            layers=None if blocks is None else int(blocks) - int(nextn),
            experts=meta.get("expert_count") or None,
            active_experts=meta.get("expert_used_count") or None,
        )
    experts = _first(meta, "num_experts", "n_routed_experts", "num_local_experts")
    return Architecture(
        layers=meta.get("num_hidden_layers"),
        experts=experts,
        active_experts=_first(meta, "num_experts_per_tok", "top_k_experts", "moe_topk"),
        tied=meta.get("tie_word_embeddings"),
    )


def attention_layers(checkpoint: Checkpoint) -> tuple[Attention, ...]:
    """The target's layers that keep a KV cache, in order, each with its elements per token and window.

    Raises BreakevenError naming the layer or key that leaves a size open.
    """
    if checkpoint.layout == "gguf":
        return _gguf_attention(checkpoint)
    return _hf_attention(checkpoint)


def recurrent_state_bytes(checkpoint: Checkpoint, element_bytes: float = 4) -> float:
    """Linear-attention state read and written by one step; 0 when no layer has one. float32 unless told."""
    layers = _target_layers(checkpoint)
    if checkpoint.layout == "gguf":
        count = len({i for i, name in layers if ".ssm_" in name})
        if not count:
            return 0.0
        state, inner, groups, kernel = (
            int(_needed(checkpoint, f"ssm.{key}"))
            for key in ("state_size", "inner_size", "group_count", "conv_kernel")
        )
        return recurrent_bytes(
            count, state * inner, (kernel - 1) * (inner + 2 * groups * state), element_bytes
        )
    count = len({i for i, name in layers if HF_LINEAR.search(name)})
    if not count:
        return 0.0
    k_heads, k_dim, v_heads, v_dim, kernel = (
        int(_needed(checkpoint, f"linear_{key}"))
        for key in ("num_key_heads", "key_head_dim", "num_value_heads", "value_head_dim", "conv_kernel_dim")
    )
    conv = (kernel - 1) * (2 * k_heads * k_dim + v_heads * v_dim)
    return recurrent_bytes(count, v_heads * k_dim * v_dim, conv, element_bytes)


def _gguf_attention(checkpoint: Checkpoint) -> tuple[Attention, ...]:
    out_of = {t.name: t.shape[0] for t in checkpoint.tensors if t.name.endswith(".weight")}
    layers = sorted({i for i, _ in _target_layers(checkpoint)})
    windows = _gguf_windows(checkpoint, 1 + max(layers, default=-1))
    found = []
    for i in layers:
        keys, values = out_of.get(f"blk.{i}.attn_k.weight"), out_of.get(f"blk.{i}.attn_v.weight")
        latent = out_of.get(f"blk.{i}.attn_kv_a_mqa.weight")
        recurrent = any(name.startswith(f"blk.{i}.ssm_") for name in out_of)
        if latent is not None:
            found.append(Attention(latent, windows[i]))
        elif keys is not None:
            # Without a projection of their own, values are the keys, cached a second time.
            found.append(Attention(keys + (keys if values is None else values), windows[i]))
        elif f"blk.{i}.attn_qkv.weight" in out_of and not recurrent:
            heads = _per_layer(_needed(checkpoint, "attention.head_count_kv"), i)
            size = (
                int(_needed(checkpoint, "attention.key_length")),
                int(_needed(checkpoint, "attention.value_length")),
            )
            found.append(Attention(heads * sum(size), windows[i]))
        elif f"blk.{i}.attn_q.weight" in out_of:
            raise BreakevenError(
                f"{checkpoint.path}: layer {i} has queries but no keys of its own; give its KV size"
            )
    return tuple(found)


def _gguf_windows(checkpoint: Checkpoint, layers: int) -> list[int | None]:
    window = checkpoint.metadata.get("attention.sliding_window")
    if not window:
        return [None] * layers
    pattern = _needed(checkpoint, "attention.sliding_window_pattern")
    if isinstance(pattern, list):
        return [int(window) if slides else None for slides in pattern[:layers]]
    return [None if (i + 1) % int(pattern) == 0 else int(window) for i in range(layers)]


def _hf_attention(checkpoint: Checkpoint) -> tuple[Attention, ...]:
    meta = checkpoint.metadata
    with_keys = sorted({i for i, name in _target_layers(checkpoint) if HF_KEYS.search(name)})
    if meta.get("kv_lora_rank"):
        latent = int(meta["kv_lora_rank"]) + int(_needed(checkpoint, "qk_rope_head_dim"))
        return tuple(Attention(latent) for _ in with_keys)
    heads = int(_needed(checkpoint, "num_key_value_heads"))
    dim = int(
        meta.get("head_dim")
        or _needed(checkpoint, "hidden_size") // _needed(checkpoint, "num_attention_heads")
    )
    windows = _hf_windows(checkpoint, 1 + max(with_keys, default=-1))
    full = int(meta.get("num_global_key_value_heads") or heads), int(meta.get("global_head_dim") or dim)
    return tuple(
        attention(*full) if windows[i] is None else attention(heads, dim, window=windows[i])
        for i in with_keys
    )


def _hf_windows(checkpoint: Checkpoint, layers: int) -> list[int | None]:
    meta = checkpoint.metadata
    window = meta.get("sliding_window") if meta.get("use_sliding_window", True) else None
    kinds: Sequence[str] | None = meta.get("layer_types")
    if kinds is not None:
        unknown = set(kinds) - {"full_attention", "sliding_attention", "linear_attention"}
        if unknown or len(kinds) < layers:
            raise BreakevenError(
                f"{checkpoint.path}: {len(kinds)} layer_types, {sorted(unknown)} not understood; "
                "give the KV size of those layers"
            )
        return [
            int(_needed(checkpoint, "sliding_window")) if kind == "sliding_attention" else None
            for kind in kinds
        ]
    if not window:
        return [None] * layers
    period = meta.get("sliding_window_pattern")
    return [None if period and (i + 1) % int(period) == 0 else int(window) for i in range(layers)]


def _target_layers(checkpoint: Checkpoint) -> list[tuple[int, str]]:
    own = architecture(checkpoint).layers
    found = []
    for tensor in checkpoint.tensors:
        layer = LAYER.search(tensor.name)
        named = layer is not None and not re.search(r"mtp|visual|vision|audio", tensor.name)
        if layer is not None and named and (own is None or int(layer[1]) < own):
            found.append((int(layer[1]), tensor.name))
    return found


def _per_layer(value: Any, layer: int) -> int:
    return int(value[layer] if isinstance(value, list) else value)


def _first(meta: dict[str, Any], *keys: str) -> int | None:
    return next((int(meta[key]) for key in keys if meta.get(key)), None)


def _needed(checkpoint: Checkpoint, key: str) -> Any:
    value = checkpoint.metadata.get(key)
    if value is None:
        raise BreakevenError(
            f"{checkpoint.path}: metadata lacks {key}; the bytes cannot be counted without it"
        )
    return value
