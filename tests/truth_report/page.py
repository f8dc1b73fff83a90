"""The measured sections as one Markdown page."""

import re
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

from breakeven.measure.host import host_facts
from breakeven.publish.escape import Markdown, environment
from breakeven.publish.report.table import Table, aligned

TEMPLATE = "truth.md.j2"
WORD = {True: "PASS", False: "FAIL", None: "not decided"}
GIB = 2**30

Section = Mapping[str, Any]


def page(sections: Mapping[str, Section]) -> str:
    """The page. `sections`: documents by section name."""
    tables = {name: SECTION_TABLES[name](found) for name, found in sections.items()}
    text = (
        environment()
        .get_template(TEMPLATE)
        .render(
            figures=figures_table(sections),
            failed=[
                one["claim"]
                for found in sections.values()
                for one in found["figures"]
                if one["passed"] is False
            ],
            tables=tables,
            machine=machine_words(),
            loads=load_table(sections),
            seconds=f"{sum(found['seconds'] for found in sections.values()):.0f}",
            **(dict.fromkeys(SECTION_TABLES) | dict(sections)),
        )
    )
    return aligned(re.sub(r"\n{3,}", "\n\n", text).strip()) + "\n"


def machine_words() -> str:
    """The machine by what it is."""
    host = host_facts()
    memory = f"{host['memory_bytes'] / GIB:.0f} GiB"
    return (
        f"{host['cpu_model'] or 'unknown processor'}, {host['threads']} threads, {memory}, {host['system']} "
        f"{host['kernel']}, Python {sys.version.split()[0]}, httpx {version('httpx')}"
    )


def figures_table(sections: Mapping[str, Section]) -> Markdown:
    """Every figure to reach."""
    table = Table(["figure", "wanted", "found", ""])
    for found in sections.values():
        for one in found["figures"]:
            table.add(one["claim"], one["wanted"], one["found"], WORD[one["passed"]])
    return table.markdown()


def load_table(sections: Mapping[str, Section]) -> Markdown:
    """How busy the machine was: load means other work, and other work means larger errors."""
    table = Table(["section", "took >", "load at start >", "at end >"])
    for name, found in sections.items():
        table.add(name, f"{found['seconds']:.0f} s", *(f"{load:.1f}" for load in found["load"]))
    return table.markdown()


def recovery(found: Section) -> dict[str, Markdown]:
    """Streams by tokens a step, by shape, and chats."""
    by_k = Table(
        [
            *("dialect", "tokens a step", "true tok/s >", "found >", "error >", "events/token >"),
            *("true pp tok/s >", "found >", "true TTFT ms >", "TTFT over ms >", "tg"),
        ]
    )
    for row in found["by_k"]:
        by_k.add(
            *(row["dialect"], row["what"], f"{row['true_tok_s']:.2f}", f"{row['tok_s']:.2f}"),
            *(_percent(row["error"]), f"{row['events_per_token']:.3f}"),
            *(f"{row['true_pp_tok_s']:.0f}", f"{row['pp_tok_s']:.0f}"),
            *(_ms(row["true_ttft_s"]), _ms(row["ttft_over_s"]), _tg(row)),
        )
    shapes = Table(
        ["dialect", "stream", "true tok/s >", "found >", "by the clock of", "error >", "TTFT over ms >", "tg"]
    )
    for row in [*found["shapes"], *found["chats"]]:
        shapes.add(
            *(row["dialect"], row["what"], f"{row['true_tok_s']:.2f}", f"{row['tok_s']:.2f}", row["clock"]),
            *(_percent(row["error"]), _ms(row["ttft_over_s"]), _tg(row)),
        )
    return {"by_k": by_k.markdown(), "shapes": shapes.markdown()}


def _tg(row: Mapping[str, Any]) -> str:
    return WORD[row["passed"]]


def cost(found: Section) -> dict[str, Markdown]:
    """a, b and C(N), and acceptance by position."""
    fit = Table(["dialect", "", "true >", "found >", "interval >", "error >", "holds the truth"])
    for row in [*found["parameters"], *found["costs"]]:
        fit.add(
            *(row["dialect"], row["name"], f"{row['true']:.4f}", _number(row["value"])),
            f"{_number(row['low'])} to {_number(row['high'])}",
            "-" if row["error"] is None else _percent(row["error"]),
            {True: "yes", False: "no", None: "-"}[row["covered"]],
        )
    positions = Table(["dialect", "arm", "position >", "true >", "found >", "off, points >"])
    for row in found["positions"]:
        positions.add(
            *(row["dialect"], row["arm"], str(row["position"])),
            *(f"{row['true']:.3f}", f"{row['found']:.3f}", f"{100 * (row['found'] - row['true']):+.1f}"),
        )
    return {"fit": fit.markdown(), "positions": positions.markdown()}


def checks(found: Section) -> dict[str, Markdown]:
    """Faults against checks, and every check."""
    faults = Table(["fault", "how", "engine", "arm", "must fire", "fired", "fired besides"])
    for row in found["rows"]:
        fired = "no: " + ", ".join(row["missed"]) if row["missed"] else "yes"
        faults.add(
            *(row["fault"], row["how"], row["engine"], row["arm"]),
            *(_names(row["fires"]), fired, _names(row["also"]) or "-"),
        )
    every = Table(["check", "severity", "fires on", "how", "passes without it"])
    for row in found["checks"]:
        every.add(
            *(row["check"], row["severity"], row["fault"] or "-", row["how"] or "-"),
            "yes" if row["silent"] else "no",
        )
    return {"faults": faults.markdown(), "every": every.markdown()}


def same(found: Section) -> dict[str, Markdown]:
    """What the baseline was called as an arm of its own."""
    table = Table(["verdict on the baseline as an arm", "trials >"])
    for word, count in found["verdicts"].items():
        table.add(word, str(count))
    return {"verdicts": table.markdown()}


def mi210(found: Section) -> dict[str, Markdown]:
    """Both readings of the same streams."""
    table = Table(
        [
            "arm",
            "published tok/s >",
            "naive count >",
            "pipeline >",
            "events/token >",
            "speed-up",
            "C(N)",
            "verdict",
        ]
    )
    for row in found["rows"]:
        table.add(
            *(
                row["arm"],
                f"{row['published_tok_s']:.2f}",
                f"{row['naive_tok_s']:.2f}",
                f"{row['tok_s']:.2f}",
            ),
            *(f"{row['events_per_token']:.3f}", table.estimate(row["ratio"]), table.estimate(row["cost"])),
            row["verdict"] or "baseline",
        )
    prefill = Table(
        ["arm", "new tokens >", "computed >", "pp of new, ratio", "pp of computed, ratio", "TTFT ms >"]
    )
    for row in found["prefill"]:
        prefill.add(
            *(row["arm"], f"{row['new_tokens']:.0f}", f"{row['computed_tokens']:.0f}"),
            *(prefill.estimate(row["pp_new_ratio"]), prefill.estimate(row["pp_computed_ratio"])),
            _ms(row["ttft_s"]),
        )
    return {"arms": table.markdown(), "prefill": prefill.markdown()}


def outputs(found: Section) -> dict[str, Markdown]:
    """Arms by how their outputs leave the baseline's."""
    arms = Table(["dialect", "arm", "parts at token >", "true margin >", "found >", "said to be", ""])
    for row in found["rows"]:
        arms.add(
            row["dialect"],
            row["arm"],
            *(
                None if value is None else form(value)
                for value, form in (
                    (row["parts_at"], str),
                    (row["true_margin"], "{:.3f}".format),
                    (row["margin"], "{:.3f}".format),
                )
            ),
            row["kind"],
            WORD[row["passed"]],
        )
    return {"arms": arms.markdown()}


def drift(found: Section) -> dict[str, Markdown]:
    """Two orders of the same launches."""
    table = Table(["order", "arm over baseline by hand (Welch)", "by the pipeline", "verdict"])
    for row in found["rows"]:
        by_hand = table.estimate(row["by_hand"] | {"reason": None})
        table.add(row["order"], by_hand, table.estimate(row["pipeline"]), row["verdict"])
    return {"orders": table.markdown()}


def overhead(found: Section) -> dict[str, Markdown]:
    """TTFT by prompt length, and intake."""
    first = Table(["dialect", "prompt tokens >", "true TTFT ms >", "over, median ms >", "least >", "most >"])
    for row in found["first"]:
        first.add(
            *(row["dialect"], f"{row['prompt_tokens']:,}", _ms(row["true_s"])),
            *(_ms(row[name]) for name in ("median_s", "least_s", "most_s")),
        )
    intake = Table(["dialect", "tokens >", "tokens a CPU second >", "tokens a second of the clock >"])
    for row in found["intake"]:
        intake.add(row["dialect"], f"{row['tokens']:,}", f"{row['per_cpu_s']:,.0f}", f"{row['per_s']:,.0f}")
    return {"first": first.markdown(), "intake": intake.markdown()}


def embedded(found: Section) -> dict[str, Markdown]:
    """Client and server times of the same requests."""
    table = Table(
        [
            "arm",
            "depth >",
            "requests >",
            "client's decode s >",
            "server's >",
            "apart >",
            "TTFT over prompt ms >",
        ]
    )
    for row in found["rows"]:
        table.add(
            *(row["arm"], str(row["depth"]), str(row["requests"])),
            *(f"{row['client_s']:.4f}", f"{row['server_s']:.4f}", _percent(row["share"])),
            _ms(row["ttft_over_s"]),
        )
    return {"cells": table.markdown()}


def harness(found: Section) -> dict[str, Markdown]:
    """Where the seconds of a launch go."""
    table = Table(
        [
            "arm",
            "launch s >",
            "of it ready >",
            "measuring >",
            "of it warm-up >",
            "teardown >",
            "rest of the job >",
        ]
    )
    for row in found["rows"]:
        names = ("launch_s", "ready_s", "measure_s", "warm_up_s", "teardown_s", "inside_s")
        table.add(row["arm"], *(f"{row[name]:.2f}" for name in names))
    return {"launches": table.markdown()}


def _percent(share: float) -> str:
    return f"{share:+.2%}".replace("%", " %")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}"


def _names(names: list[str]) -> str:
    return ", ".join(names)


SECTION_TABLES: Mapping[str, Callable[[Section], dict[str, Markdown]]] = {
    one.__name__: one
    for one in (recovery, cost, checks, outputs, same, mi210, drift, overhead, embedded, harness)
}
