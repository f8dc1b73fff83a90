"""The plan of a launch: the same for every arm, nothing cached but the prefix, exact lengths in the server's tokens."""

import ast
import json
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.errors import BreakevenError, ConfigError
from breakeven.measure import corpus
from breakeven.measure.prompt_tokens import PromptTokenizer, exact_tokens
from breakeven.measure.workload import (
    CONTEXT_MARGIN_TOKENS,
    Request,
    Workload,
    check_context,
    check_fits,
    plan,
    read_workload,
    salt,
)

SECTION = {
    "pp": 40,
    "tg": 16,
    "depths": [0, 300],
    "reps": 2,
    "warmup": 1,
    "prompts": {
        "natural": {"count": 3},
        "code": {"count": 2},
        "json": {"count": 1},
        "repetitive": {"count": 1},
    },
}
BOS = 1


def words(text: str) -> list[int]:
    """A tokenizer of the simplest kind: words, marks and blanks, numbered by their bytes."""
    return [2 + int.from_bytes(part.encode()[:6]) for part in re.findall(r"\w+|\s|[^\w\s]", text)]


@pytest.fixture
def workload() -> Workload:
    return read_workload(SECTION)


def start(request: Request) -> str:
    assert request.new is not None
    return next(request.new.pieces())[:8]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    depths=st.lists(st.integers(0, 200_000), min_size=1, max_size=4, unique=True),
    counts=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    reps=st.integers(1, 3),
)
def test_no_two_requests_of_an_experiment_begin_their_new_text_alike(
    seed: int, depths: list[int], counts: list[int], reps: int
) -> None:
    prompts = {name: {"count": count} for name, count in zip(corpus.CLASSES, counts, strict=False)}
    work = read_workload({"pp": 8, "tg": 8, "depths": depths, "reps": reps, "prompts": prompts})
    starts = [start(r) for round in (1, 2, 3) for r in plan(work, seed, round) if r.new is not None]
    assert len(set(starts)) == len(starts)


def test_a_cell_shares_one_prefix_and_no_other_cell_or_round_has_it(workload: Workload) -> None:
    prefixes: dict[tuple[int, int, str], set[str]] = {}
    for round in (1, 2):
        for request in plan(workload, 7, round):
            if request.prefix is not None:
                cell = (round, request.depth, request.prompt_class.name)
                prefixes.setdefault(cell, set()).add(next(request.prefix.pieces())[:8])
    assert len(prefixes) == 2 * 1 * 4
    assert all(len(found) == 1 for found in prefixes.values())
    assert len(set.union(*prefixes.values())) == len(prefixes)


def test_every_arm_gets_the_same_requests_in_the_same_order(workload: Workload) -> None:
    assert plan(workload, 7, 2) == plan(read_workload(SECTION), 7, 2)


def test_rounds_differ_in_salts_only(workload: Workload) -> None:
    def without_salts(round: int) -> list[object]:
        requests = plan(workload, 7, round)
        segments = [(r.prefix, r.new) for r in requests]
        texts = [[list(islice(s.pieces(), 1, 3)) for s in pair if s is not None] for pair in segments]
        return [
            (r.kind, r.depth, r.prompt_class.name, r.prompt, r.rep, r.asked_tokens) for r in requests
        ] + texts

    assert without_salts(1) == without_salts(2)


def test_a_nonce_changes_every_salt(workload: Workload) -> None:
    first, second = plan(workload, 7, 1, nonce="a"), plan(workload, 7, 1, nonce="b")
    for one, other in zip(first, second, strict=True):
        assert (one.new and one.new.salt) != (other.new and other.new.salt) or one.new is None
        assert (one.prefix and one.prefix.salt) != (other.prefix and other.prefix.salt) or one.prefix is None


def test_a_cell_fills_its_depth_once_then_warms_up_then_measures(workload: Workload) -> None:
    cell = [r for r in plan(workload, 7, 1) if r.depth == 300 and r.prompt_class.name == "natural"]
    assert [r.kind for r in cell] == ["depth"] + ["warmup"] * 2 + ["pp"] * 6 + ["tg"] * 6
    assert [r.asked_tokens for r in cell] == [1, 1, 16] + [1] * 6 + [16] * 6
    assert [(r.prompt, r.rep) for r in cell if r.kind == "tg"] == [
        (p, rep) for rep in (0, 1) for p in (0, 1, 2)
    ]


def test_depth_zero_has_no_prefix_to_fill(workload: Workload) -> None:
    cell = [r for r in plan(workload, 7, 1) if r.depth == 0]
    assert {r.kind for r in cell} == {"warmup", "pp", "tg"}
    assert all(r.prefix is None for r in cell)


def test_requests_are_numbered_in_order(workload: Workload) -> None:
    assert [r.seq for r in plan(workload, 7, 1)] == list(range(len(plan(workload, 7, 1))))


def test_salts_depend_on_every_part() -> None:
    parts = (1, 1, "", 0, "natural", "tg", 256, 0, 0)
    changed = [
        (*parts[:i], p + 1 if isinstance(p, int) else p + "x", *parts[i + 1 :]) for i, p in enumerate(parts)
    ]
    assert len({salt(*p) for p in [parts, *changed]}) == len(parts) + 1


def test_prompts_have_exactly_the_planned_tokens(workload: Workload) -> None:
    prompts = PromptTokenizer(words)
    for request in plan(workload, 7, 1):
        tokens = prompts.tokens(request)
        assert tokens.depth == request.depth
        assert tokens.new_tokens == (0 if request.kind == "depth" else 40)


def test_the_prefix_ids_are_the_same_for_every_request_of_a_cell(workload: Workload) -> None:
    prompts = PromptTokenizer(words)
    cell = [r for r in plan(workload, 7, 1) if r.depth == 300 and r.prompt_class.name == "code"]
    assert len({prompts.tokens(r).ids[:300] for r in cell}) == 1
    assert len({prompts.tokens(r).ids[300:] for r in cell}) == len(cell)


def test_the_beginning_of_sequence_token_counts_as_a_token_of_the_prompt(workload: Workload) -> None:
    prompts = PromptTokenizer(words, bos=[BOS])
    for request in plan(workload, 7, 1):
        tokens = prompts.tokens(request)
        assert tokens.ids[0] == BOS
        assert tokens.ids.count(BOS) == 1
        assert len(tokens.ids) == request.depth + (0 if request.kind == "depth" else 40)


def test_a_long_prefix_needs_few_calls_of_the_tokenizer(workload: Workload) -> None:
    calls: list[int] = []

    def tokenize(text: str) -> Sequence[int]:
        calls.append(len(text))
        return words(text)

    deep = read_workload({"pp": 8, "tg": 8, "depths": [131_072], "prompts": {"natural": {"count": 1}}})
    request = plan(deep, 7, 1)[0]
    assert len(PromptTokenizer(tokenize).tokens(request).ids) == 131_072
    assert len(calls) <= 4


def test_text_that_runs_out_is_an_error_with_both_counts() -> None:
    with pytest.raises(BreakevenError, match="ends after 5 tokens, 9 are wanted"):
        exact_tokens(words, ["one two three"], 9)


def test_a_tokenizer_that_returns_nothing_is_an_error() -> None:
    with pytest.raises(BreakevenError, match="returned no ids for 13 characters"):
        exact_tokens(lambda text: [], ["one two three"], 2)


def test_an_error_names_the_request(workload: Workload) -> None:
    request = plan(workload, 7, 1)[0]
    with pytest.raises(BreakevenError, match=r"warmup request 0 \(depth 0, class natural, prompt 0, rep 0\)"):
        PromptTokenizer(lambda text: []).tokens(request)


def test_a_context_that_is_too_small_is_named_with_all_numbers(workload: Workload) -> None:
    need = 300 + 40 + 16 + CONTEXT_MARGIN_TOKENS
    check_context(plan(workload, 7, 1), need)
    with pytest.raises(ConfigError) as error:
        check_context(plan(workload, 7, 1), need - 1)
    for part in (
        "depth 300",
        "new 40",
        "completion 16",
        f"= {need} tokens",
        f"holds {need - 1}",
        "class natural",
    ):
        assert part in str(error.value)


def test_own_text_files_are_taken_whole_behind_their_salt(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("Second prompt.")
    (tmp_path / "a.txt").write_text("First prompt, which is longer.")
    work = read_workload({"pp": 40, "tg": 8, "depths": [0], "prompts": {"mine": {"files": ["."]}}}, tmp_path)
    measured = [r for r in plan(work, 7, 1) if r.kind == "tg" and r.rep == 0]
    assert [list(r.new.pieces())[1] for r in measured if r.new] == [
        "First prompt, which is longer.",
        "Second prompt.",
    ]
    assert all(r.planned_new_tokens is None for r in measured)
    tokens = PromptTokenizer(words).tokens(measured[1])
    assert tokens.ids == tuple(words(f"{salt_of(measured[1])}\nSecond prompt."))
    with pytest.raises(ConfigError, match=r"prompt 1.*new 6 .*context holds 20"):
        check_fits(measured[1], tokens.new_tokens, n_ctx=20)


def salt_of(request: Request) -> str:
    assert request.new is not None
    return request.new.salt


def test_chats_are_rendered_by_the_servers_template_behind_their_salt(tmp_path: Path) -> None:
    chats = [[{"role": "user", "content": "Hello"}], {"messages": [{"role": "user", "content": "Bye"}]}]
    (tmp_path / "chats.jsonl").write_text("\n".join(map(json.dumps, chats)) + "\n\n")
    work = read_workload(
        {"pp": 4, "tg": 8, "depths": [0], "prompts": {"mine": {"files": ["chats.jsonl"]}}}, tmp_path
    )

    def render(messages: list[dict[str, object]]) -> list[int]:
        return [BOS, *words("".join(f"<{m['role']}>{m['content']}" for m in messages))]

    requests = [r for r in plan(work, 7, 1) if r.kind == "tg" and r.rep == 0]
    ids = [PromptTokenizer(words, render, bos=[BOS]).tokens(r).ids for r in requests]
    assert ids[0] == (BOS, *words(f"{salt_of(requests[0])}\n"), *words("<user>Hello"))
    assert ids[1] == (BOS, *words(f"{salt_of(requests[1])}\n"), *words("<user>Bye"))
    with pytest.raises(BreakevenError, match="chat template"):
        PromptTokenizer(words).tokens(requests[0])


def test_a_private_prompt_shows_in_no_representation(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("The recipe of the house.")
    prompts = {"mine": {"files": ["secret.txt"], "private": True}}
    work = read_workload({"pp": 4, "tg": 8, "depths": [0], "prompts": prompts}, tmp_path)
    request = plan(work, 7, 1)[0]
    assert request.prompt_class.private
    assert "recipe" not in repr(request) + request.name + repr(work)


def test_class_attributes_reach_the_request() -> None:
    schema = {"type": "object"}
    prompts = {"json": {"sampling": {"temperature": 0.7, "top_p": 0.9}, "schema": schema}, "code": None}
    work = read_workload({"pp": 4, "tg": 8, "depths": [0], "prompts": prompts})
    guided, code = work.classes
    assert guided.sampling == {"temperature": 0.7, "top_p": 0.9}
    assert guided.schema == schema
    assert not guided.ignore_eos
    assert code.sampling == {"temperature": 0.0}
    assert code.ignore_eos
    assert code.count == 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pp": 0}, "workload.pp: found 0"),
        ({"tg": 1}, "workload.tg: found 1; wanted a whole number of at least 2"),
        ({"tg": True}, "workload.tg: found True"),
        ({"depths": []}, "workload.depths: found []"),
        ({"depths": [0, 0]}, "distinct depths"),
        ({"depths": ["8k"]}, "workload.depths: found '8k'"),
        ({"repetitions": 3}, "unknown key repetitions; allowed are"),
        ({"prompts": {"poems": {"count": 3}}}, "workload.prompts.poems: no built-in text has this name"),
        ({"prompts": {"code": {"temperature": 1}}}, "unknown key temperature"),
        ({"prompts": {"mine": {"files": ["nowhere.txt"]}}}, "nowhere.txt: cannot be read"),
        ({"prompts": {"mine": {"files": ["prompts.csv"]}}}, "found neither .txt, .jsonl nor a folder"),
        ({"prompts": {"mine": {"files": ["empty.txt"]}}}, "found no text"),
        ({"prompts": {"mine": {"files": ["bad.jsonl"]}}}, "bad.jsonl, line 2: not JSON"),
        ({"prompts": {"mine": {"files": ["odd.jsonl"]}}}, "odd.jsonl, line 1: wanted"),
        ({"prompts": {"mine": {"files": ["ok.txt"], "count": 2}}}, "2 prompts are wanted, the files hold 1"),
    ],
)
def test_a_bad_workload_is_an_error_that_says_where(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "ok.txt").write_text("fine")
    (tmp_path / "bad.jsonl").write_text('[{"role": "user", "content": "x"}]\n{"messages": [\n')
    (tmp_path / "odd.jsonl").write_text('{"prompt": "x"}\n')
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_workload({**SECTION, **change}, tmp_path)


def text(text_class: str, seed: str, characters: int) -> str:
    taken: list[str] = []
    for piece in corpus.pieces(text_class, seed):
        taken.append(piece)
        if sum(map(len, taken)) >= characters:
            break
    return "".join(taken)


@pytest.mark.parametrize("text_class", corpus.CLASSES)
def test_twelve_prompts_of_a_class_differ(text_class: str) -> None:
    prompts = {text(text_class, f"1/{prompt}", 2048) for prompt in range(12)}
    assert len(prompts) == 12
    assert len({prompt[:300] for prompt in prompts}) == 12


@pytest.mark.parametrize("text_class", ["natural", "code", "json"])
def test_a_prompt_does_not_loop(text_class: str) -> None:
    """Fewer than 1 in 20 runs of twelve words have been there before; in looping text nearly all have."""
    for prompt in range(12):
        assert repeated_share(text(text_class, f"1/{prompt}", 8192)) < 0.05


def test_repetitive_text_loops() -> None:
    assert repeated_share(text("repetitive", "1/0", 8192)) > 0.8


@pytest.mark.parametrize("text_class", ["natural", "code", "json"])
def test_a_deep_context_holds_no_paragraph_twice(text_class: str) -> None:
    """600,000 characters are 131,072 tokens of most tokenizers."""
    pieces = list(islice(corpus.pieces(text_class, "1/prefix"), 2500))
    assert sum(map(len, pieces)) > 600_000
    assert len(set(pieces)) == len(pieces)


def repeated_share(passage: str, run: int = 12) -> float:
    parts = passage.split()
    runs = [tuple(parts[i : i + run]) for i in range(len(parts) - run)]
    return 1 - len(set(runs)) / len(runs)


def test_json_text_is_json() -> None:
    for piece in islice(corpus.pieces("json", "any"), 300):
        json.loads(piece)


def test_code_text_is_python() -> None:
    for piece in islice(corpus.pieces("code", "any"), 300):
        ast.parse(piece)


@pytest.mark.parametrize("text_class", corpus.CLASSES)
def test_text_is_plain_and_complete(text_class: str) -> None:
    passage = text(text_class, "any", 20_000)
    assert passage.isascii()
    assert "$" not in passage
