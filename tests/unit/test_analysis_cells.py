"""Requests and counters to cells: what is counted, what is left out, what is unknown."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from breakeven import tables
from breakeven.analysis import cells
from breakeven.errors import BreakevenError

LAUNCHES = pd.DataFrame(
    [("base", 1, 0, None, "ok"), ("mtp1", 1, 1, 1, "ok")],
    columns=["arm", "round", "slot", "n_spec", "status"],
).astype({"n_spec": "Int64"})


def request(arm: str, seq: int, **changes: object) -> dict[str, object]:
    row: dict[str, object] = dict.fromkeys(cells.REQUEST_COLUMNS)
    row |= {"arm": arm, "round": 1, "slot": 0 if arm == "base" else 1, "depth": 0, "prompt_class": "code"}
    row |= {"prompt": seq, "rep": 0, "seq": seq, "kind": "tg", "status": "ok", "completion_tokens": 257}
    return row | {"first_event_tokens": 1, "ttft_s": 0.1, "decode_s": 2.56} | changes


def counter(arm: str, seq: int, name: str, change: float, position: int | None = None) -> dict[str, object]:
    return {
        "arm": arm, "round": 1, "seq": seq, "counter": name, "position": position,
        "before": 1000.0, "after": 1000.0 + change,
    }  # fmt: skip


def drafted(seq: int, drafts: int, accepted: int, arm: str = "mtp1") -> list[dict[str, object]]:
    return [
        counter(arm, seq, "drafts", drafts),
        counter(arm, seq, "draft_tokens", drafts),
        counter(arm, seq, "accepted_tokens", accepted),
        counter(arm, seq, "accepted_per_pos", accepted, 0),
    ]


def table(
    requests: list[dict[str, object]], counters: list[dict[str, object]], launches: pd.DataFrame = LAUNCHES
) -> pd.DataFrame:
    counted = pd.DataFrame(counters, columns=list(cells.COUNTER_COLUMNS))
    return cells.cells(cells.per_request(pd.DataFrame(requests), counted), launches, "e").set_index("arm")


def test_steps_come_from_drafts_and_time_per_step_from_steps():
    found = table(
        [
            request("base", 0),
            request("base", 1),
            request("mtp1", 0, decode_s=2.0),
            request("mtp1", 1, decode_s=2.2),
        ],
        drafted(0, 150, 106) + drafted(1, 160, 96),
    )
    arm = found.loc["mtp1"]
    assert (arm["steps"], arm["drafts"], arm["undrafted"], arm["accepted"]) == (310, 310, 0, 202)
    assert arm["accepted_per_pos"] == [202]
    assert arm["log_step_s"] == pytest.approx((np.log(2.0 / 150) + np.log(2.2 / 160)) / 2)
    assert arm["tok_s"] == pytest.approx(512 / 4.2)
    base = found.loc["base"]
    assert base["steps"] == 512 and base["log_step_s"] == pytest.approx(np.log(0.01))
    assert pd.isna(base["drafts"])


def test_o3_tokens_per_second_come_from_the_servers_count_not_from_events():
    found = table(
        [request("base", 0, completion_tokens=256, decode_s=4.463), request("mtp1", 0, decode_s=4.463)],
        drafted(0, 136, 120),
    )
    assert found.loc["base", "tok_s"] == pytest.approx(57.1365, abs=1e-3)


def test_accepted_tokens_past_the_length_limit_do_not_make_steps_fewer_than_drafts():
    found = table([request("base", 0), request("mtp1", 0)], drafted(0, 151, 106))
    assert found.loc["mtp1", "steps"] == 151 and found.loc["mtp1", "undrafted"] == 0


def test_o2_tokens_drafts_and_accepted_are_conserved_within_one_draft_a_request():
    """2302 decode tokens, 1224 drafts, 1084 accepted over 10 requests at N = 1: 2308 lies in 2302 .. 2312."""
    lengths = [256] * 9 + [8]
    emitted = [256] * 6 + [255] * 3 + [7]
    drafts = [135] * 4 + [136] * 5 + [4]
    accepted = [tokens - steps for tokens, steps in zip(emitted, drafts, strict=True)]
    requests = [
        request(arm, i, completion_tokens=n) for arm in ("base", "mtp1") for i, n in enumerate(lengths)
    ]
    counters = [row for i in range(10) for row in drafted(i, drafts[i], accepted[i])]
    found = table(requests, counters).loc["mtp1"]
    assert (found["drafts"], found["accepted"], found["completion_tokens"]) == (1224, 1084, 2312)
    assert found["steps"] == 1224 and found["undrafted"] == 0 and pd.isna(found["steps_reason"])


def test_o2_drafts_and_accepted_beyond_one_draft_a_request_void_the_steps():
    found = table([request("base", 0), request("mtp1", 0)], drafted(0, 153, 106))
    assert pd.isna(found.loc["mtp1", "steps"]) and "contradict" in found.loc["mtp1", "steps_reason"]
    assert pd.notna(found.loc["mtp1", "tok_s"])


def test_o18_undrafted_steps_are_what_the_lossless_identity_leaves_over():
    gated = LAUNCHES.assign(n_spec=pd.array([None, 3], dtype="Int64"))
    counters = [counter("mtp1", 0, "drafts", 55)]
    found = table(
        [request("base", 0), request("mtp1", 0, draft_tokens=120, accepted_tokens=90)], counters, gated
    ).loc["mtp1"]
    assert (found["steps"], found["undrafted"], found["draft_tokens"]) == (166, 111, 120)


def test_without_a_draft_counter_steps_are_known_and_their_parts_are_not():
    found = table([request("base", 0), request("mtp1", 0, draft_tokens=120, accepted_tokens=90)], []).loc[
        "mtp1"
    ]
    assert found["steps"] == 166 and pd.isna(found["drafts"]) and pd.isna(found["undrafted"])


def test_missing_counters_are_null_with_a_reason_not_zero():
    found = table([request("base", 0), request("mtp1", 0)], []).loc["mtp1"]
    assert pd.isna(found["accepted"]) and pd.isna(found["steps"]) and pd.isna(found["log_step_s"])
    assert "not counted" in found["steps_reason"]


def test_first_event_that_hides_a_step_does_not_change_the_time_per_step():
    """256 decode tokens at 2 a step of 10 ms; the first event already holds one whole step."""
    hidden = request("mtp1", 0, first_event_tokens=3, decode_s=1.27)
    found = table([request("base", 0), hidden], drafted(0, 128, 128)).loc["mtp1"]
    assert np.exp(found["log_step_s"]) == pytest.approx(0.01, rel=1e-9)


def test_a_counter_that_goes_backwards_is_an_error_that_names_the_launch():
    with pytest.raises(BreakevenError, match="arm mtp1, round 1 fell from 1000 to 300"):
        table([request("base", 0), request("mtp1", 0)], [counter("mtp1", 0, "drafts", -700)])


def test_a_request_that_failed_in_one_arm_is_left_out_of_all():
    found = table(
        [request("base", 0), request("base", 1), request("mtp1", 0), request("mtp1", 1, status="error")],
        drafted(0, 150, 106),
    )
    assert found["requests"].tolist() == [1, 1]
    assert found.loc["base", "unpaired_requests"] == 1


def test_a_launch_that_did_not_run_has_no_cell_and_costs_the_others_nothing():
    refused = LAUNCHES.assign(status=["ok", "refused"])
    found = table([request("base", 0), request("base", 1)], [], refused)
    assert found.index.tolist() == ["base"] and found.loc["base", "requests"] == 2


def test_two_launches_of_one_arm_and_round_are_refused():
    twice = pd.concat([LAUNCHES, LAUNCHES.tail(1)], ignore_index=True)
    with pytest.raises(BreakevenError, match="two launches of arm mtp1"):
        table([request("base", 0), request("mtp1", 0)], [], twice)


def test_prefill_is_told_per_new_and_per_computed_token():
    pp = [
        request(
            arm,
            5,
            kind="pp",
            ttft_s=seconds,
            planned_new_tokens=2048,
            prompt_tokens=10240,
            cached_tokens=cached,
        )
        for arm, seconds, cached in (("base", 1.0, 7840), ("mtp1", 1.25, 7200))
    ]
    found = table([*pp, request("base", 0), request("mtp1", 0)], drafted(0, 150, 106))
    assert found["pp_new_tok_s"].tolist() == pytest.approx([2048, 1638.4])
    assert found["pp_computed_tok_s"].tolist() == pytest.approx([2400, 2432])
    assert found["computed_tokens"].tolist() == [2400, 3040]


def test_prompts_pool_a_prompts_repetitions():
    requests = [request(arm, rep, prompt=0, rep=rep) for arm in ("base", "mtp1") for rep in (0, 1)]
    counted = pd.DataFrame(drafted(0, 150, 106) + drafted(1, 160, 96), columns=list(cells.COUNTER_COLUMNS))
    found = cells.prompts(cells.per_request(pd.DataFrame(requests), counted), LAUNCHES, "e").set_index("arm")
    assert found.loc["mtp1", "rate"] == pytest.approx(202 / 310)
    assert found.loc["mtp1", "length"] == pytest.approx(512 / 310)
    assert found.loc["mtp1", "survival"] == pytest.approx([202 / 310])
    assert pd.isna(found.loc["base", "rate"]) and found.loc["base", "length"] == 1


def test_both_tables_are_written_and_read_by_their_schemas(tmp_path: Path):
    requests = [request("base", 0), request("mtp1", 0)]
    counted = pd.DataFrame(drafted(0, 150, 106), columns=list(cells.COUNTER_COLUMNS))
    rows = cells.per_request(pd.DataFrame(requests), counted)
    for make, schema in ((cells.cells, cells.CELLS), (cells.prompts, cells.PROMPTS)):
        made = make(rows, LAUNCHES, "e")
        tables.write(made, tmp_path / "t.parquet", schema)
        assert tables.read(tmp_path / "t.parquet", schema)["steps"].tolist() == made["steps"].tolist()
        assert all(field.metadata and b"what" in field.metadata for field in schema)
