"""Flags, requests and events of each engine. Event texts are written from the servers' formats."""

import pytest

from breakeven.engine.base import Sampling
from breakeven.engine.llamacpp import LlamaCpp
from breakeven.engine.registry import ENGINES, speculation_asked
from breakeven.engine.vllm import Vllm


def test_flags_become_a_command_line_with_instrumentation():
    argv = LlamaCpp().argv({"model": "a.gguf", "no-warmup": True, "ui": False}, host="127.0.0.1", port=9)
    assert argv[:3] == ["--model", "a.gguf", "--no-warmup"]
    assert "--ui" not in argv
    assert argv[argv.index("--verbosity") + 1] == "4"
    assert "--metrics" in argv


def test_vllm_takes_its_model_first_and_objects_as_json():
    argv = Vllm().argv(
        {"speculative-config": {"method": "mtp", "num_speculative_tokens": 1}, "model": "/m"},
        host="h",
        port=1,
    )
    assert argv[0] == "/m"
    assert argv[argv.index("--speculative-config") + 1] == '{"method": "mtp", "num_speculative_tokens": 1}'
    assert "--enable-prompt-tokens-details" in argv


@pytest.mark.parametrize(
    ("engine", "args", "method", "n", "gated", "forced"),
    [
        ("llamacpp", {"spec-type": "draft-mtp"}, "draft-mtp", 3, False, False),
        ("llamacpp", {"spec-type": "draft-mtp", "spec-draft-p-min": 0.7}, "draft-mtp", 3, True, False),
        ("llamacpp", {"spec-type": "ngram-mod"}, "ngram-mod", None, True, False),
        ("llamacpp", {"spec-type": "draft-mtp", "spec-synth-rates": "0,0"}, "draft-mtp", 3, False, True),
        (
            "vllm",
            {"speculative-config": '{"method":"mtp","num_speculative_tokens":2}'},
            "mtp",
            2,
            False,
            False,
        ),
        (
            "vllm",
            {"speculative-config": {"method": "ngram", "num_speculative_tokens": 4}},
            "ngram",
            4,
            True,
            False,
        ),
    ],
)
def test_what_the_flags_ask_for(engine, args, method, n, gated, forced):
    asked = speculation_asked(engine, args)
    assert (asked.method, asked.n, asked.gated, asked.forced) == (method, n, gated, forced)


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_no_flag_asks_for_nothing(engine):
    assert speculation_asked(engine, {"threads": 1}) is None


def test_a_llamacpp_event_is_a_token_and_the_last_one_brings_the_timings():
    engine = LlamaCpp()
    token = engine.event(
        b'{"content":"a","tokens":[65],"stop":false,"tokens_predicted":3,"tokens_evaluated":9}'
    )
    assert (token.kind, token.token_ids, token.running_tokens) == ("token", (65,), 3)
    last = engine.event(
        b'{"content":"","tokens":[],"stop":true,"tokens_predicted":4,"stop_type":"limit","timings":{"cache_n":512,'
        b'"prompt_n":128,"prompt_ms":250.0,"predicted_n":4,"predicted_ms":12.5,"draft_n":6,"draft_n_accepted":2}}'
    )
    assert (last.prompt_tokens, last.cached_tokens, last.prompt_s) == (640, 512, 0.25)
    assert (last.decode_s, last.draft_tokens, last.accepted_tokens, last.stop) == (0.0125, 6, 2, "limit")


def test_no_drafts_in_the_timings_is_unknown_and_not_zero():
    last = LlamaCpp().event(
        b'{"stop":true,"tokens_predicted":1,"timings":{"cache_n":0,"prompt_n":1,"prompt_ms":1,'
        b'"predicted_n":1,"predicted_ms":1}}'
    )
    assert last.draft_tokens is None
    assert last.accepted_tokens is None


def test_a_vllm_event_is_a_step_with_several_tokens():
    step = Vllm().event(
        b'{"choices":[{"index":0,"text":" the quick","token_ids":[5,6,7],"finish_reason":null}],'
        b'"usage":{"prompt_tokens":48,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":32}}}'
    )
    assert (step.kind, step.token_ids, step.running_tokens) == ("token", (5, 6, 7), 9)
    assert (step.prompt_tokens, step.cached_tokens) == (48, 32)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"choices":[{"delta":{"role":"assistant","content":""}}]}', "role"),
        (b'{"choices":[{"delta":{"reasoning_content":"hm"}}]}', "reasoning"),
        (b'{"choices":[{"delta":{"content":"a"}}]}', "token"),
        (b'{"choices":[{"text":"","finish_reason":"length"}]}', "empty"),
        (b'{"choices":[],"usage":{"completion_tokens":3}}', "usage"),
        (b"[DONE]", "final"),
    ],
)
def test_events_without_tokens_are_told_apart(data, kind):
    assert Vllm().event(data).kind == kind


@pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda e: e.name)
def test_an_error_in_the_stream_is_an_error(engine):
    assert "exhausted" in engine.event(b'{"error":{"message":"memory exhausted"}}').error


@pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda e: e.name)
def test_requests_are_greedy_streamed_and_of_fixed_length(engine):
    body = engine.completion([1, 2], 64, Sampling()).body
    assert body["temperature"] == 0.0
    assert body["ignore_eos"] is True
    assert body["stream"] is True
    assert 64 in (body.get("n_predict"), body.get("max_tokens"))


def test_a_schema_constrains_the_output_and_lets_it_end():
    schema = {"type": "object"}
    assert LlamaCpp().completion([1], 9, Sampling(schema=schema)).body["json_schema"] == schema
    assert LlamaCpp().completion([1], 9, Sampling(schema=schema)).body["ignore_eos"] is False
    assert Vllm().completion([1], 9, Sampling(schema=schema)).body["structured_outputs"] == {"json": schema}
