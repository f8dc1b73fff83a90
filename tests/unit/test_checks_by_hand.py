"""Every check fires on its fault and is silent without it; a check without a case fails this file."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from checks_by_hand import TOKENS, VOCABULARY, Tables, sound

from breakeven import tables
from breakeven.analysis import checks

Case = Callable[[Tables], None]


def run(given: Tables, only: str = "") -> pd.DataFrame:
    """The rows of all checks, or of one."""
    chosen = [check for check in checks.REGISTRY if only in ("", check.name)]
    rows = checks.run(
        *(given.requests, given.events, given.counters, given.telemetry, given.launches, given.experiment),
        **given.also,
        registry=chosen,
    )
    return pd.DataFrame(rows, columns=tables.CHECKS.names)


@pytest.fixture(scope="module")
def vllm() -> Tables:
    return sound("vllm")


@pytest.fixture(scope="module")
def llamacpp() -> Tables:
    return sound("llamacpp")


def mtp3(given: Tables, kind: str = "tg", **more: Any) -> pd.Series:
    """Requests of arm mtp3, of one kind, of the named round, depth, prompt or rep."""
    rows = (given.requests["arm"] == "mtp3") & (given.requests["kind"] == kind)
    for name, value in more.items():
        rows &= given.requests[name] == value
    return rows


def counter(given: Tables, name: str, arm: str = "mtp3") -> pd.Series:
    return (given.counters["counter"] == name) & (given.counters["arm"] == arm)


def change(given: Tables, name: str, by: Callable[[pd.Series], pd.Series]) -> None:
    """Another difference around every request of mtp3, the counter still cumulative."""
    rows = counter(given, name)
    own = given.counters[rows]
    moved = by(own["after"] - own["before"])
    total = moved.groupby([own["round"], own["position"].fillna(-1)]).cumsum()
    given.counters.loc[rows, "after"] = total
    given.counters.loc[rows, "before"] = total - moved


def scale(given: Tables, rows: pd.Series, column: str, factor: float) -> None:
    given.requests.loc[rows, column] *= factor


def usage(given: Tables) -> None:
    given.requests.loc[mtp3(given), "id_tokens"] -= 2


def late_counters(given: Tables) -> None:
    given.counters.loc[counter(given, "completion_tokens"), "after"] -= 1


def timings(given: Tables) -> None:
    given.requests.loc[mtp3(given), "draft_tokens"] = 1000


def accepted_twice(given: Tables) -> None:
    change(given, "accepted_tokens", lambda moved: moved * 3)


def more_accepted_than_drafted(given: Tables) -> None:
    change(given, "draft_tokens", lambda moved: moved // 4)


def restart(given: Tables) -> None:
    rows = counter(given, "drafts") & (given.counters["seq"] == 30)
    given.counters.loc[rows, "after"] = 0.0


def ends_early(given: Tables) -> None:
    rows = mtp3(given, prompt=3)
    given.requests.loc[rows, ["completion_tokens", "status", "stop"]] = [TOKENS - 9, "error", "eos"]


def first_event_held_back(given: Tables) -> None:
    given.requests.loc[mtp3(given), "first_event_tokens"] = 5


def request_failed(given: Tables) -> None:
    given.requests.loc[mtp3(given, prompt=0), ["status", "error"]] = ["error", "HTTP 500"]


def wrong_clock(given: Tables) -> None:
    scale(given, mtp3(given), "server_decode_s", 1.05)


def one_held_up(given: Tables) -> None:
    scale(given, mtp3(given, prompt=0, rep=0, round=1), "decode_s", 1.2)


def regrouped(given: Tables) -> None:
    given.requests.loc[mtp3(given), "token_events"] //= 2


def faster_deeper(given: Tables) -> None:
    scale(given, mtp3(given, depth=512), "decode_s", 0.7)


def cheaper_than_a_step(given: Tables) -> None:
    scale(given, mtp3(given), "decode_s", 0.6)


def slow_second_half(given: Tables) -> None:
    rows = given.events["arm"] == "mtp3"
    t = given.events.loc[rows, "arrived_s"]
    given.events.loc[rows, "arrived_s"] = t + 0.2 * np.maximum(t - 0.7, 0)


def too_many_bytes(given: Tables) -> None:
    given.also["step_bytes"] = {"mtp3": 5e9}


def prompt_cut(given: Tables) -> None:
    given.requests.loc[mtp3(given, depth=512), "prompt_tokens"] -= 100


def other_prompts(given: Tables) -> None:
    given.requests.loc[mtp3(given), "prompt_sha256"] += "x"


def replayed(given: Tables) -> None:
    rows = mtp3(given, kind="pp")
    given.requests.loc[rows, ["cached_tokens", "computed_tokens"]] += [60, -60]


def nothing_cached(given: Tables) -> None:
    rows = mtp3(given, kind="pp", depth=512)
    given.requests.loc[rows, ["cached_tokens", "computed_tokens"]] += [-512, 512]


def block_dropped(given: Tables) -> None:
    for kind in ("pp", "tg"):
        rows = mtp3(given, kind=kind, depth=512)
        given.requests.loc[rows, ["cached_tokens", "computed_tokens"]] += [-16, 16]


def past_the_context(given: Tables) -> None:
    given.launches.loc[given.launches["arm"] == "mtp3", "n_ctx"] = 512


def speculation_off(given: Tables) -> None:
    for name in ("drafts", "draft_tokens", "accepted_tokens", "accepted_per_pos"):
        change(given, name, lambda moved: moved * 0)


def shorter_drafts(given: Tables) -> None:
    change(given, "draft_tokens", lambda moved: moved * 2 // 3)


def same_as_mtp1(given: Tables) -> None:
    others = given.counters[given.counters["arm"] == "mtp1"].assign(arm="mtp3")
    given.counters = pd.concat([given.counters[given.counters["arm"] != "mtp3"], others])


def position(given: Tables, share: float) -> None:
    rows = counter(given, "accepted_per_pos") & (given.counters["position"] == 1)
    own = given.counters[rows]
    moved = ((own["after"] - own["before"]) * share).round()
    given.counters.loc[rows, "after"] = own["before"] + moved


def dead_position(given: Tables) -> None:
    position(given, 0.0)


def collapsed_position(given: Tables) -> None:
    position(given, 0.15)


def diverges(given: Tables) -> None:
    given.requests.loc[mtp3(given), "output_sha256"] += "x"
    given.requests["output_ids"] = [
        np.append(ids[:-1], 3 + ids[-1]) if arm == "mtp3" else ids
        for arm, ids in zip(given.requests["arm"], given.requests["output_ids"], strict=True)
    ]


def outputs(given: Tables, make: Callable[[np.ndarray], np.ndarray]) -> None:
    given.requests["output_ids"] = [make(ids) for ids in given.requests["output_ids"]]


def loops(given: Tables) -> None:
    outputs(given, lambda ids: np.resize(ids[:20], len(ids)))


def noise(given: Tables) -> None:
    outputs(given, lambda ids: np.arange(len(ids)) * 7919 % 10007)


def past_the_end(given: Tables) -> None:
    outputs(given, lambda ids: np.where(np.arange(len(ids)) == 100, VOCABULARY, ids))


def few_prompts(given: Tables) -> None:
    given.requests = given.requests[given.requests["prompt"] < 3].reset_index(drop=True)


def remembers(given: Tables) -> None:
    given.launches.loc[given.launches["arm"] == "mtp3", ["n_spec", "gated"]] = [np.nan, True]
    later = given.requests.loc[mtp3(given, rep=1), ["round", "seq"]].to_records(index=False).tolist()
    given.counters["seen"] = list(zip(given.counters["round"], given.counters["seq"], strict=True))
    rows = counter(given, "accepted_tokens") & ~given.counters["seen"].isin(later)
    given.counters.loc[rows, "after"] = (
        given.counters["before"] + (given.counters["after"] - given.counters["before"]) // 3
    )


def somebody_else(given: Tables) -> None:
    given.counters.loc[counter(given, "completion_tokens"), "after"] += 50


def somebody_between(given: Tables) -> None:
    rows = counter(given, "completion_tokens") & (given.counters["seq"] > 40)
    given.counters.loc[rows, ["before", "after"]] += 50


def two_engines(given: Tables) -> None:
    given.counters.loc[counter(given, "engines"), "after"] = 2.0


def cold_slot(given: Tables) -> None:
    rows = given.requests["slot"] == 0
    scale(given, rows, "decode_s", 1.07)


def drifts(given: Tables) -> None:
    given.requests["decode_s"] *= 1 + 0.03 * (given.requests["round"] + given.requests["slot"] / 10)


def compiles(given: Tables) -> None:
    scale(given, mtp3(given, kind="pp", prompt=0, rep=0, round=2), "ttft_s", 12)


def unsettled(given: Tables) -> None:
    scale(given, mtp3(given, prompt=0, rep=0), "decode_s", 1.5)


def compile_lines(given: Tables) -> None:
    given.launches.loc[given.launches["arm"] == "mtp3", "late_compiles"] = 4


def reading(given: Tables, quantity: str, value: float) -> None:
    rows = (given.telemetry["quantity"] == quantity) & (given.telemetry["arm"] == "mtp3")
    given.telemetry.loc[rows, "value"] = value


def busy(given: Tables) -> None:
    reading(given, "other_busy_processes", 1)
    named = given.telemetry[given.telemetry["quantity"] == "other_busy_processes"]
    named = named.assign(quantity="busy_process_percent:updatedb", value=95.0)
    given.telemetry = pd.concat([given.telemetry, named], ignore_index=True)


# check -> (the engine whose tables are spoiled, what spoils them, a word that the reason must hold)
CASES: dict[str, tuple[str, Case, str]] = {
    "usage_equals_ids": ("vllm", usage, "token ids"),
    "counters_equal_usage": ("vllm", late_counters, "counter"),
    "timings_equal_counters": ("llamacpp", timings, "timings"),
    "conservation": ("vllm", accepted_twice, "drafts + accepted"),
    "drafts_add_up": ("vllm", more_accepted_than_drafted, "add up"),
    "counters_only_rise": ("vllm", restart, "drafts fell"),
    "runs_full_length": ("vllm", ends_early, "ignore_eos"),
    "first_event": ("vllm", first_event_held_back, "held back"),
    "requests_answered": ("vllm", request_failed, "HTTP 500"),
    "client_matches_server": ("llamacpp", wrong_clock, "-4.8%"),
    "requests_disturbed": ("llamacpp", one_held_up, "single requests"),
    "steps_match_events": ("vllm", regrouped, "by the stream"),
    "not_faster_deeper": ("vllm", faster_deeper, "depth 512"),
    "step_not_cheaper": ("vllm", cheaper_than_a_step, "0.9"),
    "halves_alike": ("vllm", slow_second_half, "second half"),
    "within_bandwidth": ("vllm", too_many_bytes, "GB/s"),
    "prompt_as_planned": ("vllm", prompt_cut, "100 tokens off"),
    "same_prompts": ("vllm", other_prompts, "baseline"),
    "new_tokens_computed": ("vllm", replayed, "60 tokens"),
    "depth_cached": ("vllm", nothing_cached, "512 of 512"),
    "computed_equal": ("vllm", block_dropped, "one cache block of 16"),
    "within_context": ("vllm", past_the_context, "holds 512"),
    "drafts_when_asked": ("vllm", speculation_off, "not one was made"),
    "draft_length": ("vllm", shorter_drafts, "2.00 tokens, 3 were asked"),
    "lever_live": ("vllm", same_as_mtp1, "mtp1"),
    "positions_alive": ("vllm", dead_position, "position 1"),
    "positions_steady": ("vllm", collapsed_position, "position 1"),
    "lossless": ("vllm", diverges, "differ"),
    "not_looping": ("vllm", loops, "loop"),
    "not_noise": ("vllm", noise, "noise"),
    "not_past_the_end": ("vllm", past_the_end, "natural end"),
    "enough_prompts": ("vllm", few_prompts, "3 of 12 prompts"),
    "enough_tokens": ("short", lambda given: None, "256 wanted"),
    "drafter_forgets": ("vllm", remembers, "remembers"),
    "alone_inside": ("vllm", somebody_else, "somebody else"),
    "alone_between": ("vllm", somebody_between, "somebody else"),
    "one_engine": ("vllm", two_engines, "2 engines"),
    "first_slot": ("vllm", cold_slot, "+7"),
    "baseline_drift": ("vllm", drifts, "changed by"),
    "first_request_warm": ("vllm", compiles, "12.0 times"),
    "settled": ("vllm", unsettled, "tg request"),
    "compiled_before": ("vllm", compile_lines, "4 times"),
    "not_throttled": ("vllm", lambda given: reading(given, "throttle_power", 1), "throttle_power"),
    "clocks_equal": ("vllm", lambda given: reading(given, "gpu_clock_mhz", 1500), "gpu_clock_mhz"),
    "temperature_equal": ("vllm", lambda given: reading(given, "temperature_junction_c", 85), "+25"),
    "power_cap_equal": ("vllm", lambda given: reading(given, "power_cap_w", 250), "250 W"),
    "machine_quiet": ("vllm", busy, "updatedb (95 %)"),
}  # fmt: skip


def test_every_check_is_registered_once_and_has_a_case():
    names = [check.name for check in checks.REGISTRY]
    assert sorted(names) == sorted(CASES)


@pytest.mark.parametrize("engine", ["vllm", "llamacpp"])
def test_sound_tables_fail_no_check(engine, request):
    found = run(request.getfixturevalue(engine))
    failed = found[found["passed"] == False]  # noqa: E712
    assert failed[["arm", "check", "reason"]].to_dict("records") == []
    assert set(found["check"]) >= set(CASES) - {"drafter_forgets"}


@pytest.mark.parametrize("name", list(CASES))
def test_a_check_fires_on_its_fault_and_says_what_was_found(name, request):
    engine, spoil, word = CASES[name]
    spoiled = sound(tokens=64) if engine == "short" else request.getfixturevalue(engine).copy()
    spoil(spoiled)
    found = run(spoiled, only=name)
    failed = found[found["passed"] == False]  # noqa: E712
    assert len(failed), found[["arm", "passed", "reason"]].to_string()
    assert failed["reason"].str.contains(word, regex=False).any(), failed["reason"].tolist()
    assert failed["value"].notna().all()


@pytest.mark.parametrize(
    ("own", "share"), [([None] * 12, 0.0), ([300, None], 0.0), ([128, None], 0.251), ([0], 1.0)]
)
def test_answers_that_were_allowed_to_end_tell_how_much_comes_after(llamacpp, own, share):
    given = llamacpp.copy()
    given.also |= {"eos_ids": (), "natural_tokens": {"natural": own}}
    given.experiment["workload"]["tg"] = TOKENS
    row = run(given, only="not_past_the_end").iloc[0]
    assert row["value"] == pytest.approx(share, abs=0.001) and row["passed"] == (share == 0)
    given.also["natural_tokens"] = {}
    assert run(given, only="not_past_the_end")["passed"].all(), "a guided class ends where its schema does"
    given.also["natural_tokens"] = None
    assert run(given, only="not_past_the_end")["passed"].isna().all()


def test_without_a_decode_window_of_the_clients_the_servers_own_is_taken(llamacpp):
    held = llamacpp.copy()
    held.requests.loc[mtp3(held), ["decode_s", "first_event_tokens"]] = [np.nan, 8]
    found = run(held)
    failed = found[found["passed"] == False]  # noqa: E712
    assert set(failed["check"]) == {"first_event"}
    decided = found[(found["arm"] == "mtp3") & found["passed"].notna()]
    assert {"step_not_cheaper", "not_faster_deeper", "within_bandwidth", "settled"} <= set(decided["check"])


def test_the_rows_fit_the_table(vllm, tmp_path):
    tables.write(run(vllm), tmp_path / "checks.parquet", tables.CHECKS)
