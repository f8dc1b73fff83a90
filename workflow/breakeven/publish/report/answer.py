"""The first screen: does it pay, by how much, how sure, why, and what would change it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breakeven.publish.escape import Markdown, markdown_code
from breakeven.publish.report.numbers import change, known, level, percent, spelled
from breakeven.publish.report.run import Document, Run
from breakeven.publish.report.table import Table

UNUSABLE = ("blocked", "diagnosis", "open-defect")


@dataclass(frozen=True)
class Answer:
    """One word and five sentences or lists of sentences; each is plain text that still has to be escaped."""

    word: str
    pays: str
    how_much: tuple[str, ...]
    how_sure: tuple[str, ...]
    why: tuple[str, ...]
    change: tuple[str, ...]


def answer(run: Run) -> Answer:
    """What the verdict says, put into the order in which a person asks."""
    word, pays = _pays(run)
    return Answer(
        word=word,
        pays=pays,
        how_much=tuple(_how_much(run)),
        how_sure=tuple(_how_sure(run)),
        why=tuple(_why(run)),
        change=tuple(_change(run)),
    )


def _pays(run: Run) -> tuple[str, str]:
    configurations = run.verdict["configurations"]
    words = {one["arm"]: one["ledger"] for one in configurations}
    winner = run.verdict["winner"]["arm"]
    if winner:
        others = [arm for arm, ledger in words.items() if ledger == "recommended" and arm != winner]
        also = f"; {_listed(others)} would do as well" if others else ""
        return "Yes", f"{winner} pays: it wins or ties in every case that was asked for{also}."
    recommended = [arm for arm, ledger in words.items() if ledger == "recommended"]
    if recommended:
        return "Yes", f"{_listed(recommended)} wins or ties in every case that was asked for."
    if not configurations:
        return "No answer", "The experiment has no arm to compare with the baseline."
    usable = {arm: ledger for arm, ledger in words.items() if ledger not in UNUSABLE}
    if not usable:
        return "No answer", "No arm has a valid measurement; the reasons stand in the table."
    undecided = [arm for arm in usable if arm in _undecided_arms(run.verdict)]
    if undecided:
        return (
            "Not decided",
            f"{_listed(undecided)} can be told neither faster nor slower than the baseline yet.",
        )
    if set(usable.values()) == {"impossible"}:
        return "No, at any acceptance", (
            f"{_listed(list(usable))} cannot pay here: a step costs more than all the tokens it could emit."
        )
    if set(usable.values()) == {"noise"}:
        return "No difference", f"{_listed(list(usable))} is as fast as the baseline within the margin."
    lost = [arm for arm, ledger in usable.items() if ledger in ("rejected", "impossible")]
    wins = _places(run, "wins", lost)
    somewhere = f" It does decode faster in {len(wins)} of {len(_judged(run))} cells." if wins else ""
    return "No", f"{_listed(lost)} loses in at least one case that was asked for.{somewhere}"


def _how_much(run: Run) -> Iterator[str]:
    arm, why = _spoken_of(run)
    if arm is None:
        yield "No factor can be given."
        return
    rows = [(cell, own) for cell, own in _cells_of(run, arm) if known(own["ratio"]["value"])]
    if not rows:
        yield f"{arm}: no factor can be given; {_configuration(run, arm)['reason']}."
        return
    rows.sort(key=lambda pair: float(pair[1]["ratio"]["value"]))
    ends = [rows[0]] if len(rows) == 1 else [rows[0], rows[-1]]
    said = "; ".join(
        f"{change(own['ratio']['value'])} at {place(cell)}: {spelled(own['ratio'], run.alpha)} times the baseline"
        for cell, own in ends
    )
    yield f"Decode speed of {arm}{why}: {said}."
    worst = _configuration(run, arm)["worst"]
    if run.experiment.get("mixes") and known(worst["value"]):
        yield (
            f"End to end (prefill and decode), its worst declared request runs at {spelled(worst, run.alpha)} "
            "times the baseline's speed."
        )


def _how_sure(run: Run) -> Iterator[str]:
    look, cells = run.verdict["look"], run.verdict["cells"]
    complete = min((len(cell["rounds"]) for cell in cells), default=0)
    yield (
        f"{complete} complete rounds, in each a fresh launch of every arm; "
        f"intervals cover {level(run.alpha)} ({look['rule']})."
    )
    effects = [
        cell["minimum_detectable_effect"] for cell in cells if known(cell["minimum_detectable_effect"])
    ]
    if effects:
        span = (
            percent(min(effects))
            if len(effects) == 1
            else f"{percent(min(effects))} to {percent(max(effects))}"
        )
        yield f"The smallest effect that would have been seen (4 times of 5): {span}, by cell."
    floors = [cell["noise_floor"]["value"] for cell in cells if known(cell["noise_floor"]["value"])]
    if floors:
        yield f"Noise floor, the baseline against itself: {percent(max(floors))} in the noisiest cell."
    yield from run.verdict.get("limitations", [])
    if run.verdict["undecided"] and run.verdict["look"]["next_rounds"]:
        yield f"The next look is after {look['next_rounds']} rounds."


def _why(run: Run) -> Iterator[str]:
    """One reason per distinct one, with the arms it holds for."""
    reasons: dict[str, list[str]] = {}
    for one in run.verdict["configurations"]:
        reasons.setdefault(str(one["reason"]), []).append(one["arm"])
    for reason, arms in reasons.items():
        yield f"{_listed(arms)}: {reason}."
    arm, _ = _spoken_of(run)
    if arm is None:
        return
    for cell, own in _cells_of(run, arm):
        parts = []
        if known(own["cost"]["value"]):
            parts.append(f"a step costs {spelled(own['cost'], decimals=2)} baseline steps")
        if known(own["acceptance"]["length"]["value"]):
            parts.append(
                f"and yields {spelled({**own['acceptance']['length'], 'reason': 'a count'}, decimals=2)} tokens"
                if known(own["acceptance"]["length"]["low"])
                else f"and yields {own['acceptance']['length']['value']:.2f} tokens"
            )
        if known(own["ceiling"]["value"]):
            parts.append(
                f"with every draft accepted it would reach {own['ceiling']['value']:.2f} times the baseline"
            )
        if len(parts) > 1:
            yield f"{arm} at {place(cell)}: {' '.join(parts[:2])}{'; ' + parts[2] if len(parts) > 2 else ''}."
            return


def _change(run: Run) -> Iterator[str]:
    said: dict[str, list[str]] = {}
    for one in run.verdict["configurations"]:
        if one.get("reopen"):
            said.setdefault(str(one["reopen"]["words"]), []).append(one["arm"])
    for words, arms in said.items():
        yield f"{_listed(arms)}: {words}."
    if run.verdict["next_arm"]:
        following = run.verdict["next_arm"]
        settings = ", ".join(f"{key} {value}" for key, value in following["change"].items())
        yield f"Next to measure: {settings}; {following['reason']}."
    if run.verdict["undecided"] and not run.verdict["look"]["next_rounds"]:
        wanted = [cell["rounds_for_margin"] for cell in run.verdict["cells"]]
        if wanted and all(known(number) for number in wanted):
            yield f"{max(wanted)} rounds would show an effect of {percent(run.verdict['margin'], 0)} in every cell."
        elif wanted:
            yield f"In some cells even 64 rounds would not show an effect of {percent(run.verdict['margin'], 0)}."
    failed = [arm["arm"] for arm in run.verdict["arms"] if is_failed(arm)]
    if failed:
        yield f"{_listed(failed)} has no result: see its reason and the command that tries it again below."


def summary_table(run: Run) -> Markdown:
    """One row per arm that gets a verdict: its word, its range of decode speed-ups, its worst request."""
    table = Table(["arm", "N >", "verdict", "decode, lowest >", "decode, highest >", "end to end, worst >"])
    for arm in run.candidates:
        one = _configuration(run, arm)
        rows = sorted(
            (own["ratio"] for _, own in _cells_of(run, arm) if known(own["ratio"]["value"])),
            key=lambda ratio: float(ratio["value"]),
        )
        if one["ledger"] in UNUSABLE:
            rows = []
        missing = Markdown("–")
        table.add(
            markdown_code(arm, in_table=True),
            n_of(run, arm),
            table.noted(str(one["ledger"]), None if rows else str(one["reason"])),
            table.estimate(rows[0]) if rows else missing,
            table.estimate(rows[-1]) if rows else missing,
            table.estimate(one["worst"]) if rows and run.experiment.get("mixes") else missing,
        )
    return table.markdown() if table else Markdown("No arm beside the baseline.")


def n_of(run: Run, arm: str) -> str:
    """Draft length of an arm as text."""
    n = next((one["n_spec"] for one in run.verdict["arms"] if one["arm"] == arm), None)
    gated = next((one["gated"] for one in run.verdict["arms"] if one["arm"] == arm), False)
    return "–" if n is None else f"≤ {n}" if gated else str(n)


def place(cell: Document) -> str:
    """A cell in words."""
    return f"depth {cell['depth']}, {cell['prompt_class']}"


def is_failed(arm: Document) -> bool:
    """Whether an arm of the verdict has no launch to show."""
    return not arm["rounds"]


def _configuration(run: Run, arm: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(one for one in run.verdict["configurations"] if one["arm"] == arm)
    return found


def _cells_of(run: Run, arm: str) -> list[tuple[Document, Document]]:
    """An arm's cells with a verdict that allows a factor."""
    return [
        (cell, own)
        for cell in run.verdict["cells"]
        for own in cell["arms"]
        if own["arm"] == arm and (own["verdict"] or {}).get("verdict") not in ("invalid", "not measured")
    ]


def _judged(run: Run) -> list[tuple[Document, Document]]:
    return [pair for arm in run.candidates for pair in _cells_of(run, arm)]


def _places(run: Run, outcome: str, arms: Sequence[str]) -> list[Document]:
    return [
        cell
        for arm in arms
        for cell, own in _cells_of(run, arm)
        if (own["verdict"] or {}).get("verdict") == outcome
    ]


def _undecided_arms(verdict: Document) -> set[str]:
    cells = {
        own["arm"]
        for cell in verdict["cells"]
        for own in cell["arms"]
        if (own["verdict"] or {}).get("verdict") == "inconclusive"
    }
    mixes = {
        one["arm"]
        for one in verdict["configurations"]
        for mix in one["mixes"]
        if mix["verdict"] == "inconclusive"
    }
    noise = {one["arm"] for one in verdict["configurations"] if one["ledger"] == "noise"}
    return (cells | mixes) & noise


def _spoken_of(run: Run) -> tuple[str | None, str]:
    """The arm that the first screen talks about: the winner, else the one that comes closest."""
    winner = run.verdict["winner"]["arm"]
    if winner:
        return winner, ""
    best: tuple[float, str] | None = None
    for arm in run.candidates:
        if _configuration(run, arm)["ledger"] in UNUSABLE:
            continue
        ratios = [
            float(own["ratio"]["value"]) for _, own in _cells_of(run, arm) if known(own["ratio"]["value"])
        ]
        if ratios and (best is None or min(ratios) > best[0]):
            best = (min(ratios), arm)
    if best is None:
        return None, ""
    return best[1], ", which comes closest" if len(run.candidates) > 1 else ""


def _listed(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
