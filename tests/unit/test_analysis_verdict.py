"""Verdicts on simulated launches whose truth is known, and the table of conditions itself."""

import json

import pandas as pd
import pytest
from simulated_launches import Tables, TrueArm, check, simulate

from breakeven.analysis.experiment import read_experiment
from breakeven.analysis.verdict import Verdict, verdict
from breakeven.errors import ConfigError
from breakeven.publish.ledger.findings import entries_of
from breakeven.publish.ledger.from_verdict import document as file_findings

Q = (0.87, 0.784, 0.799)
"""Conditional acceptance of a trained head; survival .87, .682, .545."""


def judged(
    tables: Tables,
    *,
    checks: list[dict[str, object]] = [],  # noqa: B006
    statuses: dict[str, dict[str, object]] | None = None,
    gates: dict[str, list[dict[str, object]]] | None = None,
    rounds: int | None = None,
) -> Verdict:
    frame = pd.DataFrame(checks, columns=tables.checks.columns)
    return verdict(
        tables.experiment, tables.cells, tables.prompts, frame, statuses or {}, gates or {}, rounds
    )


def arms(costs: tuple[float, ...], q: tuple[float, ...] = Q, twin: bool = True) -> dict[str, TrueArm]:
    found = {"base": TrueArm()} | ({"base_again": TrueArm(repeat_of="base")} if twin else {})
    return found | {f"mtp{n}": TrueArm(cost, q[:n]) for n, cost in enumerate(costs, start=1)}


CHEAP = (1.1945, 1.3341, 1.4737)
"""a = 1.0549, b = 0.1396."""
DEAR = (2.27, 3.43, 4.59)
"""a = 1.11, b = 1.16."""


def test_o5_cheap_drafts_win_at_every_n_and_the_line_is_recovered():
    found = judged(simulate(arms(CHEAP)))
    cell = found.cells[0]
    assert {one.verdict for one in found.judgements.values()} == {"wins"}
    assert cell.fit is not None
    assert cell.fit.a.low < 1.0549 < cell.fit.a.high
    assert cell.fit.b.low < 0.1396 < cell.fit.b.high
    assert cell.best_n.n == 3
    for arm, speedup in (("mtp1", 1.5655), ("mtp2", 1.9129), ("mtp3", 2.1015)):
        assert cell.arms[arm].ratio.value.value == pytest.approx(speedup, rel=0.03)


def test_o6_dear_drafts_are_impossible_with_the_b_that_reopens_the_question():
    found = judged(simulate(arms(DEAR)))
    for n, threshold in ((1, 0.89), (2, 0.945), (3, 0.9633)):
        one = found.judgements[f"mtp{n}", 0, "code"]
        assert (one.verdict, one.row, one.ledger) == ("impossible", 2, "impossible")
        condition = one.reopen.conditions[0]
        assert (condition.quantity, condition.at_n) == ("b", n)
        assert condition.below == pytest.approx(threshold, abs=0.03)
    assert {one.ledger for one in found.configurations} == {"impossible"}


def test_o6b_b_below_one_is_a_cost_limited_loss_at_n_1_and_not_impossible_at_n_3():
    found = judged(simulate(arms((2.3, 3.1, 3.9))))
    assert found.judgements["mtp1", 0, "code"].verdict == "loses"
    assert found.judgements["mtp1", 0, "code"].cause == "cost-limited"
    assert found.judgements["mtp3", 0, "code"].cause == "acceptance-limited"


def test_what_would_have_to_change_quotes_the_line_of_its_cell():
    (cell,) = judged(simulate(arms(DEAR), rounds=5, sd=0.05)).cells
    assert cell.estimator == "E5"
    assert f"from {cell.fit.b.value:.3f} below" in " ".join(cell.arms["mtp1"].needed)


def test_two_drafters_have_two_lines_and_the_one_with_more_lengths_is_fitted():
    other = {"head1": TrueArm(2.5, Q[:1]), "head3": TrueArm(1.2, Q)}
    found = simulate(arms(CHEAP, twin=False) | other)
    for name, keys in found.experiment["arms"].items():
        keys["drafter"] = "head" if name.startswith("head") else "mtp" if name.startswith("mtp") else None
    seen = judged(found)
    (cell,) = seen.cells
    assert cell.fit.arms == ("mtp1", "mtp2", "mtp3")
    assert cell.fit.a.low < 1.0549 < cell.fit.a.high
    assert cell.line_of("head3") is None and cell.arms["head3"].ceiling.value == pytest.approx(
        4 / 1.2, rel=0.02
    )
    dear = simulate(arms(DEAR, twin=False) | other)
    for name, keys in dear.experiment["arms"].items():
        keys["drafter"] = name[:3]
    verdicts = {arm: one.verdict for (arm, *_), one in judged(dear).judgements.items()}
    assert verdicts["mtp1"] == "impossible" and verdicts["head1"] == "loses" and verdicts["head3"] == "wins"


def test_poor_drafts_lose_by_acceptance_with_the_length_that_reopens_it():
    found = judged(simulate(arms(CHEAP, (0.05, 0.05, 0.05))))
    one = found.judgements["mtp1", 0, "code"]
    assert (one.verdict, one.cause, one.ledger) == ("loses", "acceptance-limited", "rejected")
    by_name = {c.quantity: c for c in one.reopen.conditions}
    assert by_name["tokens_per_step"].above == pytest.approx(1.1945, rel=0.02)
    assert by_name["acceptance_rate"].above == pytest.approx(0.1945, abs=0.02)
    assert any("tokens per step must reach" in words for words in found.cells[0].arms["mtp1"].needed)


def test_no_difference_is_inconclusive_after_three_rounds_and_a_tie_after_eight():
    same = {"base": TrueArm(), "base_again": TrueArm(repeat_of="base"), "knob": TrueArm()}
    early = judged(simulate(same, planned="auto"), rounds=3)
    assert early.judgements["knob", 0, "code"].verdict == "inconclusive"
    assert not early.decided and early.plan.look.next_rounds == 5
    assert early.judgements["knob", 0, "code"].minimum_detectable_effect > 0
    late = judged(simulate(same, rounds=8, planned="auto"), rounds=8)
    assert late.judgements["knob", 0, "code"].verdict == "tie"
    assert late.decided


def test_look_uses_its_own_rounds_and_level_although_more_were_measured():
    found = judged(simulate(arms(CHEAP[:1]), rounds=5, planned="auto"), rounds=3)
    assert found.cells[0].rounds == (1, 2, 3) and found.plan.look.alpha == 0.01


def test_one_launch_per_arm_has_values_and_no_intervals():
    found = judged(simulate(arms(CHEAP), rounds=1))
    one = found.judgements["mtp1", 0, "code"]
    assert one.verdict == "inconclusive" and "one launch per arm has no usable error" in one.reason
    numbers = found.cells[0].arms["mtp1"]
    assert numbers.ratio.value.value == pytest.approx(1.57, rel=0.05) and not numbers.ratio.value.bounded
    assert numbers.cost.value == pytest.approx(1.1945, rel=0.05) and not numbers.cost.bounded


def test_gate_that_failed_makes_an_arm_invalid_without_a_factor():
    gate = {"gate": "kernel", "passed": False, "severity": "block", "reason": "found Triton, wanted Aiter"}
    found = judged(simulate(arms(CHEAP)), gates={"mtp2": [gate]})
    one = found.judgements["mtp2", 0, "code"]
    assert (one.verdict, one.row, one.ledger) == ("invalid", 1, "diagnosis")
    assert "found Triton" in one.sentence and "times the baseline" not in one.sentence
    configuration = next(c for c in found.configurations if c.arm == "mtp2")
    assert configuration.ledger == "diagnosis" and not configuration.factors
    assert found.judgements["mtp1", 0, "code"].verdict == "wins"


def test_gate_of_the_baseline_makes_every_arm_invalid():
    gate = {"gate": "kernel", "passed": False, "severity": "block", "reason": "found Triton"}
    found = judged(simulate(arms(CHEAP)), gates={"base": [gate]})
    assert {one.verdict for one in found.judgements.values()} == {"invalid"}


def test_warning_gate_and_undecided_check_are_carried_and_do_not_block():
    gate = {"gate": "kv", "passed": False, "severity": "warn", "reason": "KV cache 5 % smaller"}
    found = judged(
        simulate(arms(CHEAP)), gates={"mtp1": [gate]}, checks=[check("mtp1", None, name="lossless", depth=0)]
    )
    one = found.judgements["mtp1", 0, "code"]
    assert one.verdict == "wins" and one.gates == (gate,) and one.checks[0]["check"] == "lossless"


def test_check_that_fails_in_one_round_drops_that_round_for_all_arms():
    found = judged(simulate(arms(CHEAP), rounds=4), checks=[check("mtp1", False, round=2)])
    assert found.cells[0].rounds == (1, 3, 4)
    assert found.cells[0].dropped == ("round 2: no usable value of mtp1",)
    assert found.judgements["mtp1", 0, "code"].verdict == "wins"


def test_one_complete_round_of_three_says_why_there_is_no_interval():
    checks = [check("mtp1", False, round=1), check("mtp2", False, round=3)]
    one = judged(simulate(arms(CHEAP)), checks=checks).judgements["mtp3", 0, "code"]
    assert one.verdict == "inconclusive" and "only round 2 of 3 is complete in every arm" in one.reason


def test_check_that_fails_in_half_of_the_rounds_makes_the_arm_invalid():
    found = judged(simulate(arms(CHEAP), rounds=4), checks=[check("mtp1", False, round=r) for r in (1, 3)])
    assert found.judgements["mtp1", 0, "code"].verdict == "invalid"
    assert found.judgements["mtp2", 0, "code"].verdict == "wins"


def test_output_that_diverges_is_an_open_defect():
    found = judged(simulate(arms(CHEAP)), checks=[check("mtp1", False, name="lossless")])
    assert found.judgements["mtp1", 0, "code"].ledger == "open-defect"


def test_arm_that_did_not_start_is_blocked_and_one_the_engine_lacks_is_impossible():
    tables = simulate(arms(CHEAP))
    described = dict(tables.experiment["arms"]) | {"eagle": {"n_spec": 3}, "dflash": {"n_spec": 4}}
    tables = Tables(tables.cells, tables.prompts, tables.checks, tables.experiment | {"arms": described})
    statuses = {
        "eagle": {"status": "died", "reason": "out of memory"},
        "dflash": {"status": "unsupported", "reason": "this build has no such drafter"},
    }
    found = judged(tables, statuses=statuses)
    words = {c.arm: (c.ledger, c.reason) for c in found.configurations}
    assert words["eagle"] == ("blocked", "out of memory")
    assert words["dflash"] == ("impossible", "this build has no such drafter")
    assert [one.status for one in found.arms if one.arm == "eagle"] == ["died"]


def test_arm_measured_again_alone_gets_no_interval_and_no_verdict():
    tables = simulate(arms(CHEAP))
    again = tables.cells.assign(
        started_at=tables.cells["started_at"].where(tables.cells["arm"] != "mtp1", 1e6)
    )
    found = judged(Tables(again, tables.prompts, tables.checks, tables.experiment))
    one = found.cells[0].arms["mtp1"]
    assert not one.interleaved and not one.ratio.value.bounded and one.unpaired_ratio.bounded
    assert found.judgements["mtp1", 0, "code"].verdict == "inconclusive"
    assert found.judgements["mtp2", 0, "code"].verdict == "wins" and found.cells[0].rounds == (1, 2, 3)


def test_baseline_that_differs_from_its_twin_blocks_everything():
    found = judged(simulate(arms(CHEAP) | {"base_again": TrueArm(1.1, repeat_of="base")}))
    assert {one.verdict for one in found.judgements.values()} == {"invalid"}
    assert "differs from its twin" in found.judgements["mtp1", 0, "code"].reason


def test_steps_cheaper_than_baseline_steps_block_the_verdict():
    found = judged(simulate(arms((0.8, 0.85, 0.9))))
    assert found.judgements["mtp1", 0, "code"].verdict == "invalid"
    assert "suspect the counters" in found.judgements["mtp1", 0, "code"].reason


def test_prefill_loss_vetoes_a_decode_win_on_long_prompts_with_short_answers():
    slow = {"base": TrueArm(), "mtp1": TrueArm(1.15, Q[:1], prefill=0.77)}
    mixes = [{"prompt": 8192, "output": 64}, {"prompt": 256, "output": 512}]
    found = judged(simulate(slow, mixes=mixes))
    assert found.judgements["mtp1", 0, "code"].verdict == "wins"
    assert [mix.verdict for mix in found.configurations[0].mixes] == ["loses", "wins"]
    assert any(
        "256, 8192 prompt tokens is scaled from the rate measured at 2048" in one for one in found.limitations
    )
    assert found.configurations[0].ledger == "rejected"
    truth = (8192 / 1400 + 64 * 0.027) / (8192 / 1400 / 0.77 + 64 * 0.027 / 1.626)
    assert found.configurations[0].mixes[0].ratio.value == pytest.approx(truth, rel=0.03)


def filed(tables: Tables, **options) -> dict[str, str]:
    """Ledger word by arm, as the ledger takes them: a closed lead without what reopens it is refused."""
    found = json.loads(json.dumps(judged(tables, **options).to_json()))
    experiment = tables.experiment | {"engine": "vllm", "ledger": {"lead": "native-mtp"}}
    document = file_findings(found, experiment, {}, {}, {}, {}, 1_700_000_000.0, [])
    return {entry.configuration: entry.verdict for entry in entries_of(document) if entry.configuration}


def test_every_closed_lead_says_to_the_ledger_what_reopens_it():
    slow = {"base": TrueArm(), "mtp1": TrueArm(1.15, Q[:1], prefill=0.77)}
    vetoed = simulate(slow, mixes=[{"prompt": 8192, "output": 64}])
    assert filed(vetoed) == {"mtp1": "rejected"}

    slow = {"base": TrueArm(), "mtp1": TrueArm(1.9, Q[:1], prefill=0.85)}
    undecided = simulate(slow, sd=0.02, mixes=[{"prompt": 4096, "output": 64}])
    assert judged(undecided).judgements["mtp1", 0, "code"].verdict == "inconclusive"
    assert filed(undecided) == {"mtp1": "rejected"}

    gated = simulate({"base": TrueArm(), "ngram": TrueArm(1.9, (0.2,))})
    gated.experiment["arms"]["ngram"] |= {"n_spec": None, "gated": True, "free_drafts": True}
    assert filed(gated) == {"ngram": "rejected"}

    lacking = simulate(arms(CHEAP, twin=False))
    lacking.experiment["arms"]["dflash"] = {"n_spec": 4}
    status = {"dflash": {"status": "unsupported", "reason": "this build has no such drafter"}}
    assert filed(lacking, statuses=status)["dflash"] == "impossible"


def test_win_on_one_class_and_loss_on_another_is_rejected_with_both_factors():
    mixed = {"base": TrueArm(), "mtp1": TrueArm(1.25, (0.8,), by_class={"prose": (0.05,)})}
    found = judged(simulate(mixed, classes=("code", "prose")))
    one = found.configurations[0]
    assert one.ledger == "rejected" and one.factors["code"] > 1 > one.factors["prose"]
    lenient = judged(simulate(mixed, classes=("code", "prose"), classes_required=["code"]))
    assert lenient.configurations[0].ledger == "recommended"


def test_the_best_worst_case_wins_and_is_to_be_confirmed():
    found = judged(simulate(arms(CHEAP), depths=(0, 8192)))
    assert {one.ledger for one in found.configurations} == {"recommended"}
    assert found.winner.arm == "mtp3" and "confirmation round" in found.winner.reason


def test_prefill_regression_is_a_finding_of_its_own():
    slow = {
        "base": TrueArm(),
        "mtp1": TrueArm(1.2, Q[:1], prefill=0.77),
        "mtp2": TrueArm(1.3, Q[:2], prefill=0.77),
    }
    found = judged(simulate(slow, depths=(0, 8192)))
    assert [one.kind for one in found.prefill] == ["regression", "regression"]
    assert [one.cause for one in found.prefill] == ["compute", "compute"]
    finding = next(one for one in found.findings if one.finding == "prefill")
    assert finding.ledger == "open-defect" and finding.arm is None


def test_drift_and_small_workloads_are_said():
    found = judged(simulate(arms(CHEAP), n_prompts=3, drift_per_round=0.05))
    assert any("changed by" in words for words in found.warnings)
    assert any("3 of 12 prompts" in words for words in found.limitations)


def test_b_far_from_its_bytes_asks_for_an_explanation():
    found = judged(simulate(arms(DEAR), b_from_bytes=0.122))
    assert any("explain this" in words for words in found.warnings)
    assert not judged(simulate(arms(CHEAP), b_from_bytes=0.122)).warnings[1:]


def test_document_holds_only_json_and_every_absent_value_has_a_reason():
    document = judged(simulate(arms(CHEAP), rounds=1, mixes=[{"prompt": 512, "output": 256}])).to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document

    def walk(value: object, path: str) -> list[str]:
        if isinstance(value, dict):
            bare = {"value", "low", "high", "reason"} == set(value) and None in (value["value"], value["low"])
            missing = [path] if bare and not value["reason"] else []
            return missing + [hit for key, item in value.items() for hit in walk(item, f"{path}.{key}")]
        if isinstance(value, list):
            return [hit for i, item in enumerate(value) for hit in walk(item, f"{path}[{i}]")]
        return []

    assert walk(document, "") == []


def test_wins_anywhere_hold_over_all_arms_and_cells_together():
    found = judged(
        simulate({"base": TrueArm(), "a": TrueArm(1.2, (0.9,)), "b": TrueArm(1.5, (0.1,))}, depths=(0, 8192))
    )
    assert {(win.arm, win.depth) for win in found.wins_anywhere} == {("a", 0), ("a", 8192)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"baseline": "raw"}, "baseline raw is not one of the arms"),
        ({"margin": 2}, "margin is 2.0"),
        ({"arms": {"base": {}, "again": {"repeat_of": "mtp1"}}}, "only the baseline base can be repeated"),
        ({"rounds": 0.5}, "rounds"),
        ({"arms": {}}, "arms is missing"),
    ],
)
def test_experiments_that_cannot_be_judged_say_which_key(change, words):
    document = {"name": "ab", "baseline": "base", "arms": {"base": {}, "mtp1": {"n_spec": 1}}, "rounds": 3}
    with pytest.raises(ConfigError, match=words):
        read_experiment(document | change)
