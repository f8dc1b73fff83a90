"""The report's figures: what they show in words, and their files (SVG, PNG, data as Parquet)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import vl_convert

from breakeven.files import whole
from breakeven.publish.escape import Markdown
from breakeven.publish.report import charts, figure_data
from breakeven.publish.report.numbers import fixed, level, percent, significant
from breakeven.publish.report.run import Run

PNG_SCALE = 2


@dataclass(frozen=True)
class Figure:
    """One figure. `caption` says what to see, `alt` what a reader who cannot see it misses, `spec` is Vega-Lite."""

    name: str
    experiment: str
    title: str
    caption: str
    alt: str
    data: pd.DataFrame
    spec: Mapping[str, Any]

    @property
    def link(self) -> Markdown:
        """Address of the picture from the report's page."""
        return Markdown(f"figures/{self.experiment}/{self.name}.svg")

    @cached_property
    def svg(self) -> str:
        """The picture."""
        drawn: str = vl_convert.vegalite_to_svg(dict(self.spec))
        return drawn


def figures(run: Run) -> tuple[list[Figure], list[str]]:
    """The figures whose data is known, and the titles of the others."""
    found, missing = [], []
    for name, (title, frame_of, chart, caption, alt) in _FIGURES.items():
        frame = frame_of(run)
        if frame.empty:
            missing.append(title.lower())
            continue
        made = Figure(name, run.name, title, caption(run, frame), alt(frame), frame, chart(frame))
        found.append(made)
    return found, missing


def write(figure: Figure, folder: Path) -> None:
    """Write NAME.svg, NAME.png and NAME.parquet."""
    contents = {
        "svg": figure.svg.encode(),
        "png": vl_convert.vegalite_to_png(dict(figure.spec), scale=PNG_SCALE),
    }
    for suffix, content in contents.items():
        with whole(folder / f"{figure.name}.{suffix}") as part:
            part.write_bytes(content)
    with whole(folder / f"{figure.name}.parquet") as part:
        figure.data.to_parquet(part, index=False)


def _speedup_caption(run: Run, frame: pd.DataFrame) -> str:
    return (
        f"Above the dashed line speculation pays, below it costs. Points are decode speed-ups with {level(run.alpha)} "
        "intervals over launches; a tick is the ceiling, where the arm would stand if every draft were accepted. A "
        f"tick below the line means that no drafter can help.{_cut(frame)}"
    )


def _cost_caption(run: Run, frame: pd.DataFrame) -> str:
    return (
        "What a step costs, in baseline steps, with its fitted line. On the dashed line a step costs as many tokens as "
        "it could emit at most (N + 1): above it no acceptance pays. The gap below it is what acceptance has to "
        f"fill.{_cut(frame)}"
    )


def _depth_caption(run: Run, frame: pd.DataFrame) -> str:
    return (
        "Decode speed of every arm over the context before the request. Lines that cross mean that the answer depends "
        f"on depth; a line that rises with depth is suspect.{_cut(frame)}"
    )


def _acceptance_caption(run: Run, frame: pd.DataFrame) -> str:
    return (
        "Share of all drafts that were accepted up to each position. The steeper the fall, the less a longer draft "
        "brings; arms that draft different lengths should agree where they overlap."
    )


def _cut(frame: pd.DataFrame) -> str:
    over = frame["high"].astype(float).max() > charts.top(frame)
    return " Intervals that leave the frame are wider than it." if over else ""


def _samples_caption(run: Run, frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    known = set(frame["series"])
    absent = [name for name in (figure_data.TEMPERATURE, figure_data.CLOCK) if name not in known]
    gone = f" Not recorded on this machine: {', '.join(absent)}." if absent else ""
    return (
        f"One point a launch, at depth {int(first['depth'])}, {first['prompt_class']}; the number beside it is its "
        "slot in the round, from 0. A slope that all arms share is drift of the machine; a low slot 0 is a cold "
        f"start.{gone}"
    )


def _listed(frame: pd.DataFrame, what: Callable[[Any], str], count: int = 6) -> str:
    rows = [what(row) for row in frame.itertuples()]
    more = f"; and {len(rows) - count} more" if len(rows) > count else ""
    return "; ".join(rows[:count]) + more


def _speedup_alt(frame: pd.DataFrame) -> str:
    own = frame[frame["series"] == figure_data.MEASURED]
    return f"Speed-up by draft length, break-even at 1: {_listed(own, _at_depth)}"


def _cost_alt(frame: pd.DataFrame) -> str:
    own = frame[frame["series"] == figure_data.MEASURED]
    return f"Step cost by draft length against the limit N + 1: {_listed(own, _at_depth)}"


def _depth_alt(frame: pd.DataFrame) -> str:
    return f"Tokens per second by depth: {_listed(frame, _at_depth)}"


def _at_depth(row: Any) -> str:
    return f"{row.arm} at depth {row.depth} {significant(row.value)}"


def _acceptance_alt(frame: pd.DataFrame) -> str:
    said = _listed(frame, lambda r: f"{r.arm} position {r.position} at {r.cell} {percent(r.value)}")
    return f"Acceptance by position: {said}"


def _samples_alt(frame: pd.DataFrame) -> str:
    own = frame[frame["series"] == "tokens/s"]
    span = f"{fixed(own['value'].min(), 2)} to {fixed(own['value'].max(), 2)} tokens/s"
    return f"Decode speed of {len(own)} launches over {fixed(own['minutes'].max(), 0)} minutes, {span}"


_FIGURES: Mapping[str, tuple[str, Any, Any, Any, Any]] = {
    "speedup": (
        "Speed-up by draft length", figure_data.speedups, charts.speedup, _speedup_caption, _speedup_alt,
    ),
    "step_cost": (
        "Step cost by draft length", figure_data.step_costs, charts.step_cost, _cost_caption, _cost_alt,
    ),
    "tokens_by_depth": (
        "Tokens per second by depth", figure_data.tokens_by_depth, charts.tokens_by_depth, _depth_caption, _depth_alt,
    ),
    "acceptance": (
        "Acceptance by position", figure_data.acceptance, charts.acceptance, _acceptance_caption, _acceptance_alt,
    ),
    "samples": (
        "Launches over time", figure_data.samples, charts.samples, _samples_caption, _samples_alt,
    ),
}  # fmt: skip
