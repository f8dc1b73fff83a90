"""What was known about this experiment's lead before, and whether what was measured now reopens it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from breakeven.publish.ledger.entry import Entry
from breakeven.publish.ledger.files import read_ledger
from breakeven.publish.ledger.prior_art import prior_art
from breakeven.publish.report.run import Run

NOTES = Path("config/ledger")


def earlier(run: Run, notes: Path = NOTES) -> list[str]:
    """One sentence for each closed entry of the lead from elsewhere: hand-written, imported, other experiments."""
    lead = (run.experiment.get("ledger") or {}).get("lead")
    findings = run.folder / f"look{run.verdict['look']['rounds']}" / "findings.json"
    if not lead or not findings.exists():
        return []
    others = [path for path in run.folder.parent.glob("*/ledger.json") if path.parent != run.folder]
    ledger = read_ledger(notes, others) if notes.is_dir() or others else None
    entries: Sequence[Entry] = ledger.entries if ledger else ()
    known = _quantities(json.loads(findings.read_text(encoding="utf-8")), run)
    return [found.sentence for found in prior_art(str(lead), entries, known)]


def known_of(lead: str | None, results: Path, notes: Path = NOTES) -> list[str]:
    """Closed entries of a lead, one sentence each, before anything of the experiment is measured."""
    files = sorted(results.glob("*/ledger.json"))
    if not lead or not (notes.is_dir() or files):
        return []
    return [found.sentence for found in prior_art(lead, read_ledger(notes, files).entries, {})]


def _quantities(findings: dict[str, Any], run: Run) -> dict[str, Any]:
    """Name -> {N: value}, from what every arm's finding states."""
    n_of = {arm["arm"]: arm["n_spec"] for arm in run.verdict["arms"]}
    known: dict[str, Any] = {}
    for finding in findings["findings"]:
        n = n_of.get(finding.get("configuration"))
        for name, value in (finding.get("quantities") or {}).items():
            if n is not None:
                known.setdefault(name, {})[n] = value
    return known
