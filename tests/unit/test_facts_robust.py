"""No input makes the reader fail, and dirt around a line does not change what it says."""

import json
import textwrap
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.engine.facts import Facts
from breakeven.engine.fatal import diagnose, fatal
from breakeven.engine.reader import PATTERNS, read_facts
from breakeven.errors import BreakevenError

KV = "INFO 03-04 10:11:12 [kv_cache_utils.py:864] GPU KV cache size: 123,456 tokens"
EXAMPLES = [pattern.example for patterns in PATTERNS.values() for pattern in patterns]
DIRT = [
    "\r",
    "\n",
    "\x1b[0;36m",
    "^[[0m",
    "\x00",
    "é",
    "\ufffd",
    " " * 90,
    '{"msg":"',
    '"}',
    "+ sleep 2",
    "9" * 400,
    "1e999",
]


def round_trip(facts: Facts) -> None:
    text = json.dumps(facts.to_json(), allow_nan=False)
    assert Facts.from_json(text).to_json() == json.loads(text)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=3000), engine=st.sampled_from([None, *PATTERNS]))
def test_no_bytes_make_it_fail(data: bytes, engine: str | None) -> None:
    round_trip(read_facts(data, engine))


@settings(max_examples=300, deadline=None)
@given(
    parts=st.lists(
        st.one_of(st.sampled_from(EXAMPLES), st.sampled_from(DIRT), st.text(max_size=20)), max_size=12
    ),
    cut=st.integers(0, 60),
    piece=st.integers(1, 40),
)
def test_no_mixture_of_real_lines_makes_it_fail(parts: list[str], cut: int, piece: int) -> None:
    data = "".join(parts).encode("utf-8", "replace")[cut:]
    pieces = [data[start : start + piece] for start in range(0, len(data), piece)]
    round_trip(read_facts(pieces))
    fatal(None, "".join(parts))
    assert diagnose("".join(parts), alive=bool(cut % 2), silent_s=float(cut * 50))


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(EXAMPLES),
    st.lists(st.tuples(st.integers(0, 200), st.sampled_from("09.,-(){}[]'=: \\")), max_size=6),
)
def test_no_mutation_of_a_real_line_makes_it_fail(example: str, changes: list[tuple[int, str]]) -> None:
    text = list(example)
    for place, letter in changes:
        text[place % len(text)] = letter
    round_trip(read_facts("".join(text).encode()))


@pytest.mark.parametrize(
    "line",
    [
        KV,
        f"(EngineCore_DP0 pid=9) {KV}",
        f"\x1b[0;36m(EngineCore_DP0 pid=9)\x1b[0;0m {KV}",
        f"^[[0;36m(EngineCore_DP0 pid=9)^[[0;0m {KV}",
        f"\\u001b[36m(EngineCore pid=9)\\u001b[0m {KV}",
        f"vllm-1  | (EngineCore pid=9) {KV}",
        f"2026-03-04 10:11:12.123 | {KV}",
        f"2026-03-04T10:11:12.123456789Z {KV}",
        f"(ServeReplica:app:LLM pid=8) (RayWorkerWrapper pid=9, ip=10.0.0.1) {KV} [repeated 3x across "
        f"cluster]",
        f"Capturing CUDA graphs (decode, FULL):  50%|##   | 4/8 [00:01<00:01, 3.1it/s]{KV}",
        f"\rbar 1\rbar 2\r{KV}\r\n",
        json.dumps({"log": KV + "\n", "stream": "stderr", "time": "2026-03-04T10:11:12Z"}),
        KV.replace("size: 123,", "size: 12\n3,"),
        KV.replace(" 123,456 ", " 123,456\n "),
    ],
)
def test_dirt_around_a_line_changes_nothing(line: str) -> None:
    noise = "some library speaks\n+ sleep 2\n"
    assert read_facts(f"{noise}{line}\n{noise}".encode()).get("kv_tokens") == 123456


def test_invalid_utf8_and_mojibake_bars_are_read() -> None:
    bar = (
        "Capturing CUDA graphs (mixed prefill-decode, "
        "PIECEWISE): 100%|â–ˆâ–ˆâ–ˆ| 7/7 [00:35<00:00,  2.32it/s]"
    )
    facts = read_facts(b"\xff\xfe\xfa broken \x80\n" + bar.encode("cp1252", "replace") + b"\n" + KV.encode())
    assert facts.get("graphs_piecewise") == 7 and facts.get("kv_tokens") == 123456


def test_a_windows_redirect_is_read() -> None:
    assert read_facts(KV.encode("utf-16")).get("kv_tokens") == 123456


def test_pieces_may_be_cut_anywhere() -> None:
    data = f"{KV}\n(EngineCore pid=9) INFO {KV.replace('GPU', 'CPU')}\n".encode()
    for size in (1, 2, 7, 64):
        assert (
            read_facts(data[start : start + size] for start in range(0, len(data), size)).get("kv_tokens")
            == 123456
        )


def test_one_endless_line_is_read_in_bounded_pieces() -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(200):
            yield b"x" * 65536

    assert read_facts(endless()).engine is None


def test_a_repeated_line_fills_no_memory() -> None:
    line = (
        b"(EngineCore pid=9) WARNING [jit_monitor.py:1] "
        b"Triton kernel JIT compilation during inference: _k%d. x\n"
    )
    facts = read_facts(line % number for number in range(20_000))
    assert len(facts.get("jit_kernels")) <= 2_000


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BreakevenError, match=r"'tgi' is not known.*vllm, llamacpp, sglang"):
        read_facts(b"", "tgi")


def test_text_of_nobody_is_of_no_engine() -> None:
    assert read_facts(b"hello\nworld\n") == Facts()


RECORD = (
    "(APIServer pid=1) INFO 03-04 10:11:12 [metrics.py:96] SpecDecoding metrics: Mean acceptance length: 2.60, "
    "Accepted throughput: 26.60 tokens/s, Drafted throughput: 50.00 tokens/s, Accepted: 267 tokens, "
    "Drafted: 501 tokens, "
    "Per-position acceptance rate: 0.750, 0.500, 0.350, Avg Draft acceptance rate: 53.3%"
)
WRAPPED_FACTS = ("kv_tokens", "accepted", "drafted", "k", "per_position", "acceptance", "num_drafts")


@pytest.mark.parametrize("width", range(45, 200, 5))
@pytest.mark.parametrize("by", ["letter", "word"])
def test_a_wrapped_record_is_read_right_or_not_at_all(width: int, by: str) -> None:
    lines = [f"(EngineCore pid=9) {KV}", RECORD, f"(EngineCore pid=9) {KV}"]
    if by == "word":
        broken = [textwrap.fill(line, width) for line in lines]
    else:
        broken = ["\n".join(line[i : i + width] for i in range(0, len(line), width)) for line in lines]
    whole, wrapped = (read_facts("\n".join(text).encode(), "vllm") for text in (lines, broken))
    for name in WRAPPED_FACTS:
        assert wrapped.get(name) in (whole.get(name), None), name
    if width >= 80:
        assert wrapped.get("kv_tokens") == 123456 and wrapped.get("drafted") == 501
