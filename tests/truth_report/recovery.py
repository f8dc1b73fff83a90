"""Recovered against true: decode rate, prefill rate and time to first token for every dialect and k tokens a step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from breakeven.engine.base import Request
from breakeven.engine.registry import ENGINES
from breakeven.measure.client import open_client, record, sample
from truth_report.experiment import BASE, DIALECTS, READ_TIMEOUT_S, document, launch, resolved
from truth_report.figure import Figure, section
from truth_report.fleet import fleet

from reference_server import Faults, Truth

TG_SHARE = 0.005
TTFT_S = 0.001
PP, REPS = 512, 3
DECODE_S = 0.2
"""A late wake-up at either end of a request of this length is a tenth of what is allowed."""
EVERY_K = range(1, 17)
MACHINE = Truth(t0_s=0.003, ttft_s=0.01, pp_per_s=20_000.0, prompt_tokens_details=True)
SHAPES: dict[str, dict[str, Any]] = {
    "3 tokens an event, across steps": {"n": 3, "tokens_per_event": 3},
    "7 tokens an event, across steps": {"n": 3, "tokens_per_event": 7},
    "first event with 4 tokens": {"n": 3, "first_event_tokens": 4},
    "8 events held back and flushed": {"n": 3, "buffered_events": 8},
    "8 events held back, the first too": {"n": 3, "buffered_events": 8, "buffer_first_event": True},
    "keep-alive comments in the stream": {"n": 3, "keepalive_s": 0.002},
}
VLLM_SHAPES: dict[str, dict[str, Any]] = {"usage chunk before the first token": {"n": 3, "usage_first": True}}
CHATS: dict[str, dict[str, Any]] = {
    "chat: empty role chunk at once": {"role_at_once": True},
    "chat: empty role chunk with the first token": {},
    "chat: 20 reasoning tokens first": {"reasoning_tokens": 20},
    "chat: all of it, with usage first": {"role_at_once": True, "reasoning_tokens": 20, "usage_first": True},
}


@dataclass(frozen=True)
class Case:
    """A stream whose decode rate is known in closed form."""

    dialect: str
    what: str
    truth: Truth
    tokens: int
    true_tok_s: float


def run(ks: range = EVERY_K) -> dict[str, Any]:
    """The section."""
    every_k = [_every_token_accepted(dialect, k) for dialect in DIALECTS for k in ks]
    in_shapes = [
        _of_shape(dialect, name, changes)
        for dialect in DIALECTS
        for name, changes in (SHAPES | (VLLM_SHAPES if dialect == "vllm" else {})).items()
    ]
    in_chats = [_of_chat(name, changes) for name, changes in CHATS.items()]
    cases = [*every_k, *in_shapes, *in_chats]
    with fleet([(case.dialect, case.truth, Faults()) for case in cases]) as urls:
        at = dict(zip(cases, urls, strict=True))
        by_k, shapes = ([_measured(case, at[case]) for case in some] for some in (every_k, in_shapes))
        chats = [_chat(case, at[case]) for case in in_chats]
    over = [row["ttft_over_s"] for row in by_k]
    return section(
        [
            _figure(f"decode rate, {' and '.join(DIALECTS)}, k = {ks[0]}..{ks[-1]} tokens a step", by_k),
            _figure("decode rate of streams cut and held back in other ways", shapes),
            _figure("decode rate of chats with role, reasoning and usage chunks", chats),
            Figure(
                f"time to first token over the truth, prompts of {PP} tokens",
                f"< {1e3 * TTFT_S:g} ms",
                f"median {1e3 * median(over):.2f} ms, worst {1e3 * max(over):.2f} ms of {len(by_k)}",
                median(over) < TTFT_S,
            ),
        ],
        by_k=by_k,
        shapes=shapes,
        chats=chats,
        pp=PP,
        reps=REPS,
    )


def _figure(claim: str, rows: Sequence[Mapping[str, Any]]) -> Figure:
    worst = max(rows, key=lambda row: abs(row["error"]))
    return Figure(
        claim,
        f"within {TG_SHARE:.1%}",
        f"worst {worst['error']:+.2%} ({worst['dialect']}, {worst['what']}) of {len(rows)}",
        abs(worst["error"]) <= TG_SHARE,
    )


def _every_token_accepted(dialect: str, k: int) -> Case:
    """k - 1 drafts a step, all accepted: tg = k/(t0*C(k - 1)) exactly, whatever the server simulates."""
    truth = replace(MACHINE, n=k - 1, acceptance=(1.0,) * 16)
    step_s = truth.t0_s * truth.cost(k - 1)
    return Case(dialect, f"k = {k}", truth, 1 + k * round(DECODE_S / step_s), k / step_s)


def _of_shape(dialect: str, name: str, changes: Mapping[str, Any]) -> Case:
    """Three drafts, all accepted, sent in another way."""
    truth = replace(MACHINE, acceptance=(1.0,) * 16, **changes)
    step_s = truth.t0_s * truth.cost(truth.n)
    tokens = truth.first_event_tokens + (truth.n + 1) * round(DECODE_S / step_s)
    return Case(dialect, name, truth, tokens, (truth.n + 1) / step_s)


def _of_chat(name: str, changes: Mapping[str, Any]) -> Case:
    truth = replace(MACHINE, **changes)
    return Case("vllm", name, truth, 1 + round(DECODE_S / truth.t0_s), 1 / truth.t0_s)


def _measured(case: Case, url: str) -> dict[str, Any]:
    """One launch through the sweep, against the truth; the rate is the median over its requests."""
    truth = case.truth
    workload = {"pp": PP, "tg": case.tokens, "depths": [0], "reps": REPS, "warmup": 1}
    spec = resolved(document(case.dialect, {BASE: truth.n}, workload, 1), "recovery")
    rows = launch(url, spec, BASE).rows.requests
    decode, prefill = ([row for row in rows if row["kind"] == kind] for kind in ("tg", "pp"))
    clock, tok_s = _rate(decode)
    true_ttft = truth.time_to_first_token_s(prefill[0]["prompt_tokens"], prefill[0]["cached_tokens"])
    ttft, computed = median(row["ttft_s"] for row in prefill), prefill[0]["computed_tokens"]
    return {
        "dialect": case.dialect,
        "what": case.what,
        "true_tok_s": case.true_tok_s,
        "tok_s": tok_s,
        "clock": clock,
        "error": tok_s / case.true_tok_s - 1,
        "passed": abs(tok_s / case.true_tok_s - 1) <= TG_SHARE,
        "events_per_token": sum(row["token_events"] for row in decode) / (len(decode) * case.tokens),
        "true_pp_tok_s": computed / true_ttft,
        "pp_tok_s": computed / ttft,
        "true_ttft_s": true_ttft,
        "ttft_s": ttft,
        "ttft_over_s": ttft - true_ttft,
    }


def _rate(decode: Sequence[Mapping[str, Any]]) -> tuple[str, float]:
    """Whose clock it is, and the median decode rate; the server's own where the client could see no decode window."""
    seen = [row for row in decode if row["decode_s"] is not None]
    if seen:
        return "client", median(
            (row["completion_tokens"] - row["first_event_tokens"]) / row["decode_s"] for row in seen
        )
    return "server", median((row["completion_tokens"] - 1) / row["server_decode_s"] for row in decode)


def _chat(case: Case, url: str) -> dict[str, Any]:
    """A chat completion through the client, with token ids."""
    truth, engine = case.truth, ENGINES[case.dialect]
    body = {
        "messages": [{"role": "user", "content": "say it"}],
        "max_tokens": case.tokens,
        "stream": True,
        "ignore_eos": True,
        "return_token_ids": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    with open_client(url, READ_TIMEOUT_S) as http:
        samples = [sample(record(http, Request("/v1/chat/completions", body)), engine) for _ in range(REPS)]
    last = samples[-1]
    tok_s = median((one.completion_tokens - one.first_event_tokens) / one.decode_s for one in samples)
    return {
        "dialect": case.dialect,
        "what": case.what,
        "true_tok_s": case.true_tok_s,
        "tok_s": tok_s,
        "clock": "client",
        "error": tok_s / case.true_tok_s - 1,
        "passed": abs(tok_s / case.true_tok_s - 1) <= TG_SHARE,
        "ttft_over_s": last.ttft_s - truth.time_to_first_token_s(last.prompt_tokens, last.cached_tokens),
        "kinds": sorted({timed.event.kind for timed in last.events}),
    }
