"""What the client makes of a stream whose truth is known: tokens, steps, times, and answers that go wrong."""

from statistics import median

import pytest

from breakeven.engine.base import Request, Sampling
from breakeven.engine.registry import ENGINES
from breakeven.measure import counters
from breakeven.measure.bursts import burst_starts
from breakeven.measure.client import Recording, Sample, open_client, record, sample

from reference_server import Faults, Truth, reference_process, reference_server

PROMPT = list(range(10, 74))
TOKENS = 96


def asked(truth: Truth, dialect: str, faults: Faults | None = None, tokens: int = TOKENS) -> Sample:
    engine = ENGINES[dialect]
    with (
        reference_server(truth, dialect=dialect, **({"faults": faults} if faults else {})) as url,
        open_client(url, read_timeout_s=2.0) as http,
    ):
        return sample(record(http, engine.completion(PROMPT, tokens, Sampling())), engine)


@pytest.mark.parametrize("dialect", sorted(ENGINES))
@pytest.mark.parametrize("n", [0, 3])
def test_tokens_are_counted_three_ways_and_agree(dialect, n):
    got = asked(Truth(n=n, t0_s=0.02), dialect, tokens=24)
    assert got.error is None
    assert got.completion_tokens == got.id_tokens == 24
    assert got.first_event_tokens == 1
    assert got.prompt_tokens == len(PROMPT)


@pytest.mark.parametrize("per_event", [1, 2, 5, 16])
def test_events_that_carry_any_number_of_tokens_do_not_change_the_count(per_event):
    got = asked(Truth(n=0, tokens_per_event=per_event), "vllm")
    assert got.completion_tokens == got.id_tokens == TOKENS
    assert got.token_events == 1 + -(-(TOKENS - 1) // per_event)


def test_steps_are_events_on_vllm_and_bursts_on_llamacpp():
    truth = Truth(n=3, t0_s=0.008)
    steps = max(
        asked(truth, "vllm").token_events for _ in range(3)
    )  # a busy machine only joins what was apart
    on_llamacpp = [asked(truth, "llamacpp") for _ in range(3)]
    assert {one.token_events for one in on_llamacpp} == {TOKENS}
    assert max(one.bursts for one in on_llamacpp) == pytest.approx(steps, abs=2)


@pytest.mark.parametrize("dialect", sorted(ENGINES))
def test_decode_time_is_that_of_the_truth(dialect):
    engine = ENGINES[dialect]
    call = engine.completion(PROMPT, TOKENS, Sampling())
    with (
        reference_process(Truth(n=0, t0_s=0.005), dialect=dialect) as url,
        open_client(url, read_timeout_s=2.0) as http,
    ):
        got = sorted((sample(record(http, call), engine) for _ in range(5)), key=lambda one: one.decode_s)[2]
    assert got.decode_s == pytest.approx(0.005 * (TOKENS - 1), rel=0.005)
    assert got.first_half_s == pytest.approx(got.decode_s / 2, rel=0.03)


@pytest.mark.parametrize("dialect", sorted(ENGINES))
def test_time_to_first_token_is_within_a_millisecond_of_the_truth(dialect):
    engine = ENGINES[dialect]
    truth = Truth(n=0, ttft_s=0.02, pp_per_s=10_000.0, prefix_cache=False)
    call = engine.completion(PROMPT, 2, Sampling())
    with reference_server(truth, dialect=dialect) as url, open_client(url, 2.0) as http:
        got = [sample(record(http, call), engine).ttft_s for _ in range(8)]
    # On a busy machine single requests are off either way: the server's clock may start before the client's.
    assert median(got) == pytest.approx(0.02 + len(PROMPT) / 10_000, abs=0.001)


def test_keepalive_comments_and_usage_chunks_are_no_tokens():
    got = asked(Truth(n=0, keepalive_s=0.002, usage_first=True, ttft_s=0.01), "vllm")
    kinds = {timed.event.kind for timed in got.events}
    assert {"keepalive", "usage", "token"} <= kinds
    assert got.ttft_s > 0.01
    assert got.id_tokens == TOKENS


def test_a_first_event_with_several_tokens_is_counted_as_such():
    assert asked(Truth(n=0, first_event_tokens=4), "vllm").first_event_tokens == 4


HELD = {"n": 3, "acceptance": (1.0,) * 3, "t0_s": 0.004, "buffer_first_event": True}


@pytest.mark.parametrize("held", [2, 8])
def test_steps_that_are_held_back_with_the_first_do_not_make_decoding_look_faster(held):
    truth = Truth(buffered_events=held, **HELD)
    got = asked(truth, "vllm", tokens=1 + 4 * 48)
    true = (truth.n + 1) / (truth.t0_s * truth.cost(truth.n))
    assert got.first_event_tokens > 1
    assert (got.completion_tokens - got.first_event_tokens) / got.decode_s == pytest.approx(true, rel=0.03)


@pytest.mark.parametrize("held", [2, 7, 8])
def test_where_held_back_tokens_may_cut_a_step_only_the_server_knows_the_decode_time(held):
    truth = Truth(buffered_events=held, **HELD)
    got = asked(truth, "llamacpp", tokens=1 + 4 * 48)
    true = (truth.n + 1) / (truth.t0_s * truth.cost(truth.n))
    assert got.decode_s is None and got.first_half_s is None and got.first_event_tokens > 1
    assert (got.completion_tokens - 1) / got.server_decode_s == pytest.approx(true, rel=0.03)


@pytest.mark.parametrize("dialect", sorted(ENGINES))
def test_a_stream_that_breaks_off_is_an_error_and_keeps_what_came(dialect):
    got = asked(Truth(n=0), dialect, Faults(dies_after_tokens=20))
    assert got.error
    assert got.id_tokens is not None
    assert got.id_tokens <= 20


@pytest.mark.parametrize("dialect", sorted(ENGINES))
def test_a_refusal_is_an_error_with_the_servers_words(dialect):
    engine = ENGINES[dialect]
    with reference_server(Truth(), dialect=dialect) as url, open_client(url, 2.0) as http:
        got = sample(record(http, Request("/nowhere", {})), engine)
    assert "404" in got.error


def test_what_is_not_this_engines_is_an_error_and_not_an_exception():
    got = sample(Recording(0.0, [(0.1, b"data: {nonsense")]), ENGINES["vllm"])
    assert "could not be read" in got.error


def test_a_nobody_answering_is_an_error():
    with open_client("http://127.0.0.1:9", 1.0) as http:
        got = sample(record(http, Request("/completion", {})), ENGINES["llamacpp"])
    assert "ConnectError" in got.error


@pytest.mark.parametrize(
    ("arrivals", "bursts"),
    [
        ([0.0], 1),
        ([0, 1, 2, 3, 4], 5),
        ([*range(40), 60], 41),
        ([0, 0.001, 0.002, 1, 1.001, 2, 3, 3.001], 4),
    ],
)
def test_bursts_are_gaps_of_a_step(arrivals, bursts):
    assert len(burst_starts(arrivals)) == bursts


PAGE = """\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0"} 1.2e+02
vllm:spec_decode_num_drafts_total{engine="1"} 68.0
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0"} 1.7769e+09
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 90
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 50
"""


def test_counters_are_summed_over_engines_and_dates_are_not_counts():
    got = counters.parse(PAGE, ENGINES["vllm"].counters)
    assert got == {
        ("drafts", None): 188.0,
        ("accepted_per_pos", 0): 90.0,
        ("accepted_per_pos", 1): 50.0,
        ("engines", None): 2.0,
    }


def test_a_counter_that_is_not_exposed_is_missing_and_not_zero():
    assert counters.parse("", ENGINES["vllm"].counters) == {}


@pytest.mark.parametrize("dialect", sorted(ENGINES))
def test_counters_around_a_request_conserve_its_tokens(dialect):
    engine = ENGINES[dialect]
    with reference_server(Truth(n=3), dialect=dialect) as url, open_client(url, 2.0) as http:
        before = counters.scrape(http, engine)
        got = sample(record(http, engine.completion(PROMPT, TOKENS, Sampling())), engine)
        after = counters.scrape_after(http, engine, before, got.completion_tokens)
    drafts, accepted = (
        after[name, None] - before.get((name, None), 0) for name in ("drafts", "accepted_tokens")
    )
    undrafted = 1 if dialect == "llamacpp" else 0  # its last step drafts nothing when one token is left
    assert TOKENS - 1 - undrafted <= drafts + accepted <= TOKENS - 1 + 3


def times_page(requests: int, decode_s: float) -> str:
    return f"""\
# TYPE vllm:request_success_total counter
vllm:request_success_total{{engine="0",finished_reason="length"}} {requests}
vllm:request_success_total{{engine="0",finished_reason="stop"}} 0.0
# TYPE vllm:request_decode_time_seconds histogram
vllm:request_decode_time_seconds_bucket{{engine="0",le="0.3"}} 1.0
vllm:request_decode_time_seconds_bucket{{engine="0",le="+Inf"}} {requests}
vllm:request_decode_time_seconds_count{{engine="0"}} {requests}
vllm:request_decode_time_seconds_sum{{engine="0"}} {decode_s}
# TYPE vllm:request_decode_time_seconds_created gauge
vllm:request_decode_time_seconds_created{{engine="0"}} 1.7e+09
"""


def test_the_server_tells_the_time_of_a_request_that_finished_alone():
    before, alone, two = (
        counters.parse(times_page(*page), ENGINES["vllm"].counters)
        for page in [(4, 2.5), (5, 3.75), (6, 4.5)]
    )
    assert counters.request_times(before, alone) == {"server_decode_s": 1.25}
    assert counters.request_times(before, two) == {}
    assert counters.request_times({}, alone) == {}
