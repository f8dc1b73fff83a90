"""Acceptance, what a step costs, what follows from both, and whether outputs stay what they were."""

from breakeven.publish.escape import Markdown, markdown_code
from breakeven.publish.report.answer import cells_of, n_of
from breakeven.publish.report.numbers import fixed, known, percent, significant, size, whole
from breakeven.publish.report.run import Document, Run, place
from breakeven.publish.report.table import Table

LOSSLESS = "lossless"
NO_BANDWIDTH = "the device's bandwidth is not known: state bandwidth_gb_s in the experiment"


def _drafting(cell: Document) -> list[Document]:
    return [own for own in cell["arms"] if own["n_spec"]]


def acceptance_table(run: Run) -> Markdown | None:
    """Rate and lengths of every drafting arm, cell by cell; intervals are over prompts."""
    table = Table(
        [
            "depth >",
            "class",
            "arm",
            "N >",
            "accepted/drafted >",
            "over prompts >",
            "tokens a step L >",
            "with drafts >",
        ]
    )
    for cell in run.verdict["cells"]:
        for own in _drafting(cell):
            found = own["acceptance"]
            table.add(
                str(cell["depth"]),
                cell["prompt_class"],
                markdown_code(own["arm"], in_table=True),
                n_of(run, own["arm"]),
                _plain(table, found["rate"], share=True),
                table.estimate(own["prompts"]["rate"], share=True),
                _plain(table, found["length"]),
                _plain(table, found["length_drafted"]),
            )
    return table.markdown() if table else None


def _plain(table: Table, estimate: Document, *, share: bool = False) -> Markdown:
    """A pooled count: it has no interval by design, which needs no note in every row."""
    value = estimate["value"]
    if not known(value):
        return table.estimate(estimate)
    return Markdown(percent(value) if share else fixed(value, 3))


def positions_table(run: Run) -> tuple[Markdown | None, list[str]]:
    """Survival S_i (and conditional q_i) by position, and why an arm has none."""
    deepest = max(
        (
            len(own["acceptance"]["survival"] or ())
            for cell in run.verdict["cells"]
            for own in _drafting(cell)
        ),
        default=0,
    )
    missing: dict[str, list[str]] = {}
    table = Table(["depth >", "class", "arm", *(f"position {i + 1} >" for i in range(deepest))])
    for cell in run.verdict["cells"]:
        for own in _drafting(cell):
            survival, conditional = (own["acceptance"][key] or [] for key in ("survival", "conditional"))
            if not survival:
                why = own["acceptance"]["reason"] or "the counters have no positions"
                missing.setdefault(str(why), []).append(own["arm"])
                continue
            cells = [
                percent(s) + (f" ({percent(q)})" if known(q) and i else "")
                for i, (s, q) in enumerate(zip(survival, conditional, strict=False))
            ]
            table.add(
                str(cell["depth"]),
                cell["prompt_class"],
                markdown_code(own["arm"], in_table=True),
                *cells,
                *["–"] * (deepest - len(cells)),
            )
    words = [
        f"{', '.join(dict.fromkeys(arms))}: by position unknown; {why}." for why, arms in missing.items()
    ]
    return (table.markdown() if table else None), words


def cost_table(run: Run) -> Markdown | None:
    """C(N) of every drafting arm with its time per step."""
    table = Table(
        ["depth >", "class", "arm", "N >", "ms a step >", "step cost C >", "limit N + 1 >", "possible"]
    )
    for cell in run.verdict["cells"]:
        for own in cell["arms"]:
            possible = {True: "yes", False: "no", None: "–"}[own["possible"]]
            limit = str(own["n_spec"] + 1) if own["n_spec"] and own["on_the_line"] else "–"
            table.add(
                str(cell["depth"]),
                cell["prompt_class"],
                markdown_code(own["arm"], in_table=True),
                n_of(run, own["arm"]),
                table.estimate(own["step_ms"], None),
                "1" if own["arm"] == run.baseline else table.estimate(own["cost"]),
                limit,
                possible,
            )
    return table.markdown() if table else None


def fit_table(run: Run) -> tuple[Markdown | None, list[str]]:
    """a and b of C(N) = a + b*N by cell, and what is to be said about each fit."""
    table = Table(["depth >", "class", "a >", "b >", "best N >", "straight line?"])
    said = []
    for cell in run.verdict["cells"]:
        fit = cell["fit"]
        if fit is None:
            said.append(f"{place(cell)}: no fit; {cell['fit_reason'] or 'no reason on record'}.")
            continue
        lack = fit["lack_of_fit"]
        straight = {True: "rejected", False: "not rejected", None: "not tested"}[lack["rejected"]]
        p = f", p = {fixed(lack['p'], 3)}" if known(lack["p"]) else ""
        best = cell["best_n"]
        span = f" ({best['low']} to {best['high']})" if known(best["low"]) and known(best["high"]) else ""
        table.add(
            str(cell["depth"]),
            cell["prompt_class"],
            table.estimate(fit["a"]),
            table.estimate(fit["b"]),
            f"{best['n']}{span}" if best["n"] is not None else table.noted("unknown", best["reason"]),
            table.noted(f"{straight}{p}", lack["reason"]),
        )
        if fit["alternative"]:
            other = fit["alternative"]
            parameters = ", ".join(
                f"{name} = {fixed(value, 3)}" for name, value in other["parameters"].items()
            )
            said.append(
                f"{place(cell)}: a curve fits too: {other['name']} ({parameters}; residual sd "
                f"{fixed(other['residual_sd'])})."
            )
        said += [f"{place(cell)}: look twice: {flag['reason']}." for flag in fit["anchor_flags"]]
    return (table.markdown() if table else None), said


def parts_table(run: Run) -> Markdown | None:
    """What the draft pass, the verification and the rollback cost, where the data tell them apart."""
    table = Table(["depth >", "class", "part", "baseline steps >", "how it is known"])
    for cell in run.verdict["cells"]:
        for part in cell["decomposition"]["parts"]:
            table.add(
                str(cell["depth"]),
                cell["prompt_class"],
                part["part"],
                table.estimate(part["cost"]),
                part["how"],
            )
    return table.markdown() if table else None


def decision_table(run: Run) -> Markdown | None:
    """What each arm needs to break even, what it reaches, and how far perfect drafts would take it."""
    table = Table(
        [
            "depth >", "class", "arm", "needs L >", "has L >", "needs accepted/drafted >", "has >",
            "needs α >", "ceiling (N+1)/C >", "headroom >",
        ]
    )  # fmt: skip
    for cell in run.verdict["cells"]:
        for own in _drafting(cell):
            needs = own["breakeven"]
            table.add(
                str(cell["depth"]),
                cell["prompt_class"],
                markdown_code(own["arm"], in_table=True),
                _need(table, needs["length"], needs["reason"]),
                _plain(table, own["acceptance"]["length"]),
                _need(table, needs["rate"], needs["reason"], share=True),
                _plain(table, own["acceptance"]["rate"], share=True),
                _need(table, needs["alpha"], needs["reason"], share=True),
                table.estimate(own["ceiling"]),
                _plain(table, own["headroom"]),
            )
    return table.markdown() if table else None


def _need(table: Table, value: float | None, reason: str | None, *, share: bool = False) -> Markdown:
    if not known(value):
        return table.noted("unknown", reason or "no reason on record")
    if share and value is not None and value > 1:
        return table.noted(percent(value), "more than 100 %: impossible at this N")
    return Markdown(percent(value) if share else fixed(value, 3))


def needed(run: Run) -> list[tuple[str, list[str]]]:
    """(arm and place, what would have to change there), for every losing arm in its worst cell."""
    found = []
    for arm in run.candidates:
        rows = [
            (cell, own) for cell, own in cells_of(run, arm) if own["needed"] and known(own["ratio"]["value"])
        ]
        if rows:
            cell, own = min(rows, key=lambda pair: float(pair[1]["ratio"]["value"]))
            found.append((f"{arm} at {place(cell)}", list(own["needed"])))
    return found


def bytes_table(run: Run) -> Markdown | None:
    """What a plain step reads at every depth and how fast; None when no cell is known."""
    counted = run.verdict.get("bytes") or {"cells": []}
    table = Table(
        ["depth >", "class", "weights >", "KV cache >", "recurrent state >", "achieved >", "of bandwidth >"]
    )
    for cell in counted["cells"]:
        depth, missing = str(cell["depth"]), counted.get("cache_reason")
        table.add(
            depth,
            cell["prompt_class"],
            size(counted["target"]),
            *(
                table.noted("unknown", missing) if missing else size(value)
                for value in ((counted.get("cache") or {}).get(depth), counted.get("recurrent"))
            ),
            f"{significant(cell['gb_s'], 3)} GB/s",
            percent(cell["share"], 0) if known(cell["share"]) else table.noted("unknown", NO_BANDWIDTH),
        )
    return table.markdown() if table else None


def lossless_table(run: Run) -> Markdown | None:
    """Outputs compared with the baseline's; None when the check did not run."""
    table = Table(["arm", "outputs that differ >", "result", "what was seen"])
    rows = run.checks[run.checks["check"] == LOSSLESS]
    for row in rows.astype(object).where(rows.notna(), None).to_dict("records"):
        passed = None if row["passed"] is None else bool(row["passed"])
        table.add(
            markdown_code(str(row["arm"]), in_table=True),
            percent(row["value"]) if row["value"] is not None else None,
            {True: "passed", False: Markdown("**failed**"), None: "open"}[passed],
            row["reason"],
        )
    return table.markdown() if table else None


def counts_table(run: Run) -> Markdown | None:
    """The counts that all acceptance figures come from, all cells of an arm together."""
    table = Table(
        ["arm", "requests >", "drafts D >", "drafted M >", "accepted A >", "undrafted U >", "steps >"]
    )
    for arm in run.verdict["arms"]:
        counts = arm["acceptance"]["counts"]
        if counts["requests"]:
            table.add(
                markdown_code(arm["arm"], in_table=True),
                *(
                    whole(counts[key])
                    for key in ("requests", "drafts", "draft_tokens", "accepted", "undrafted", "steps")
                ),
            )
    return table.markdown() if table else None
