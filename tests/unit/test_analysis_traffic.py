"""Bytes per step: known answers of a published 27B hybrid, and real files written here."""

import json
from itertools import pairwise
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from breakeven.analysis.architecture import architecture, attention_layers, recurrent_state_bytes
from breakeven.analysis.bandwidth import draft_bytes, model_bytes
from breakeven.analysis.headers import Checkpoint, Tensor, end_of_text, read_checkpoint
from breakeven.analysis.traffic import (
    Architecture,
    Attention,
    Bandwidth,
    achieved_gb_s,
    attention,
    check_bytes,
    kv_bytes,
    recurrent_bytes,
    step_bytes,
)
from breakeven.demo import END_OF_TEXT, Recipe, write_model
from breakeven.errors import BreakevenError

HIDDEN, FFN, VOCAB, LAYERS = 5120, 17408, 248_320, 64


def linear(name: str, out: int, into: int, element_bytes: int) -> list[Tensor]:
    weight = Tensor(f"{name}.weight", (out, into), out * into * element_bytes)
    return [weight] if element_bytes == 2 else [weight, Tensor(f"{name}.weight_scale", (out, 1), out * 2)]


def block(prefix: str, full_attention: bool, element_bytes: int) -> list[Tensor]:
    parts = [("mlp.gate_proj", FFN, HIDDEN), ("mlp.up_proj", FFN, HIDDEN), ("mlp.down_proj", HIDDEN, FFN)]
    if full_attention:
        attn = "self_attn"
        parts += [(f"{attn}.q_proj", 12_288, HIDDEN), (f"{attn}.k_proj", 1024, HIDDEN)]
        parts += [(f"{attn}.v_proj", 1024, HIDDEN), (f"{attn}.o_proj", HIDDEN, 6144)]
    else:
        attn = "linear_attn"
        parts += [(f"{attn}.in_proj_qkv", 10_240, HIDDEN), (f"{attn}.in_proj_z", 6144, HIDDEN)]
        parts += [(f"{attn}.out_proj", HIDDEN, 6144)]
    tensors = [t for name, out, into in parts for t in linear(f"{prefix}.{name}", out, into, element_bytes)]
    if not full_attention:
        for name, out, into in (
            (".in_proj_a", 48, HIDDEN),
            (".in_proj_b", 48, HIDDEN),
            (".conv1d", 10_240, 4),
        ):
            tensors += linear(f"{prefix}.{attn}{name}", out, into, 2)
    return tensors


def hybrid_27b(fc: bool = False) -> list[Tensor]:
    """The published shapes of the 27B hybrid in W8A8: int8 linears, bf16 head and draft block."""
    body = [t for i in range(LAYERS) for t in block(f"model.layers.{i}", (i + 1) % 4 == 0, 1)]
    ends = [
        Tensor(f"{name}.weight", (VOCAB, HIDDEN), VOCAB * HIDDEN * 2)
        for name in ("model.embed_tokens", "lm_head")
    ]
    vision = [Tensor("model.visual.blocks.0.attn.qkv.weight", (3456, 1152), 3456 * 1152 * 2)]
    draft = block("mtp.layers.0", True, 2) + (linear("mtp.fc", HIDDEN, 2 * HIDDEN, 2) if fc else [])
    return body + ends + vision + draft


def test_known_answer_target_of_the_27b_w8a8_hybrid() -> None:
    tensors = hybrid_27b()
    found = step_bytes(tensors, Architecture(layers=LAYERS))
    int8 = sum(
        t.n_bytes for t in tensors if t.name.startswith("model.layers") and t.n_bytes == np.prod(t.shape)
    )
    assert int8 == 24_326_963_200
    assert found.head == 2_542_796_800
    assert found.target / 1e9 == pytest.approx(26.93, abs=0.005)
    assert found.left_out["embeddings"] == 2_542_796_800
    assert found.left_out["vision and audio"] == 3456 * 1152 * 2


def test_known_answer_draft_of_the_27b_hybrid_without_and_with_its_projection() -> None:
    without, with_fc = (step_bytes(hybrid_27b(fc), Architecture(layers=LAYERS)) for fc in (False, True))
    assert without.draft_body is not None and without.draft is not None and with_fc.draft is not None
    assert without.draft_body / 1e9 == pytest.approx(0.745, abs=0.001)
    assert without.draft / 1e9 == pytest.approx(3.29, abs=0.005)
    assert with_fc.draft / 1e9 == pytest.approx(3.39, abs=0.005)
    assert without.b == pytest.approx(0.122, abs=0.0005)


def test_o12_roofline() -> None:
    target, draft, baseline_s = 26.93e9, 3.29e9, 1 / 36.13
    assert baseline_s * 1e3 == pytest.approx(27.678, abs=0.1)
    assert achieved_gb_s(target, baseline_s) == pytest.approx(973.0, abs=0.1)
    assert achieved_gb_s(target, baseline_s) / 1170 == pytest.approx(0.8316, abs=0.0005)
    assert 1.16 * baseline_s * 1e3 == pytest.approx(32.11, abs=0.1)
    assert achieved_gb_s(draft, 1.16 * baseline_s) == pytest.approx(102.5, abs=0.1)
    assert achieved_gb_s(draft, 1.1558 * baseline_s) == pytest.approx(102.8, abs=0.1)


def test_o12b_lm_head() -> None:
    head = Tensor("lm_head.weight", (VOCAB, HIDDEN), 2 * VOCAB * HIDDEN)
    assert step_bytes([head], Architecture()).target == 2_542_796_800


def test_o12c_qwen27b_int8_analytic() -> None:
    found = step_bytes(hybrid_27b(), Architecture(layers=LAYERS))
    assert found.target / 1e9 == pytest.approx(26.87, abs=0.1)
    assert found.target / 1e9 == pytest.approx(26.93, abs=0.05)


def test_o13_kv_bytes() -> None:
    layers = [attention(kv_heads=4, head_dim=256)] * 16
    assert kv_bytes(layers, 2, 1) == 65_536
    assert kv_bytes(layers, 2, 32_768) == 2_147_483_648


def test_a_sliding_window_caps_the_depth() -> None:
    layers = [Attention(100), Attention(100, window=1024)]
    assert kv_bytes(layers, 2, 512) == 2 * 100 * 2 * 512
    assert kv_bytes(layers, 2, 8192) == 100 * 2 * (8192 + 1024)


def test_recurrent_state_is_read_and_written() -> None:
    assert recurrent_bytes(48, 6144 * 128, 3 * 10_240, 4) == 2 * 48 * (786_432 + 30_720) * 4


def test_tied_embeddings_are_the_head_and_are_read_once() -> None:
    body, embedding = (
        Tensor("model.layers.0.mlp.up_proj.weight", (8, 4), 64),
        Tensor("model.embed_tokens.weight", (9, 4), 72),
    )
    found = step_bytes([body, embedding], Architecture(layers=1, tied=True))
    assert (found.body, found.head, found.left_out["embeddings"]) == (64, 72, 0)
    stored_twice = step_bytes(
        [body, embedding, Tensor("lm_head.weight", (9, 4), 72)], Architecture(layers=1, tied=True)
    )
    assert stored_twice.target == found.target
    assert stored_twice.left_out["stored copy of a tied head"] == 72


def test_a_draft_layer_behind_the_last_layer_brings_its_own_head_and_embedding() -> None:
    names = ["layers.0.mlp.up_proj", "embed_tokens", "layers.1.mlp.up_proj", "layers.1.embed_tokens"]
    tensors = [Tensor(f"model.{name}.weight", (10,), 10) for name in names]
    tensors += [
        Tensor("lm_head.weight", (10,), 30),
        Tensor("model.layers.1.shared_head.head.weight", (10,), 20),
    ]
    found = step_bytes(tensors, Architecture(layers=1))
    assert (found.target, found.draft) == (40, 30)


def test_moe_reads_shared_experts_always_and_routed_ones_by_their_share() -> None:
    tensors = [
        Tensor("blk.0.ffn_gate_exps.weight", (128, 4, 4), 128 * 100),
        Tensor("blk.0.ffn_gate_shexp.weight", (4, 4), 7),
        Tensor("blk.0.ffn_gate_inp.weight", (128, 4), 11),
        Tensor("output.weight", (4, 4), 13),
    ]
    found = step_bytes(tensors, Architecture(layers=1, experts=128, active_experts=8))
    assert found.target == 7 + 11 + 13 + 800
    correlated, independent = found.verify(3)
    assert independent == pytest.approx(31 + 800 * 3.6404, abs=0.1)
    assert correlated == pytest.approx(31 + 800 * 2.5, abs=0.1)


def test_experts_without_a_count_of_active_ones_are_an_error() -> None:
    found = step_bytes(
        [Tensor("lm_head.weight", (1,), 1), Tensor("layers.0.experts.0.w", (1,), 1)], Architecture()
    )
    with pytest.raises(BreakevenError, match="active"):
        _ = found.target


def test_no_head_is_an_error() -> None:
    with pytest.raises(BreakevenError, match="no output head"):
        step_bytes([Tensor("model.layers.0.mlp.up_proj.weight", (1,), 1)], Architecture())


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=20))
def test_every_byte_has_one_role(sizes: list[int]) -> None:
    names = ["lm_head", "model.embed_tokens", "model.visual.a", "mtp.layers.0.b", "model.layers.0.c"]
    tensors = [Tensor(f"{names[i % len(names)]}.weight", (n,), n) for i, n in enumerate(sizes)]
    found = step_bytes(tensors, Architecture(layers=1))
    counted = found.body + found.head + (found.draft_body or 0) + sum(found.left_out.values())
    assert counted == sum(sizes)


@pytest.mark.parametrize(
    ("b", "share", "explain"),
    [(1.16, 0.83, True), (0.14, 0.83, False), (0.03, 0.83, True), (1.16, 0.2, None), (1, None, None)],
)
def test_b_that_bytes_do_not_explain_asks_for_an_explanation(
    b: float, share: float | None, explain: bool | None
) -> None:
    assert check_bytes(b, 0.122, share).explain is explain


def test_a_bandwidth_says_what_it_is() -> None:
    assert Bandwidth(936.2, measured=False).name == "936.2 GB/s (datasheet)"


def write_gguf(path: Path, nextn: bool = True) -> None:
    """A hybrid of three linear-attention layers and one full one, with a draft block behind them."""
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "qwen35")
    writer.add_block_count(4 + nextn)
    if nextn:
        writer.add_nextn_predict_layers(1)
    writer.add_ssm_state_size(8)
    writer.add_ssm_inner_size(32)
    writer.add_ssm_group_count(2)
    writer.add_ssm_conv_kernel(4)
    writer.add_token_list(["a"] * 16)

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(name, rng.standard_normal(shape).astype(np.float16))

    add("token_embd.weight", 16, 32)
    add("output.weight", 16, 32)
    for i in range(4 + nextn):
        add(f"blk.{i}.ffn_up.weight", 64, 32)
        if i >= 3:
            add(f"blk.{i}.attn_q.weight", 64, 32)
            add(f"blk.{i}.attn_k.weight", 16, 32)
            add(f"blk.{i}.attn_v.weight", 24, 32)
        else:
            add(f"blk.{i}.attn_qkv.weight", 64, 32)
            add(f"blk.{i}.ssm_out.weight", 32, 32)
    quantised = gguf.quants.quantize(
        rng.standard_normal((32, 32)).astype(np.float32), gguf.GGMLQuantizationType.Q8_0
    )
    writer.add_tensor("blk.3.ffn_down.weight", quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_gguf_file(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    checkpoint = read_checkpoint(tmp_path / "m.gguf")
    shape = architecture(checkpoint)
    found = step_bytes(checkpoint.tensors, shape)
    full, linear_layer = 2 * 32 * (64 + 64 + 16 + 24), 2 * 32 * (64 + 64 + 32)
    q8_0 = 32 * 34  # a block of 32 weights takes 34 bytes
    assert shape.layers == 4
    assert found.body == full + 3 * linear_layer + q8_0
    assert (found.head, found.draft_body, found.draft_head) == (1024, full, 1024)
    assert attention_layers(checkpoint) == (Attention(40),)
    assert recurrent_state_bytes(checkpoint) == 2 * 3 * (8 * 32 + 3 * (32 + 2 * 2 * 8)) * 4


def save_tiny(folder: Path, tensors: dict[str, np.ndarray], file: str = "model.safetensors") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / file)


def tiny_tensors() -> dict[str, np.ndarray]:
    names = [
        f"model.layers.{i}.{part}.weight" for i in range(2) for part in ("self_attn.k_proj", "mlp.up_proj")
    ]
    names += ["model.embed_tokens.weight", "lm_head.weight", "model.mtp_layers.0.input_proj.weight"]
    return {name: np.zeros((4, 8), np.float16) for name in names}


def test_safetensors_file_and_sharded_directory_agree(tmp_path: Path) -> None:
    tensors = tiny_tensors()
    save_tiny(tmp_path / "one", tensors)
    half = len(tensors) // 2
    shards = {
        "a.safetensors": dict(list(tensors.items())[:half]),
        "b.safetensors": dict(list(tensors.items())[half:]),
    }
    for file, part in shards.items():
        save_tiny(tmp_path / "two", part, file)
    weight_map = {name: file for file, part in shards.items() for name in part}
    (tmp_path / "two/model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    save_tiny(tmp_path / "two", tensors, "consolidated.safetensors")  # not in the index: not read
    config = {"num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 2, "tie_word_embeddings": False}
    found = []
    for path in (tmp_path / "one/model.safetensors", tmp_path / "one", tmp_path / "two"):
        (tmp_path / path.name.replace("model.safetensors", "one") / "config.json").write_text(
            json.dumps(config)
        )
        checkpoint = read_checkpoint(path)
        found.append(step_bytes(checkpoint.tensors, architecture(checkpoint)))
        assert attention_layers(checkpoint) == (Attention(8), Attention(8))
    assert all(one == two for one, two in pairwise(found))
    assert (found[0].body, found[0].head, found[0].draft) == (4 * 64, 64, 128)


def test_what_ends_a_text_stands_in_the_models_files(tmp_path: Path) -> None:
    model = tmp_path / Recipe().file_name
    write_model(model, Recipe())
    assert end_of_text(read_checkpoint(model)) == [END_OF_TEXT]
    folder = tmp_path / "hf"
    save_tiny(folder, tiny_tensors())
    assert end_of_text(read_checkpoint(folder)) == []
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 7}))
    assert end_of_text(read_checkpoint(folder)) == [7]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [9, 8]}))
    assert end_of_text(read_checkpoint(folder)) == [8, 9]


def test_a_draft_model_reads_all_of_itself_and_a_target_its_draft_block(tmp_path: Path) -> None:
    target, draft = tmp_path / "target.gguf", tmp_path / "draft.gguf"
    write_model(target, Recipe())
    write_model(draft, Recipe(layers=2, mtp=False))
    inside, whole, separate = (
        draft_bytes(path, separate=alone) for path, alone in ((target, False), (target, True), (draft, True))
    )
    assert inside is not None and whole is not None and inside < whole
    assert separate == model_bytes(draft, [0], "f16")["target"]
    assert draft_bytes(draft, separate=False) is None
    assert draft_bytes(tmp_path / "none.gguf", separate=True) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff" * 8, b"\x02" + b"\0" * 7 + b"[]", b"\x03" + b"\0" * 7 + b"{x}", b"GGUF\x03\0\0\0"],
)
@pytest.mark.parametrize("name", ["m.safetensors", "m.gguf", "m.bin"])
def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, content: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BreakevenError, match=name):
        read_checkpoint(tmp_path / name)


def test_a_missing_shard_and_a_missing_part_are_named(tmp_path: Path) -> None:
    with pytest.raises(BreakevenError, match=r"no \.safetensors in it"):
        read_checkpoint(tmp_path)
    index = {"weight_map": {"lm_head.weight": "a.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(BreakevenError, match=r"a\.safetensors"):
        read_checkpoint(tmp_path)
    write_gguf(tmp_path / "m-00001-of-00002.gguf")
    with pytest.raises(BreakevenError, match=r"m-00002-of-00002\.gguf"):
        read_checkpoint(tmp_path / "m-00001-of-00002.gguf")


def test_layer_types_decide_windows_and_linear_layers() -> None:
    names = ["model.layers.0.self_attn.k_proj.weight", "model.layers.1.linear_attn.in_proj_qkvz.weight"]
    names += ["model.layers.2.self_attn.k_proj.weight"]
    config = {
        "num_hidden_layers": 3,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "sliding_window": 512,
        "layer_types": ["sliding_attention", "linear_attention", "full_attention"],
    }
    linear_shape = {"key_heads": 2, "value_heads": 4}
    config |= {f"linear_num_{key}": value for key, value in linear_shape.items()}
    config |= {"linear_key_head_dim": 8, "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4}
    checkpoint = Checkpoint(Path("m"), "safetensors", tuple(Tensor(name, (1,), 2) for name in names), config)
    assert attention_layers(checkpoint) == (Attention(16, 512), Attention(16))
    assert recurrent_state_bytes(checkpoint) == 2 * (4 * 8 * 16 + 3 * (2 * 2 * 8 + 4 * 16)) * 4
    unknown = Checkpoint(
        Path("m"), "safetensors", checkpoint.tensors, config | {"layer_types": ["chunked"] * 3}
    )
    with pytest.raises(BreakevenError, match="chunked"):
        attention_layers(unknown)
