"""How far the machine can be trusted: launch noise, drift, and what the harness itself costs."""

from dataclasses import dataclass

from breakeven.publish.escape import Markdown, markdown_code
from breakeven.publish.report.numbers import fixed, known, percent, seconds
from breakeven.publish.report.run import Document, Run, place
from breakeven.publish.report.table import Table


def noise_table(run: Run) -> Markdown | None:
    """Noise between launches, noise floor and minimum detectable effect of every cell."""
    table = Table(
        [
            "depth >", "class", "rounds >", "launch sd >", "noise floor >", "detectable effect >",
            "rounds for the margin >", "A/A p >", "method",
        ]
    )  # fmt: skip
    for cell in run.verdict["cells"]:
        rounds = cell["rounds_for_margin"]
        floor = cell["noise_floor"]
        table.add(
            str(cell["depth"]),
            cell["prompt_class"],
            str(len(cell["rounds"])),
            percent(cell["launch_sd"], 2),
            percent(floor["value"], 2) if known(floor["value"]) else table.noted("unknown", floor["reason"]),
            percent(cell["minimum_detectable_effect"], 2),
            str(rounds) if rounds is not None else _too_many(table, cell),
            fixed(cell["same_arm_p"], 3),
            table.noted(cell["interval_method"], cell["estimator_reason"]),
        )
    return table.markdown() if table else None


def _too_many(table: Table, cell: Document) -> Markdown:
    if not known(cell["launch_sd"]):
        return table.noted("unknown", "the noise between launches is not known")
    return Markdown("more than 64")


def drift_words(run: Run) -> list[str]:
    """What the baseline did over time, cell by cell."""
    flags = {True: "drifts", False: "no drift beyond noise and margin", None: "drift unknown"}
    return [
        f"{place(one)}: {flags[one['drift']['flagged']]}; {one['drift']['reason']}."
        for one in run.verdict["drift"]
    ]


@dataclass(frozen=True)
class Overhead:
    """Where one launch's time went, in seconds; `job_s` is what the job took beyond launch, measuring and teardown."""

    launch_s: float
    measure_s: float
    teardown_s: float
    job_s: float

    @property
    def share(self) -> float:
        """Teardown and job over launch and measuring."""
        return (self.teardown_s + self.job_s) / (self.launch_s + self.measure_s)


def overhead(launch: Document) -> Overhead | None:
    """From one launch.json; None when it did not run to its end."""
    parts = [launch.get(key) for key in ("launch_s", "measure_s", "teardown_s", "started_at", "ended_at")]
    if any(part is None for part in parts):
        return None
    launch_s, measure_s, teardown_s, began, ended = (float(part) for part in parts if part is not None)
    return Overhead(
        launch_s, measure_s, teardown_s, max(ended - began - launch_s - measure_s - teardown_s, 0.0)
    )


def overhead_table(run: Run) -> Markdown | None:
    """One row a launch, then all of them together."""
    table = Table(
        ["arm", "round >", "slot >", "launch >", "measuring >", "teardown >", "job >", "overhead >"]
    )
    found = []
    for name, arm in run.arms.items():
        for number, launch in arm.launches.items():
            own = overhead(launch)
            if own is None:
                continue
            found.append(own)
            slot = launch.get("slot")
            table.add(
                markdown_code(name, in_table=True),
                str(number),
                "unknown" if slot is None else str(slot),
                *_row(own),
            )
    if not found:
        return None
    total = Overhead(
        *(sum(getattr(own, key) for own in found) for key in ("launch_s", "measure_s", "teardown_s", "job_s"))
    )
    table.add("all", "–", "–", *_row(total))
    return table.markdown()


def _row(own: Overhead) -> tuple[str, ...]:
    return (
        *(seconds(part) for part in (own.launch_s, own.measure_s, own.teardown_s, own.job_s)),
        percent(own.share),
    )
