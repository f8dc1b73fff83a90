"""What cannot be decided is null with a reason; forced acceptance is no text; what is no fault stays silent."""

import numpy as np
import pandas as pd
import pytest
from checks_by_hand import Tables, sound

from breakeven import tables
from breakeven.analysis import checks
from breakeven.analysis.checks.caches import dropped_block
from breakeven.analysis.checks.soundness import looping_part

SCHEMAS = {
    "requests": tables.REQUESTS,
    "events": tables.EVENTS,
    "counters": tables.COUNTERS,
    "telemetry": tables.TELEMETRY,
}


def run(given: Tables) -> pd.DataFrame:
    rows = checks.run(
        *(given.requests, given.events, given.counters, given.telemetry, given.launches, given.experiment)
    )
    return pd.DataFrame(rows, columns=tables.CHECKS.names)


def only(found: pd.DataFrame, check: str, arm: str = "mtp3") -> pd.DataFrame:
    return found[(found["check"] == check) & (found["arm"] == arm)]


@pytest.fixture(scope="module")
def whole() -> Tables:
    return sound("vllm", tokens=64)


def emptied(given: Tables, *names: str) -> Tables:
    given = given.copy()
    for name in names:
        setattr(given, name, pd.DataFrame(columns=SCHEMAS[name].names))
    return given


def test_without_counters_acceptance_is_unknown_and_nothing_fails(whole):
    found = run(emptied(whole, "counters"))
    for check in (
        "conservation",
        "drafts_add_up",
        "draft_length",
        "lever_live",
        "positions_alive",
        "one_engine",
    ):
        assert only(found, check)["passed"].isna().all(), check
    failed = found[found["passed"] == False]  # noqa: E712
    assert set(failed["check"]) <= {"enough_tokens"}


def test_without_telemetry_and_events_the_machine_is_unknown(whole):
    found = run(emptied(whole, "telemetry", "events"))
    for check in ("clocks_equal", "not_throttled", "power_cap_equal", "machine_quiet", "halves_alike"):
        assert only(found, check)["passed"].isna().all(), check


def test_an_experiment_in_which_nothing_ran_has_no_findings_and_no_error(whole):
    given = emptied(whole, *SCHEMAS)
    given.launches = given.launches.assign(status="died")
    assert run(given).empty


def test_a_died_launch_is_not_judged(whole):
    given = whole.copy()
    died = (given.launches["arm"] == "mtp3") & (given.launches["round"] == 2)
    given.launches.loc[died, "status"] = "died"
    found = run(given)
    assert not ((found["arm"] == "mtp3") & (found["round"] == 2)).any()


def test_tables_as_they_are_stored_are_read_alike(whole, tmp_path):
    stored = whole.copy()
    for name, schema in SCHEMAS.items():
        frame = getattr(whole, name).reindex(columns=schema.names)
        if name == "requests":
            frame = frame.assign(started_at=0.0)
        tables.write(frame, tmp_path / name, schema)
        setattr(stored, name, tables.read(tmp_path / name, schema))
    columns = ["arm", "round", "depth", "check", "passed", "reason"]
    assert run(stored)[columns].equals(run(whole)[columns])


def test_a_private_class_keeps_its_text_and_loses_the_checks_of_it(whole):
    given = whole.copy()
    given.requests["output_ids"] = None
    found = run(given)
    for check in ("not_looping", "not_noise"):
        assert only(found, check)["passed"].isna().all()
    assert only(found, "lossless")["passed"].all()


def test_forced_acceptance_is_a_cost_probe_and_no_text():
    given = sound("vllm", tokens=64, cost_only=("mtp3",))
    given.requests.loc[given.requests["arm"] == "mtp3", "output_sha256"] += "forced"
    rows = (given.counters["arm"] == "mtp3") & (given.counters["counter"] == "accepted_per_pos")
    given.counters.loc[rows, "after"] = given.counters.loc[rows, "before"]
    found = run(given)
    for check in ("lossless", "positions_alive", "positions_steady", "not_looping", "not_noise"):
        row = only(found, check)
        assert row["passed"].isna().all() and row["reason"].str.contains("forced").all(), check
    assert only(found, "conservation")["passed"].all()
    assert only(found, "step_not_cheaper")["passed"].all()


def test_a_gated_arm_may_leave_steps_undrafted():
    given = sound("vllm", tokens=64)
    given.launches.loc[given.launches["arm"] == "mtp3", "gated"] = True
    rows = (given.counters["arm"] == "mtp3") & given.counters["counter"].isin(["drafts", "draft_tokens"])
    given.counters.loc[rows, "after"] -= ((given.counters["after"] - given.counters["before"]) // 4)[rows]
    found = run(given)
    for check in ("conservation", "draft_length"):
        assert only(found, check)["passed"].all(), only(found, check)["reason"].tolist()


def test_places_that_agree_are_one_row_with_the_extreme_figure(whole):
    found = run(whole)
    row = only(found, "depth_cached")
    assert len(row) == 1 and pd.isna(row["round"].iloc[0])
    few = only(found, "enough_tokens")
    assert len(few) == 1 and few["value"].iloc[0] == 64


def test_sampled_classes_are_not_compared_with_the_baseline(whole):
    given = whole.copy()
    given.experiment["workload"] = {"prompts": {"natural": {"sampling": {"temperature": 0.7}}}}
    assert only(run(given), "lossless")["passed"].isna().all()


@pytest.mark.parametrize(
    ("cached", "words"),
    [
        ({8192: 7200, 32768: 31200}, "of 800 tokens"),
        ({512: 496, 2048: 2032}, "of 16 tokens"),
        ({8192: 8192}, ""),
        ({8192: 0}, ""),
        ({512: float("nan")}, ""),
    ],
)
def test_the_block_that_was_given_up_is_named_by_what_every_depth_cached(cached, words):
    assert words in dropped_block(cached)
    assert bool(words) == bool(dropped_block(cached))


@pytest.mark.parametrize(
    ("ids", "part"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], 0),
        ([7] * 9, 1),
        ([9, 8, *[1, 2, 3] * 3], 9 / 11),
        ([1, 2, 3] * 2, 0),
        ([], 0),
    ],
)
def test_a_loop_is_a_pattern_at_the_end_repeated_three_times(ids, part):
    assert looping_part(np.array(ids)) == pytest.approx(part)
