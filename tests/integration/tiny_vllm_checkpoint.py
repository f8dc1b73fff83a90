"""A tiny MiMo checkpoint (Qwen2 layers and one MTP layer) for the vLLM lane: random weights, bytes as tokens.

The same idea as the embedded demo's model: every printable byte has two near-tied successors, the layers add noise
that picks between them, and the MTP layer guesses from the last token alone, so that its drafts are often right and
sometimes wrong. Without MTP weights (`mtp=False`) the configuration still promises them, as a checkpoint that lost
its head does.

`python tests/integration/tiny_vllm_checkpoint.py FOLDER` writes it.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

Array = npt.NDArray[np.float32]

END_OF_TEXT = 256
END_OF_TEXT_PIECE = "<|endoftext|>"
VOCABULARY = 257
PRINTABLE = np.arange(32, 127)
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"


@dataclass(frozen=True)
class Recipe:
    """All that decides the checkpoint's content."""

    hidden: int = 256
    layers: int = 2
    feed_forward: int = 512
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    context: int = 2048
    noise: float = 0.5
    tie_gap: float = 0.1
    mtp: bool = True
    dtype: str = "float32"
    seed: int = 1


def tensors(r: Recipe) -> dict[str, Array]:
    """Weights by their names in the checkpoint; linear layers are (out, in)."""
    rng = np.random.default_rng(r.seed)
    embedding = rng.standard_normal((VOCABULARY, r.hidden)).astype(np.float32)
    weights = {
        "model.embed_tokens.weight": embedding,
        "model.norm.weight": np.ones(r.hidden, np.float32),
        "lm_head.weight": _successors(embedding, r, rng),
    }
    for layer in range(r.layers):
        weights |= _layer(f"model.layers.{layer}.", r, rng, noise=r.noise)
    if r.mtp:
        weights |= _mtp_layer("model.mtp_layers.0.", r, rng)
    return weights


def _successors(embedding: Array, r: Recipe, rng: np.random.Generator) -> Array:
    """Output head: each printable byte votes for the next one of a shuffled ring, and almost as much for another."""
    head = np.zeros_like(embedding)
    ring, other = rng.permutation(PRINTABLE), rng.permutation(PRINTABLE)
    votes = embedding / np.sqrt(r.hidden)
    head[np.roll(ring, -1)] = votes[ring]
    head[other] += (1 - r.tie_gap) * votes[ring]
    return head


def _layer(prefix: str, r: Recipe, rng: np.random.Generator, *, noise: float) -> dict[str, Array]:
    def linear(out: int, into: int, strength: float = 1.0) -> Array:
        weights: Array = (strength * rng.standard_normal((out, into)) / np.sqrt(into)).astype(np.float32)
        return weights

    queries, keys = r.heads * r.head_dim, r.kv_heads * r.head_dim
    layer = {
        "input_layernorm.weight": np.ones(r.hidden, np.float32),
        "post_attention_layernorm.weight": np.ones(r.hidden, np.float32),
        "self_attn.q_proj.weight": linear(queries, r.hidden),
        "self_attn.q_proj.bias": np.zeros(queries, np.float32),
        "self_attn.k_proj.weight": linear(keys, r.hidden),
        "self_attn.k_proj.bias": np.zeros(keys, np.float32),
        "self_attn.v_proj.weight": linear(keys, r.hidden),
        "self_attn.v_proj.bias": np.zeros(keys, np.float32),
        "self_attn.o_proj.weight": linear(r.hidden, queries, noise),
        "mlp.gate_proj.weight": linear(r.feed_forward, r.hidden),
        "mlp.up_proj.weight": linear(r.feed_forward, r.hidden),
        "mlp.down_proj.weight": linear(r.hidden, r.feed_forward, noise),
    }
    return {f"{prefix}{name}": tensor for name, tensor in layer.items()}


def _mtp_layer(prefix: str, r: Recipe, rng: np.random.Generator) -> dict[str, Array]:
    """Passes [hidden; embedding] through as the embedding alone, so its guess knows the last token only."""
    identity = np.eye(r.hidden, dtype=np.float32)
    norms = ("token_layernorm", "hidden_layernorm", "final_layernorm")
    return _layer(prefix, r, rng, noise=0.0) | {
        f"{prefix}input_proj.weight": np.concatenate([np.zeros_like(identity), identity], axis=1),
        **{f"{prefix}{norm}.weight": np.ones(r.hidden, np.float32) for norm in norms},
    }


def _config(r: Recipe) -> dict[str, Any]:
    return {
        "architectures": ["MiMoForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": VOCABULARY,
        "hidden_size": r.hidden,
        "num_hidden_layers": r.layers,
        "num_nextn_predict_layers": 1,
        "num_attention_heads": r.heads,
        "num_key_value_heads": r.kv_heads,
        "head_dim": r.head_dim,
        "intermediate_size": r.feed_forward,
        "hidden_act": "silu",
        "max_position_embeddings": r.context,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "dtype": r.dtype,
        "eos_token_id": END_OF_TEXT,
    }


def _pieces() -> list[str]:
    """GPT-2's spelling of the 256 bytes (printable ones as themselves, the others from U+0100 on), then the end."""
    as_is = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [*(chr(byte if byte in as_is else next(others)) for byte in range(256)), END_OF_TEXT_PIECE]


def _tokenizer() -> dict[str, Any]:
    """A vocabulary of bytes as the `tokenizers` library stores it."""
    end = {"id": END_OF_TEXT, "content": END_OF_TEXT_PIECE, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    off = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {
        "version": "1.0",
        "added_tokens": [end | off],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {piece: number for number, piece in enumerate(_pieces())},
            "merges": [],
        },
    }


def write_checkpoint(folder: Path, recipe: Recipe) -> None:
    """Write the checkpoint's files into `folder`, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors(recipe), folder / "model.safetensors", metadata={"format": "pt"})
    documents = {
        "config.json": _config(recipe),
        "generation_config.json": {"eos_token_id": END_OF_TEXT},
        "tokenizer.json": _tokenizer(),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END_OF_TEXT_PIECE,
            "chat_template": CHAT_TEMPLATE,
            "model_max_length": recipe.context,
        },
    }
    for name, content in documents.items():
        (folder / name).write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    write_checkpoint(Path(sys.argv[1]), Recipe())
