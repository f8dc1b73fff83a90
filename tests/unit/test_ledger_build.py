"""Findings become entries; later results supersede earlier ones; people's notes are merged in."""

import json
from dataclasses import replace

import pytest

from breakeven.errors import BreakevenError
from breakeven.publish.ledger.build import Note, Notes, StatusChange, build, check_notes
from breakeven.publish.ledger.check import check
from breakeven.publish.ledger.entry import VERDICTS, Entry, Remark, Reopen, canonical_json, ledger_jsonl
from breakeven.publish.ledger.findings import entries_of, slug
from breakeven.publish.ledger.schema import problems_of

SETTING = {"engine": "vllm", "model": "27b", "quant": "w8a8", "hardware": "MI210"}
HASH = "0" * 64


def document(verdict="rejected", date="2026-08-03", experiment="mtp_ab", configuration="mtp1", **finding):
    reopen = [{"quantity": "b", "op": "<", "value": 0.89, "at_n": 1}]
    closed = {"reopen": reopen} if verdict in ("rejected", "impossible") else {}
    decode = {
        "kind": "decode",
        "configuration": configuration,
        "metric": "tg256 @ d0",
        "verdict": verdict,
        **closed,
    }
    return {
        "experiment": experiment, "date": date, "lead": "native-mtp", "question": "Does MTP pay?",
        "engine_version": "0.11.0", **SETTING,
        "findings": [{**decode, **finding}],
        "evidence": [{"path": f"results/{experiment}/look3/cells.parquet", "sha256": HASH}],
    }  # fmt: skip


def hand_written(verdict="rejected", date="2026-01-01", name="old", **more):
    return Entry(
        name, "native-mtp", verdict, "hand-written", date=date, metric="tg256 @ d0",
        reopen=(Reopen("b falls"),), **{**SETTING, **more},
    )  # fmt: skip


def by_id(entries):
    return {entry.id: entry for entry in entries}


class TestFindings:
    def test_an_entry_carries_what_the_finding_and_its_experiment_say(self):
        [entry] = entries_of(
            document(factor=0.838, interval=[0.82, 0.85], level=0.99, quantities={"b": 1.16})
        )
        assert entry.id == "mtp_ab-mtp1-decode"
        assert (entry.lead, entry.engine, entry.engine_version, entry.hardware) == (
            "native-mtp",
            "vllm",
            "0.11.0",
            "MI210",
        )
        assert (entry.factor, entry.interval, entry.level, entry.quantities) == (
            0.838,
            (0.82, 0.85),
            0.99,
            {"b": 1.16},
        )
        assert entry.reopen == (Reopen("b < 0.89 at N = 1", "b", "<", 0.89, 1),)
        assert entry.evidence.report == "reports/mtp_ab.md"
        assert entry.evidence.files[0].sha256 == HASH

    def test_two_findings_of_a_run_are_two_entries(self):
        both = document()
        both["findings"].append({"kind": "prefill", "arm": "mtp1", "verdict": "open-defect"})
        assert [entry.id for entry in entries_of(both)] == ["mtp_ab-mtp1-decode", "mtp_ab-mtp1-prefill"]

    def test_findings_of_one_name_are_told_apart_by_metric(self):
        both = document()
        both["findings"].append({**both["findings"][0], "metric": "tg256 @ d8192"})
        assert [entry.id for entry in entries_of(both)] == [
            "mtp_ab-mtp1-decode-tg256-d0", "mtp_ab-mtp1-decode-tg256-d8192",
        ]  # fmt: skip

    def test_what_is_not_said_is_unknown(self):
        bare = {"experiment": "x", "lead": "l", "findings": [{"verdict": "noise"}]}
        [entry] = entries_of(bare)
        assert entry.id == "x"
        assert {entry.date, entry.engine, entry.hardware, entry.factor, entry.interval, entry.reason} == {
            None
        }

    @pytest.mark.parametrize(
        ("finding", "said"),
        [
            ({"verdict": "candidate"}, "verdict: found \"candidate\"; allowed: adopted, deployed"),
            ({"verdict": "rejected", "reopen": []}, "reopen"),
            ({"verdict": "impossible", "reopen": None}, "reopen"),
            ({"verdict": "superseded"}, "superseded_by"),
            ({"factor": "fast"}, "factor"),
            ({"factor": float("nan")}, "factor"),
            ({"evidence": [{"path": "reports/mtp_ab.md", "sha256": HASH}]}, r"\.parquet$"),
            ({"evidence": [{"path": "a.parquet", "sha256": "short"}]}, "sha256"),
        ],
    )  # fmt: skip
    def test_an_unsound_finding_is_named(self, finding, said):
        with pytest.raises(BreakevenError) as error:
            entries_of(document(**finding), "findings.json")
        assert "findings.json: entry mtp_ab-mtp1-decode" in str(error.value)
        assert said in str(error.value)

    def test_ids_are_plain_whatever_the_words_are(self):
        assert slug("Émile's  Drafter/2") == "emile-s-drafter-2"
        assert slug("推测") == slug("推测") != slug("解码")


class TestSupersession:
    def test_a_contradicting_result_supersedes_and_both_say_so(self):
        made = by_id(build(document("recommended"), Notes(), [hand_written()], []))
        old, new = made["old"], made["mtp_ab-mtp1-decode"]
        assert new.supersedes == ("old",)
        assert (old.verdict, old.superseded_by) == ("superseded", new.id)
        assert (old.history[-1].was, old.history[-1].date) == ("rejected", "2026-08-03")
        assert new.id in old.history[-1].reason
        assert check(list(made.values())) == []

    @pytest.mark.parametrize(
        ("old", "new", "superseded"),
        [
            ("rejected", "recommended", True),
            ("deployed", "rejected", True),
            ("noise", "recommended", True),
            ("blocked", "noise", True),
            ("blocked", "rejected", True),
            ("blocked", "blocked", False),
            ("rejected", "noise", False),
            ("rejected", "impossible", False),
            ("rejected", "rejected", False),
            ("open-defect", "recommended", False),
            ("rejected", "diagnosis", False),
        ],
    )
    def test_which_verdict_overturns_which(self, old, new, superseded):
        made = by_id(build(document(new), Notes(), [hand_written(old)], []))
        assert (made["old"].superseded_by is not None) == superseded

    @pytest.mark.parametrize("key", ["engine", "model", "hardware", "metric", "quant", "lead"])
    def test_another_setting_is_another_question(self, key):
        old = replace(hand_written(), **{key: "other"})
        assert by_id(build(document("recommended"), Notes(), [old], []))["old"].in_force

    def test_another_configuration_is_another_question(self):
        old = hand_written(configuration="mtp3")
        assert by_id(build(document("recommended"), Notes(), [old], []))["old"].in_force

    def test_an_unknown_setting_is_flagged_and_not_decided(self):
        made = by_id(build(document("recommended"), Notes(), [hand_written(hardware=None)], []))
        assert made["old"].in_force
        assert made["mtp_ab-mtp1-decode"].flags == ("may contradict old (rejected): unknown hardware",)

    def test_an_older_result_does_not_supersede_a_newer_one(self):
        made = by_id(build(document("recommended", date="2025-01-01"), Notes(), [hand_written()], []))
        assert made["mtp_ab-mtp1-decode"].superseded_by == "old"
        assert made["old"].supersedes == ("mtp_ab-mtp1-decode",)

    def test_arms_of_one_run_do_not_contradict_each_other(self):
        run = document("recommended", configuration=None)
        run["findings"].append({**document()["findings"][0], "configuration": None, "kind": "other"})
        made = build(run, Notes(), [], [])
        assert all(entry.in_force for entry in made)
        assert check(made) == []

    def test_results_of_three_experiments_form_a_chain(self):
        runs = [
            ("rejected", "2026-01-01", "a"),
            ("recommended", "2026-02-01", "b"),
            ("rejected", "2026-03-01", "c"),
        ]
        entries = [entry for run in runs for entry in entries_of(document(*run))]
        made = by_id(build(None, Notes(), [], entries))
        assert made["a-mtp1-decode"].superseded_by == "b-mtp1-decode"
        assert made["b-mtp1-decode"].superseded_by == "c-mtp1-decode"
        assert made["c-mtp1-decode"].in_force
        assert check(list(made.values())) == []

    def test_building_again_changes_nothing(self):
        notes = Notes(
            (Note("mtp_ab-mtp1-decode", Remark(None, "seen")),),
            (StatusChange("old", "2026-02-01", "impossible", "worse"),),
        )
        once = build(document("recommended"), notes, [hand_written()], [])
        twice = build(None, notes, [hand_written()], once)
        assert ledger_jsonl(once) == ledger_jsonl(twice)

    def test_rounds_of_reading_and_writing_change_nothing(self):
        for entry in build(document("recommended"), Notes(), [hand_written()], []):
            assert Entry.from_document(json.loads(canonical_json(entry))) == entry
            assert problems_of(entry.document(), "ledger_entry", "x") == []


class TestRerun:
    def test_a_rerun_that_agrees_replaces_its_entry(self):
        before = build(document(factor=0.8), Notes(), [], [])
        [entry] = build(document(factor=0.81, date="2026-09-01"), Notes(), [], before)
        assert (entry.id, entry.factor) == ("mtp_ab-mtp1-decode", 0.81)

    def test_a_rerun_that_contradicts_itself_keeps_both(self):
        before = build(document(), Notes(), [], [])
        made = by_id(build(document("recommended", date="2026-09-01"), Notes(), [], before))
        assert made["mtp_ab-mtp1-decode"].superseded_by == "mtp_ab-mtp1-decode-2026-09-01"
        assert made["mtp_ab-mtp1-decode-2026-09-01"].supersedes == ("mtp_ab-mtp1-decode",)

    def test_turning_back_again_makes_a_chain_and_no_ring(self):
        before = build(document(), Notes(), [], [])
        before = build(document("recommended", date="2026-09-01"), Notes(), [], before)
        made = build(document("rejected", date="2026-10-01"), Notes(), [], before)
        assert check(made) == []
        assert [entry.id for entry in made if entry.in_force] == ["mtp_ab-mtp1-decode-2026-10-01"]


class TestNotes:
    def test_a_status_change_keeps_what_was(self):
        change = StatusChange("mtp_ab-mtp1-decode", "2026-09-01", "deployed", "in production")
        [entry] = build(document("adopted"), Notes(changes=(change,)), [], [])
        assert (entry.verdict, entry.history[0].was, entry.history[0].reason) == (
            "deployed",
            "adopted",
            "in production",
        )

    def test_a_flawed_run_gives_back_what_it_had_superseded(self):
        with_claim = build(document("recommended"), Notes(), [hand_written()], [])
        flawed = Notes(
            changes=(StatusChange("mtp_ab-mtp1-decode", "2026-09-01", "diagnosis", "wrong kernel"),)
        )
        made = by_id(build(None, flawed, [hand_written()], with_claim))
        assert made["old"].in_force
        assert check(list(made.values())) == []

    def test_a_closed_lead_is_not_waved_through_by_hand(self):
        change = StatusChange("mtp_ab-mtp1-decode", "2026-09-01", "adopted", "we like it")
        [problem] = check(build(document(), Notes(changes=(change,)), [], []))
        assert "rejected changed to adopted by hand" in str(problem)

    def test_closing_by_hand_needs_a_reopen_condition(self):
        change = StatusChange("mtp_ab-mtp1-decode", "2026-09-01", "rejected", "output broke")
        [problem] = check(build(document("adopted"), Notes(changes=(change,)), [], []))
        assert problem.key == "reopen"

    def test_a_note_on_no_entry_and_two_verdicts_a_day_are_named(self):
        notes = Notes(
            (Note("mtp_ab-mtp9-decode", Remark(None, "?"), "a.yaml"),),
            (
                StatusChange("mtp_ab-mtp1-decode", "2026-09-01", "adopted", "", origin="a.yaml"),
                StatusChange("mtp_ab-mtp1-decode", "2026-09-01", "deployed", "", origin="b.yaml"),
            ),
        )
        dangling, twice = check_notes(notes, build(document("recommended"), notes, [], []))
        assert dangling.dangling
        assert "mtp_ab-mtp1-decode" in dangling.allowed
        assert "b.yaml" in str(twice)
        assert "a.yaml" in str(twice)


def test_the_vocabulary_of_the_code_is_the_schema_s():
    sound = {
        "id": "a",
        "lead": "l",
        "source": "hand-written",
        "reopen": [{"words": "w"}],
        "superseded_by": "b",
    }
    for word in VERDICTS:
        assert problems_of({**sound, "verdict": word}, "ledger_entry", "x") == []
    assert len(problems_of({**sound, "verdict": "open"}, "ledger_entry", "x")) == 1
