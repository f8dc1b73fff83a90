"""The first screen: does it pay, by how much, how sure, why, and what would change it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from breakeven.publish.escape import Markdown, markdown_code
from breakeven.publish.report.numbers import change, counted, fixed, known, level, percent, sentence, spelled
from breakeven.publish.report.run import Document, Run, place
from breakeven.publish.report.table import Table

UNUSABLE = ("blocked", "diagnosis", "open-defect")
"""Ledger words of arms without a valid measurement."""
NO_FACTOR = ("invalid", "not measured")
"""Verdicts that forbid a factor."""


@dataclass(frozen=True)
class Answer:
    """One word, a sentence, and the sentences that answer the four questions after it; plain text, not escaped."""

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
        how_sure=tuple(map(sentence, _how_sure(run))),
        why=tuple(map(sentence, _why(run))),
        change=tuple(map(sentence, _change(run))),
    )


def _pays(run: Run) -> tuple[str, str]:
    if any(is_failed(arm) for arm in run.verdict["arms"] if arm["arm"] == run.baseline):
        return "No answer", f"The baseline {run.baseline} has no result, so nothing can be compared."
    words = {one["arm"]: one["ledger"] for one in run.verdict["configurations"]}
    usable = {arm: ledger for arm, ledger in words.items() if ledger not in UNUSABLE}
    recommended = [arm for arm, ledger in usable.items() if ledger == "recommended"]
    if recommended:
        winner = run.verdict["winner"]["arm"] or recommended[0]
        others = [arm for arm in recommended if arm != winner]
        also = f"; {listed(others)} would do too" if others else ""
        return "Yes", f"{winner} pays: it wins or ties in every case that was asked for{also}."
    if not words:
        probed = list(_probed(run))
        if probed:
            return "Costs only", f"Acceptance was forced, so no speed is quoted. {' '.join(probed)}"
        return "No answer", "The experiment has no arm to compare with the baseline."
    if not usable:
        return "No answer", "No arm has a valid measurement."
    undecided = [arm for arm in usable if usable[arm] == "noise" and _is_undecided(run, arm)]
    if undecided:
        return (
            "Not decided",
            f"So far {listed(undecided)} cannot be told from the baseline, nor proven equal to it.",
        )
    if set(usable.values()) == {"impossible"}:
        return "No, at any acceptance", (
            f"{listed(list(usable))} cannot pay here: a step costs more than all the tokens that it could emit."
        )
    if set(usable.values()) == {"noise"}:
        return (
            "No difference",
            f"{_verb(list(usable), 'is', 'are')} as fast as the baseline, within the margin.",
        )
    lost = [arm for arm, ledger in usable.items() if ledger in ("rejected", "impossible")]
    cells = [judged(own) for arm in lost for _, own in cells_of(run, arm)]
    wins = cells.count("wins")
    somewhere = f" Decode alone is faster in {wins} of {counted(len(cells), 'cell')}." if wins else ""
    return "No", f"{_verb(lost, 'loses', 'lose')} in at least one case that was asked for.{somewhere}"


def _probed(run: Run) -> Iterator[str]:
    """What a step costs in the first cell, arm by arm, where acceptance was forced."""
    probes = {arm["arm"] for arm in run.verdict["arms"] if arm["role"] == "cost_only"}
    for cell in run.verdict["cells"][:1]:
        for own in cell["arms"]:
            if own["arm"] in probes and known(own["cost"]["value"]):
                most = own["ceiling"]["value"]
                limit = f", so at most {fixed(most, 2)} times the baseline" if known(most) else ""
                cost = spelled(own["cost"], run.alpha)
                yield f"{own['arm']} at {place(cell)}: a step costs {cost} baseline steps{limit}."


def _how_much(run: Run) -> Iterator[str]:
    arm, why = _spoken_of(run)
    if arm is None:
        yield "No factor can be given."
        return
    rows = sorted(_with_ratio(run, arm), key=lambda pair: float(pair[1]["ratio"]["value"]))
    for cell, own in [rows[0], rows[-1]] if len(rows) > 1 else rows:
        yield (
            f"{arm}{why} at {place(cell)}: decode {change(own['ratio']['value'])}, that is "
            f"{spelled(own['ratio'], run.alpha)} times the baseline's speed."
        )
    worst = configuration(run, arm)["worst"]
    if run.experiment.get("mixes") and known(worst["value"]):
        yield (
            f"{arm} end to end (prefill and decode), worst declared request: {change(worst['value'])}, that is "
            f"{spelled(worst, run.alpha)} times the baseline's speed."
        )


def _how_sure(run: Run) -> Iterator[str]:
    look, cells = run.verdict["look"], run.verdict["cells"]
    rounds = sorted({len(cell["rounds"]) for cell in cells}) or [0]
    complete = counted(rounds[-1], "complete round")
    if len(rounds) > 1:
        complete = f"{rounds[0]} to {complete}, depending on the cell"
    known_noise = any(known(cell["launch_sd"]) for cell in cells)
    cover = (
        f"intervals cover {level(run.alpha)} ({look['rule']})" if known_noise else "there are no intervals"
    )
    yield f"{complete}, in each a fresh launch of every arm; {cover}"
    effects = [cell["minimum_detectable_effect"] for cell in cells]
    effects = sorted(effect for effect in effects if known(effect))
    if effects:
        ends = dict.fromkeys(percent(effect) for effect in (effects[0], effects[-1]))
        by_cell = ", depending on the cell," if len(ends) > 1 else ""
        yield f"A change of {' to '.join(ends)}{by_cell} would have been found 4 times of 5"
    floors = [cell["noise_floor"]["value"] for cell in cells if known(cell["noise_floor"]["value"])]
    if floors:
        yield f"The baseline differs from itself by up to {percent(max(floors))} (noise floor of the noisiest cell)"
    yield from (f"{text[:1].upper()}{text[1:]}" for text in run.verdict["limitations"])
    if run.verdict["undecided"] and look["next_rounds"]:
        yield f"The next look is after {look['next_rounds']} rounds"


def _why(run: Run) -> Iterator[str]:
    """One reason per distinct one with the arms it holds for, then what a step costs and yields."""
    reasons: dict[str, list[str]] = {}
    for one in run.verdict["configurations"]:
        reasons.setdefault(str(one["reason"]), []).append(one["arm"])
    yield from (f"{listed(arms)}: {reason}" for reason, arms in reasons.items())
    arm, _ = _spoken_of(run)
    for cell, own in _with_ratio(run, arm) if arm else ():
        length = own["acceptance"]["length"]["value"]
        if known(own["cost"]["value"]) and known(length):
            ceiling = own["ceiling"]["value"]
            perfect = f"; with every draft accepted it would reach {fixed(ceiling, 2)} times the baseline"
            yield (
                f"{arm} at {place(cell)}: a step costs {spelled(own['cost'], decimals=2)} baseline steps and yields "
                f"{fixed(length, 2)} tokens{perfect if known(ceiling) else ''}"
            )
            return


def _change(run: Run) -> Iterator[str]:
    said: dict[str, list[str]] = {}
    for one in run.verdict["configurations"]:
        if one["reopen"]:
            said.setdefault(str(one["reopen"]["words"]), []).append(one["arm"])
    yield from (f"{listed(arms)}: {words}" for words, arms in said.items())
    if any(words.startswith(("a ", "b ")) for words in said):
        yield "Here a is a step without its drafts and b one drafted token, both in baseline steps: C(N) = a + b·N"
    if following := run.verdict["next_arm"]:
        settings = ", ".join(f"{key} {value}" for key, value in following["change"].items())
        yield f"Next to measure: {settings}; {following['reason']}"
    noisy = [cell for cell in run.verdict["cells"] if known(cell["launch_sd"])]
    wanted = [cell["rounds_for_margin"] for cell in noisy]
    if run.verdict["undecided"] and wanted:
        margin = percent(run.verdict["margin"], 0)
        if all(known(rounds) for rounds in wanted):
            yield f"{max(wanted)} rounds would show a change of {margin} in every cell"
        else:
            yield f"On a machine this noisy even 64 rounds would not show a change of {margin} in every cell"
    failed = [arm["arm"] for arm in run.verdict["arms"] if is_failed(arm)]
    if failed:
        yield f"{_verb(failed, 'has', 'have')} no result; how to try again stands under Arms"


def summary_table(run: Run) -> Markdown:
    """One row per arm that gets a verdict: its word, its range of decode speed-ups, its worst request."""
    mixes = bool(run.experiment.get("mixes"))
    table = Table(["arm", "N >", "verdict", "decode, lowest >", "decode, highest >", "end to end, worst >"])
    for arm in run.candidates:
        one = configuration(run, arm)
        rows = [] if one["ledger"] in UNUSABLE else [own["ratio"] for _, own in _with_ratio(run, arm)]
        rows.sort(key=lambda ratio: float(ratio["value"]))
        table.add(
            markdown_code(arm, in_table=True),
            n_of(run, arm),
            one["ledger"],
            table.estimate(rows[0]) if rows else "–",
            table.estimate(rows[-1]) if rows else "–",
            table.estimate(one["worst"]) if rows and mixes else "–",
        )
    return table.markdown() if table else Markdown("No arm beside the baseline.")


def n_of(run: Run, arm: str) -> str:
    """Draft length of an arm as text; that of a gated arm is an upper limit."""
    own = next(one for one in run.verdict["arms"] if one["arm"] == arm)
    if own["n_spec"] is None:
        return "–"
    return f"≤ {own['n_spec']}" if own["gated"] else str(own["n_spec"])


def is_failed(arm: Document) -> bool:
    """Whether an arm of the verdict has no launch to show."""
    return not arm["rounds"]


def configuration(run: Run, arm: str) -> Document:
    """The verdict on an arm as a setting to use."""
    found: Document = next(one for one in run.verdict["configurations"] if one["arm"] == arm)
    return found


def judged(own: Document) -> str | None:
    """The verdict on an arm in a cell; None where it gets none."""
    verdict: str | None = own["verdict"]["verdict"] if own["verdict"] else None
    return verdict


def cells_of(run: Run, arm: str) -> list[tuple[Document, Document]]:
    """An arm's cells in which a factor may be quoted."""
    return [
        (cell, own)
        for cell in run.verdict["cells"]
        for own in cell["arms"]
        if own["arm"] == arm and judged(own) not in NO_FACTOR
    ]


def _with_ratio(run: Run, arm: str) -> list[tuple[Document, Document]]:
    return [(cell, own) for cell, own in cells_of(run, arm) if known(own["ratio"]["value"])]


def _is_undecided(run: Run, arm: str) -> bool:
    cells = [judged(own) for _, own in cells_of(run, arm)]
    return "inconclusive" in [*cells, *(mix["verdict"] for mix in configuration(run, arm)["mixes"])]


def _spoken_of(run: Run) -> tuple[str | None, str]:
    """The arm that the first screen talks about: the winner, else the one whose worst cell is the least bad."""
    if winner := run.verdict["winner"]["arm"]:
        return winner, ""
    worst = {
        arm: min(float(own["ratio"]["value"]) for _, own in rows)
        for arm in run.candidates
        if configuration(run, arm)["ledger"] not in UNUSABLE and (rows := _with_ratio(run, arm))
    }
    if not worst:
        return None, ""
    closest = max(worst, key=lambda arm: worst[arm])
    return closest, ", the best of them," if len(worst) > 1 else ""


def _verb(names: Sequence[str], one: str, several: str) -> str:
    return f"{listed(names)} {one if len(names) == 1 else several}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: a, b and c."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
