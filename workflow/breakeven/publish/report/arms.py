"""Arms, what differs between them, what failed, and the gates and checks that each verdict rests on."""

from collections.abc import Iterator
from dataclasses import dataclass

from breakeven.engine.facts import Facts
from breakeven.publish.escape import Markdown, markdown_code, markdown_text
from breakeven.publish.report.answer import is_failed, n_of
from breakeven.publish.report.numbers import counted, significant
from breakeven.publish.report.run import Document, Run
from breakeven.publish.report.table import Table
from breakeven.verify.expectation import BLOCK
from breakeven.verify.structure import Structure, from_verified

ROLES = {
    "baseline": "baseline",
    "repeat": "baseline again",
    "candidate": "candidate",
    "cost_only": "cost only",
}
MEASURED = "measured"
MARKS = {True: "passed", False: "failed", None: "open"}
_RANK = {False: 0, None: 1, True: 2}


@dataclass(frozen=True)
class Failure:
    """An arm or one of its launches that has no result: why, its last log lines, how to try it again."""

    arm: str
    what: str
    reason: str
    log_tail: tuple[str, ...]
    command: str


def arms_table(run: Run) -> Markdown:
    """One row an arm."""
    table = Table(["arm", "role", "N >", "method", "launches >", "status"])
    compared = any(arm["role"] == "baseline" and not is_failed(arm) for arm in run.verdict["arms"])
    for arm in run.verdict["arms"]:
        name = arm["arm"]
        spec = run.experiment["arms"][name]
        method = spec.get("method") or "none"
        status = "no result" if is_failed(arm) else "measured"
        apart = compared and not is_failed(arm) and arm["role"] != "baseline" and not arm["interleaved"]
        why = (
            arm["reason"] if is_failed(arm) else "compared unpaired: not launched in turn" if apart else None
        )
        table.add(
            markdown_code(name, in_table=True),
            ROLES.get(arm["role"], arm["role"]),
            n_of(run, name),
            method,
            f"{len(arm['rounds'])} of {run.verdict['look']['rounds']}",
            table.noted(status, why),
        )
    return table.markdown()


def structure(run: Run) -> Structure | None:
    """What differs between the arms that could be brought up; None when the baseline could not."""
    ready = {
        name: arm for name, arm in run.arms.items() if (arm.verify.get("facts") and _is_up(arm.bring_up))
    }
    if run.baseline not in ready:
        return None
    return from_verified(
        {name: arm.verify for name, arm in ready.items()},
        {name: arm.bring_up for name, arm in ready.items()},
        run.baseline,
    )


def common_table(found: Structure | None) -> Markdown | None:
    """What all arms state alike, and what the speculating arms alone state, alike."""
    table = Table(["what", "value", "arms"])
    if found is None:
        return None
    for row in found.same:
        table.add(_name(row.name), markdown_code(row.cells[0].text, in_table=True), "all")
    for row in found.added:
        stated = next(cell.text for cell in row.cells if cell.differs)
        table.add(_name(row.name), markdown_code(stated, in_table=True), "those that speculate")
    return table.markdown() if table else None


def _name(name: str) -> Markdown:
    return markdown_code(name, in_table=True) if name.startswith("--") else markdown_text(name)


def _is_up(bring_up: Document) -> bool:
    return bring_up.get("status") == "ready"


def failures(run: Run) -> list[Failure]:
    """Every arm that could not be brought up or was refused, and every launch that died."""
    found = []
    for name, arm in run.arms.items():
        again = command_again(run.name, f"results/{run.name}/{name}/bring_up.json")
        if arm.bring_up and not _is_up(arm.bring_up):
            found.append(_failure(name, "its discarded first launch", arm.bring_up, again))
            continue
        if arm.verify and not arm.verify.get("passed"):
            found.append(_failure(name, "refused by its gates", arm.verify, again))
            continue
        found += [
            _failure(
                name,
                f"round {number}",
                launch,
                command_again(run.name, f"results/{run.name}/{name}/{number}/launch.json"),
            )
            for number, launch in arm.launches.items()
            if launch.get("status") != MEASURED
        ]
    return found


def command_again(name: str, target: str) -> str:
    """The command that makes one file and all that follows from it again."""
    return f"snakemake --cores 1 reports/{name}.md -R {target}"


def _failure(arm: str, what: str, record: Document, command: str) -> Failure:
    reason = str(record.get("reason") or "no reason on record")
    return Failure(arm, what, reason, tuple(record.get("log_tail") or ()), command)


def gates_table(run: Run) -> Markdown:
    """Gates, failed ones on top, then open ones, with the arms that share a finding; those that passed by name."""
    grouped: dict[tuple[bool | None, str, str, str], list[str]] = {}
    for arm, gate in _gates(run):
        name = str(gate.get("gate") or gate.get("name"))
        found = "as wanted" if gate["passed"] else str(gate["reason"])
        severity = "" if gate["passed"] else str(gate.get("severity"))
        grouped.setdefault((gate["passed"], severity, name, found), []).append(arm)
    table = Table(["gate", "arms", "result", "found"])
    for (passed, severity, name, found), arms in sorted(grouped.items(), key=lambda item: _RANK[item[0][0]]):
        table.add(name, _names(arms, run), _mark(passed, severity), found)
    return table.markdown() if table else Markdown("No gate is on record.")


def checks_table(run: Run) -> Markdown | None:
    """Checks that failed, then warnings, then open ones; equal findings of several arms are one row."""
    grouped: dict[tuple[int, str, str, str], list[Document]] = {}
    for row in _check_rows(run):
        if not row["passed"]:
            key = (_check_rank(row), str(row["check"]), str(row["allowed"]), str(row["reason"]))
            grouped.setdefault(key, []).append(row)
    table = Table(["check", "arms", "where", "result", "value >", "allowed", "why"])
    for (_, check, allowed, reason), rows in sorted(grouped.items(), key=lambda item: item[0][0]):
        places = list(dict.fromkeys(map(_where, rows)))
        values = list(dict.fromkeys(significant(row["value"], 3) for row in rows if row["value"] is not None))
        table.add(
            check,
            _names([str(row["arm"]) for row in rows], run),
            places[0] if len(places) == 1 else counted(len(places), "place"),
            _mark(None if rows[0]["passed"] is None else False, rows[0]["severity"]),
            Markdown(values[0] if len(values) == 1 else "–" if not values else "differs"),
            allowed,
            reason,
        )
    return table.markdown() if table else None


def passed_checks_table(run: Run) -> Markdown | None:
    """Checks that passed at least once, with how often they were asked."""
    rows = _check_rows(run)
    table = Table(["check", "passed >", "allowed"])
    for check in dict.fromkeys(row["check"] for row in rows if row["passed"]):
        own = [row for row in rows if row["check"] == check]
        passed = [row for row in own if row["passed"]]
        table.add(check, f"{len(passed)} of {len(own)}", passed[0]["allowed"])
    return table.markdown() if table else None


def _check_rows(run: Run) -> list[Document]:
    """Rows of the checks table with None for what is missing."""
    plain = run.checks.astype(object).where(run.checks.notna(), None)
    return [{str(key): value for key, value in row.items()} for row in plain.to_dict("records")]


def _check_rank(row: Document) -> int:
    return 2 if row["passed"] is None else 0 if row["severity"] == BLOCK else 1


def _mark(passed: bool | None, severity: object) -> Markdown:
    if passed is False:
        return Markdown("**failed**") if severity == BLOCK else Markdown("**warning**")
    return markdown_text(MARKS[passed])


def _gates(run: Run) -> Iterator[tuple[str, Document]]:
    for arm in run.verdict["arms"]:
        for gate in arm["gates"]:
            yield arm["arm"], gate


def _names(arms: list[str], run: Run) -> Markdown:
    unique = list(dict.fromkeys(arms))
    if len(unique) == len(run.arms) > 1:
        return Markdown("all")
    return Markdown(", ".join(markdown_code(arm, in_table=True) for arm in unique))


def _where(row: Document) -> str:
    parts = [
        f"{word} {row[key]}".strip()
        for key, word in (("round", "round"), ("depth", "depth"), ("prompt_class", ""))
        if row[key] is not None
    ]
    return ", ".join(parts) or "all"


def findings(run: Run) -> list[str]:
    """What the logs warn of, each once with the arms that say it."""
    said: dict[str, list[str]] = {}
    for name, arm in run.arms.items():
        if arm.verify.get("facts"):
            for finding in Facts.from_json(arm.verify["facts"]).findings:
                said.setdefault(finding.message, []).append(name)
    return [f"{message} ({', '.join(dict.fromkeys(arms))})" for message, arms in said.items()]
