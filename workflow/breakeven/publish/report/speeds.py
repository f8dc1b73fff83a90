"""Decode and prefill by depth, the declared requests end to end, and the rows that people compare."""

from breakeven.publish.escape import Markdown, markdown_code
from breakeven.publish.report.answer import n_of
from breakeven.publish.report.numbers import fixed, known, significant, test_name
from breakeven.publish.report.run import Document, Run, place
from breakeven.publish.report.table import Table


def decode_tables(run: Run) -> list[tuple[str, Markdown]]:
    """(prompt class, table): speed and speed-up of every arm at every depth."""
    found = []
    for prompt_class in dict.fromkeys(cell["prompt_class"] for cell in run.verdict["cells"]):
        table = Table(["depth >", "arm", "N >", "tokens/s >", "speed-up >", "verdict", "why"])
        for cell in run.verdict["cells"]:
            if cell["prompt_class"] != prompt_class:
                continue
            for own in cell["arms"]:
                table.add(
                    str(cell["depth"]),
                    markdown_code(own["arm"], in_table=True),
                    n_of(run, own["arm"]),
                    table.estimate(own["tok_s"], None),
                    _ratio(table, own),
                    (own["verdict"] or {}).get("verdict") or "–",
                    (own["verdict"] or {}).get("reason") or _not_judged(run, own["arm"]),
                )
        found.append((prompt_class, table.markdown()))
    return found


def _ratio(table: Table, own: Document) -> Markdown:
    outcome = (own["verdict"] or {}).get("verdict")
    if outcome in ("invalid", "not measured"):
        return table.noted("no factor", "an invalid measurement gets no factor")
    if not known(own["ratio"]["value"]) and known(own["unpaired_ratio"]["value"]):
        return Markdown(f"{table.estimate(own['unpaired_ratio'])} unpaired")
    if own["verdict"] is None and own["ratio"]["value"] == 1:
        return Markdown("1")
    return table.estimate(own["ratio"])


def _not_judged(run: Run, arm: str) -> str:
    role = next((one["role"] for one in run.verdict["arms"] if one["arm"] == arm), "")
    return {
        "baseline": "the baseline",
        "repeat": "the baseline again: feeds the noise floor only",
        "cost_only": "acceptance is forced: its step cost counts, its speed does not",
    }.get(role, "–")


def wins(run: Run) -> list[str]:
    """Cells in which an arm is faster after Holm's correction over all arms and cells."""
    return [
        f"{win['arm']} at {place(win)}, p = {significant(win['p_holm'], 2)}"
        for win in run.verdict["wins_anywhere"]
    ]


def mixes_table(run: Run) -> Markdown | None:
    """End-to-end speed-up of the declared requests; None when none is declared."""
    table = Table(["request", "depth >", "class", "arm", "end to end >", "verdict"])
    for one in run.verdict["configurations"]:
        for mix in one["mixes"]:
            table.add(
                f"{mix['prompt_tokens']} new + {mix['output_tokens']} output tokens",
                str(mix["depth"]),
                mix["prompt_class"],
                markdown_code(mix["arm"], in_table=True),
                table.estimate(mix["ratio"]),
                mix["verdict"],
            )
    return table.markdown() if table else None


def prefill_table(run: Run) -> Markdown | None:
    """Prefill per new and per computed token at every depth; None when nothing was measured."""
    table = Table(
        [
            "depth >", "arm", "TTFT >", "new tokens >", "computed >",
            "pp per new token >", "ratio >", "pp per computed token >", "ratio >",
        ]
    )  # fmt: skip
    for depth in run.verdict["prefill"]:
        for own in depth["arms"]:
            base = own["arm"] == run.baseline
            table.add(
                str(depth["depth"]),
                markdown_code(own["arm"], in_table=True),
                f"{significant(1000 * own['ttft_s'])} ms" if known(own["ttft_s"]) else None,
                fixed(own["new_tokens"], 0),
                fixed(own["computed_tokens"], 0),
                _rate(own["pp_new_tok_s"]),
                "1" if base else table.estimate(own["pp_new_ratio"]),
                _rate(own["pp_computed_tok_s"]),
                "1" if base else table.estimate(own["pp_computed_ratio"]),
            )
    return table.markdown() if table else None


def _rate(tok_s: float | None) -> str | None:
    return significant(tok_s) if known(tok_s) else None


def prefill_words(run: Run) -> list[str]:
    """What each depth shows."""
    said = []
    for depth in run.verdict["prefill"]:
        cause = f"; cause: {depth['cause']}" if depth["cause"] else ""
        flat = {True: "; flat in N", False: "; it changes with N", None: ""}[depth["flat"]]
        reason = f" ({depth['reason']})" if depth["reason"] else ""
        word = {"regression": "a regression", "none": "no regression", "inconclusive": "inconclusive"}
        said.append(f"Depth {depth['depth']}: {word.get(depth['kind'], depth['kind'])}{cause}{flat}{reason}.")
    return said


def exchange_table(run: Run) -> Markdown | None:
    """Rows in the shape of llama-bench, ± half the interval (no standard deviation); None when no speed is known."""
    ledger = run.experiment.get("ledger") or {}
    model = ledger.get("model") or run.experiment["server"].get("model") or "unknown"
    workload = run.experiment["workload"]
    classes = {cell["prompt_class"] for cell in run.verdict["cells"]}
    table = Table(["model", "backend", "arm", "test", "t/s >"])
    for depth in run.verdict["prefill"]:
        for own in depth["arms"]:
            if known(own["pp_new_tok_s"]):
                table.add(
                    model,
                    run.experiment["engine"],
                    own["arm"],
                    test_name("pp", workload["pp"], depth["depth"]),
                    fixed(own["pp_new_tok_s"], 2),
                )
    for cell in run.verdict["cells"]:
        for own in cell["arms"]:
            if known(own["tok_s"]["value"]):
                test = test_name("tg", workload["tg"], cell["depth"])
                table.add(
                    model,
                    run.experiment["engine"],
                    own["arm"],
                    test if len(classes) == 1 else f"{test} ({cell['prompt_class']})",
                    _plus_minus(own["tok_s"]),
                )
    return table.markdown() if table else None


def _plus_minus(estimate: Document) -> str:
    text = fixed(estimate["value"], 2)
    if not (known(estimate["low"]) and known(estimate["high"])):
        return text
    return f"{text} ± {fixed((estimate['high'] - estimate['low']) / 2, 2)}"
