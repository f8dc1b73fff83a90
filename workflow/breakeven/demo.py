"""The embedded demo's model: a tiny hybrid qwen35 (gated delta net + full attention) with one MTP block.

Random weights from a fixed seed, a few megabytes, made in a second, so that the whole chain can be tried on any
machine. It says nothing about a real model's speed. Over bytes as tokens, every printable byte has two near-tied
successors; the layers add noise of strength `noise` that picks between them, and the MTP block sees the target's
hidden state through an identity, so it guesses right often and wrong sometimes: acceptance is neither 0 nor 1.

`python -m breakeven.demo OUT.gguf` writes it.
"""

import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from breakeven.files import whole

Array = npt.NDArray[np.float32]

END_OF_TEXT = 256
MERGED = ("th", "in")
VOCABULARY = 257 + len(MERGED)
PRINTABLE = np.arange(32, 127)


@dataclass(frozen=True)
class Recipe:
    """All that decides the file's content; its hash names the file."""

    hidden: int = 384
    layers: int = 4
    feed_forward: int = 768
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 64
    full_attention_every: int = 4
    state: int = 64
    groups: int = 3
    time_step_rank: int = 6
    context: int = 8192
    noise: float = 0.4
    tie_gap: float = 0.1
    mtp: bool = True
    seed: int = 1

    @property
    def file_name(self) -> str:
        """Name by the hash of the recipe: the same recipe is the same file, another recipe never overwrites it."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:10]
        return f"tiny-qwen35-{digest}.gguf"


def tensors(recipe: Recipe) -> dict[str, Array]:
    """Weights by GGUF name; linear layers are (out, in)."""
    rng = np.random.default_rng(recipe.seed)
    embedding = rng.standard_normal((VOCABULARY, recipe.hidden)).astype(np.float32)
    weights = {
        "token_embd.weight": embedding,
        "output_norm.weight": _ones(recipe.hidden),
        "output.weight": _successors(embedding, recipe, rng),
    }
    for layer in range(recipe.layers):
        full_attention = (layer + 1) % recipe.full_attention_every == 0
        weights |= _block(layer, recipe, rng, noise=recipe.noise, full_attention=full_attention)
    if recipe.mtp:
        weights |= _mtp_block(recipe, rng)
    return weights


def _ones(n: int) -> Array:
    return np.ones(n, np.float32)


def _successors(embedding: Array, recipe: Recipe, rng: np.random.Generator) -> Array:
    """Output head: from every printable byte one likely successor and a second almost as likely."""
    head = np.zeros_like(embedding)
    scale = 1 / np.sqrt(recipe.hidden)
    first, second = rng.permutation(PRINTABLE), rng.permutation(PRINTABLE)
    head[np.roll(first, -1)] += scale * embedding[first]
    head[second] += (1 - recipe.tie_gap) * scale * embedding[PRINTABLE]
    return head


def _block(
    index: int, r: Recipe, rng: np.random.Generator, *, noise: float, full_attention: bool
) -> dict[str, Array]:
    def linear(out: int, into: int, strength: float = 1.0) -> Array:
        weights: Array = (strength * rng.standard_normal((out, into)) / np.sqrt(into)).astype(np.float32)
        return weights

    inner, key = r.state * r.time_step_rank, r.state * r.groups
    block: dict[str, Array] = {
        "attn_norm.weight": _ones(r.hidden),
        "post_attention_norm.weight": _ones(r.hidden),
    }
    if full_attention:
        block |= {
            "attn_q.weight": linear(2 * r.heads * r.head_dim, r.hidden),  # queries and their output gate
            "attn_k.weight": linear(r.kv_heads * r.head_dim, r.hidden),
            "attn_v.weight": linear(r.kv_heads * r.head_dim, r.hidden),
            "attn_output.weight": linear(r.hidden, r.heads * r.head_dim, noise),
            "attn_q_norm.weight": _ones(r.head_dim),
            "attn_k_norm.weight": _ones(r.head_dim),
        }
    else:
        block |= {
            "attn_qkv.weight": linear(2 * key + inner, r.hidden),
            "attn_gate.weight": linear(inner, r.hidden),
            "ssm_conv1d.weight": linear(2 * key + inner, 4),
            "ssm_dt.bias": np.zeros(r.time_step_rank, np.float32),
            "ssm_a": -_ones(r.time_step_rank),
            "ssm_beta.weight": linear(r.time_step_rank, r.hidden),
            "ssm_alpha.weight": linear(r.time_step_rank, r.hidden),
            "ssm_norm.weight": _ones(r.state),
            "ssm_out.weight": linear(r.hidden, inner, noise),
        }
    block |= {
        "ffn_gate.weight": linear(r.feed_forward, r.hidden),
        "ffn_up.weight": linear(r.feed_forward, r.hidden),
        "ffn_down.weight": linear(r.hidden, r.feed_forward, noise),
    }
    return {f"blk.{index}.{name}": tensor for name, tensor in block.items()}


def _mtp_block(r: Recipe, rng: np.random.Generator) -> dict[str, Array]:
    """One next-token block that passes [embedding; hidden] through as the embedding alone."""
    prefix = f"blk.{r.layers}.nextn."
    identity = np.eye(r.hidden, dtype=np.float32)
    return _block(r.layers, r, rng, noise=0.0, full_attention=True) | {
        f"{prefix}eh_proj.weight": np.concatenate([identity, np.zeros_like(identity)], axis=1),
        f"{prefix}enorm.weight": _ones(r.hidden),
        f"{prefix}hnorm.weight": _ones(r.hidden),
        f"{prefix}shared_head_norm.weight": _ones(r.hidden),
    }


def _byte_tokens() -> list[str]:
    """GPT-2's spelling of the 256 bytes: printable ones as themselves, the others from U+0100 on."""
    as_is = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in as_is else next(others)) for byte in range(256)]


def _write_metadata(writer: Any, r: Recipe) -> None:
    import gguf  # every job knows the recipe, few write the file

    writer.add_name(r.file_name)
    writer.add_context_length(r.context)
    writer.add_embedding_length(r.hidden)
    writer.add_feed_forward_length(r.feed_forward)
    writer.add_block_count(r.layers + int(r.mtp))
    writer.add_head_count(r.heads)
    writer.add_head_count_kv(r.kv_heads)
    writer.add_key_length(r.head_dim)
    writer.add_value_length(r.head_dim)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_rope_dimension_count(r.head_dim // 2)
    writer.add_rope_dimension_sections([4, 6, 6, 0])
    writer.add_full_attention_interval(r.full_attention_every)
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(r.state * r.time_step_rank)
    writer.add_ssm_state_size(r.state)
    writer.add_ssm_time_step_rank(r.time_step_rank)
    writer.add_ssm_group_count(r.groups)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    if r.mtp:
        writer.add_nextn_predict_layers(1)
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*_byte_tokens(), "<|endoftext|>", *MERGED])
    writer.add_token_types([normal] * 256 + [control] + [normal] * len(MERGED))
    writer.add_token_merges([" ".join(merged) for merged in MERGED])
    writer.add_eos_token_id(END_OF_TEXT)
    writer.add_bos_token_id(END_OF_TEXT)
    writer.add_add_bos_token(False)


def write_model(path: Path, recipe: Recipe) -> None:
    """Write the GGUF file, whole or not at all."""
    import gguf

    with whole(path) as part:
        writer = gguf.GGUFWriter(part, "qwen35")
        _write_metadata(writer, recipe)
        for name, tensor in tensors(recipe).items():
            writer.add_tensor(name, tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


if __name__ == "__main__":
    write_model(Path(sys.argv[1]), Recipe())
