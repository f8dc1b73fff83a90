"""An experiment's findings document, as the analysis writes it, made into ledger entries."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from breakeven.errors import BreakevenError
from breakeven.publish.ledger.entry import Entry
from breakeven.publish.ledger.schema import problems_of

_SHARED = ("date", "lead", "question", "engine", "engine_version", "model", "quant", "hardware")
_OWN = ("kind", "metric", "factor", "interval", "level", "verdict", "reason", "sentence")


def entries_of(findings: Mapping[str, Any], origin: str = "findings") -> list[Entry]:
    """Entries of an experiment's findings document, one a finding; what it does not say is unknown.

    Raises BreakevenError naming entry, key, value and what is allowed.
    """
    experiment = findings.get("experiment")
    listed = findings.get("findings")
    sound = isinstance(listed, list) and all(isinstance(finding, Mapping) for finding in listed)
    if not isinstance(experiment, str) or not sound:
        raise BreakevenError(
            f"{origin}: found no `experiment` name with a list `findings` of objects; build it again"
        )
    documents = [_document(findings, finding) for finding in findings["findings"]]
    doubled = {name for name, count in Counter(each["id"] for each in documents).items() if count > 1}
    for document in documents:
        if document["id"] in doubled and document["metric"]:
            document["id"] += f"-{slug(str(document['metric']))}"
    problems = [
        problem for each in documents for problem in problems_of(each, "ledger_entry", origin, each["id"])
    ]
    if problems:
        raise BreakevenError("\n".join(str(problem) for problem in problems))
    return [Entry.from_document(document, origin) for document in documents]


def _document(findings: Mapping[str, Any], finding: Mapping[str, Any]) -> dict[str, Any]:
    experiment = findings["experiment"]
    configuration = finding.get("configuration", finding.get("arm"))
    parts = [experiment, configuration, finding.get("kind")]
    return {
        "id": "-".join(slug(str(part)) for part in parts if part),
        "source": "measured",
        "experiment": experiment,
        "configuration": configuration,
        **{key: finding.get(key, findings.get(key)) for key in _SHARED},
        **{key: finding.get(key) for key in _OWN},
        "reopen": reopen_documents(finding.get("reopen")),
        "quantities": finding.get("quantities") or {},
        "evidence": {
            "report": findings.get("report", f"reports/{experiment}.md"),
            "files": finding.get("evidence", findings.get("evidence")) or [],
        },
        "flags": finding.get("flags") or [],
    }


def reopen_documents(conditions: Any) -> list[Any]:
    """Reopen conditions as written (a text, or `quantity op value` with or without words), words filled in."""
    if conditions is None:
        return []
    written = conditions if isinstance(conditions, list) else [conditions]
    return [_worded(each) for each in written]


def _worded(condition: Any) -> Any:
    if isinstance(condition, str):
        return {"words": condition}
    if not isinstance(condition, Mapping) or condition.get("words") or not condition.get("quantity"):
        return condition
    words = f"{condition['quantity']} {condition.get('op')} {condition.get('value')}"
    at_n = condition.get("at_n")
    return {**condition, "words": words if at_n is None else f"{words} at N = {at_n}"}


def slug(text: str) -> str:
    """Text as a part of an id: lower case letters, digits, _ and -; a hash where nothing is left."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return (
        re.sub(r"[^a-z0-9_]+", "-", plain).strip("-_")
        or sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    )
