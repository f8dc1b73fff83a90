"""A lead that was closed before is named in the report, with whether what was measured now reopens it."""

import json
from pathlib import Path

import pytest

from breakeven.publish.report.page import markdown
from breakeven.publish.report.prior import earlier
from breakeven.publish.report.run import read_run
from reported_runs import LOST, WON, TrueArm, write_run

CLOSED = """
entries:
  - id: old-mtp
    date: "2026-01-02"
    lead: native-mtp
    engine: llamacpp
    model: tiny
    hardware: CPU
    metric: tg256
    factor: 0.8
    verdict: rejected
    reason: Acceptance 0.3 is below break-even.
    sentence: MTP loses 20 %.
    reopen:
      - {quantity: acceptance_rate, op: ">", value: 0.6, at_n: 1}
"""


def said(home: Path, arms: dict[str, TrueArm], acceptance_rate: float) -> list[str]:
    verdict = write_run(home / "results", arms, n_prompts=3)
    finding = {"configuration": "mtp1", "quantities": {"acceptance_rate": acceptance_rate}}
    (verdict.parent / "findings.json").write_text(json.dumps({"experiment": "ab", "findings": [finding]}))
    notes = home / "ledger"
    notes.mkdir()
    (notes / "old.yaml").write_text(CLOSED)
    run = read_run(verdict)
    sentences = earlier(run, notes)
    assert "**Known before.**" in markdown(run, prior_art=sentences).split("## Arms")[0]
    return sentences


@pytest.mark.parametrize(("arms", "rate", "state"), [(WON, 0.88, "met now"), (LOST, 0.30, "not met now")])
def test_reopen_condition_is_held_against_what_was_measured(
    tmp_path: Path, arms: dict[str, TrueArm], rate: float, state: str
):
    (sentence,) = said(tmp_path, arms, rate)
    assert "native-mtp was closed as rejected" in sentence and sentence.endswith(f": {state}.")


def test_nothing_is_said_of_a_lead_without_a_past(tmp_path: Path):
    run = read_run(write_run(tmp_path, LOST, n_prompts=3))
    assert earlier(run, tmp_path / "no ledger") == []
