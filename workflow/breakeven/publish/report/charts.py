"""The figures as Altair charts: one definition gives SVG, PNG and the interactive page.

Drawn narrow with large type, so that a figure at half of a page's width, or on a phone, can be read. Colours are Okabe
and Ito's, which people with any colour vision can tell apart; shapes say the same again.
"""

from typing import Any, Literal

import altair as alt
import pandas as pd

from breakeven.publish.report import figure_data as data

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442"]
GREY = "#555555"
WIDTH, HEIGHT, HALF = 380, 270, 175
FONT_SIZE = 17
POINT: dict[str, Any] = {"filled": False, "size": 90, "opacity": 1, "strokeWidth": 2}
"""Hollow: marks of arms that agree lie on each other, and both must show."""
MOST_ROOM = 1.6
"""Room for intervals above the highest point, as a multiple of it."""


def speedup(frame: pd.DataFrame) -> dict[str, Any]:
    """Speed-up by draft length with intervals, ceilings as ticks, break-even as a line at 1."""
    distinct = not frame.groupby("n_spec")["arm"].nunique().gt(1).any()
    axis = alt.Axis(labelAngle=0)
    x = (
        alt.X("n_spec:O", title="draft length N", axis=axis)
        if distinct
        else alt.X("arm:N", title=None, sort=None)
    )
    depth, depth_shape = _told_apart(frame, "depth")
    offset = alt.XOffset("depth:N")
    base = alt.Chart()
    once = base.transform_aggregate(marks="count()")
    measured = base.transform_filter(alt.datum.series == data.MEASURED)
    layers = [
        once.mark_rule(strokeDash=[6, 4], color=GREY, size=1.5).encode(y=alt.datum(1)),
        _label(once, "break-even").encode(x=alt.value(4), y=alt.datum(1)),
        measured.mark_rule(size=2, clip=True).encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), depth, offset),
        measured.mark_point(**POINT).encode(
            x,
            alt.Y("value:Q", title="times the baseline's speed", scale=_room(frame, zero=False)),
            depth,
            offset,
            shape=depth_shape,
            tooltip=_tips("arm", "depth", "prompt_class", "value", "low", "high"),
        ),
        base.transform_filter(alt.datum.series == data.PERFECT)
        .mark_tick(thickness=2, size=14, orient="horizontal")
        .encode(
            x,
            alt.Y("value:Q"),
            depth,
            offset,
            tooltip=_tips("series", "arm", "depth", "value", "low", "high"),
        ),
    ]
    return _finished(alt.layer(*layers), frame, "prompt_class", "speed-up by draft length")


def step_cost(frame: pd.DataFrame) -> dict[str, Any]:
    """Step cost by draft length with its line, and the limit above which no acceptance pays."""
    depth, depth_shape = _told_apart(frame, "depth")
    x = alt.X("drafted:Q", title="tokens drafted in a step", axis=alt.Axis(tickMinStep=1, format="d"))
    y = alt.Y("value:Q", title="step cost C", scale=_room(frame, domainMin=0))
    base = alt.Chart()
    limit = base.transform_filter(alt.datum.series == data.LIMIT).transform_aggregate(
        marks="count()", groupby=["drafted", "value"]
    )
    end = limit.transform_joinaggregate(longest="max(drafted)").transform_filter(
        alt.datum.drafted == alt.datum.longest
    )
    measured = base.transform_filter(alt.datum.series == data.MEASURED)
    layers = [
        limit.mark_line(strokeDash=[6, 4], color=GREY, size=1.5).encode(x, y),
        _label(end, "N + 1", align="right", dx=-4).encode(x, y),
        base.transform_filter(alt.datum.series == data.FIT).mark_line(size=1.5).encode(x, y, depth),
        measured.mark_rule(size=2, clip=True).encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), depth),
        measured.mark_point(**POINT).encode(
            x,
            y,
            depth,
            shape=depth_shape,
            tooltip=_tips("arm", "depth", "prompt_class", "value", "low", "high"),
        ),
    ]
    return _finished(alt.layer(*layers), frame, "prompt_class", "step cost by draft length")


def tokens_by_depth(frame: pd.DataFrame) -> dict[str, Any]:
    """Decode speed over depth, one line an arm."""
    arm, arm_shape = _told_apart(frame, "arm")
    x = alt.X("depth:O", title="depth (tokens)", axis=alt.Axis(labelAngle=0))
    y = alt.Y("value:Q", title="tokens/s", scale=_room(frame, zero=False))
    base = alt.Chart()
    layers = [
        base.mark_line(size=1.5).encode(x, y, arm),
        base.mark_rule(size=2, clip=True).encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), arm),
        base.mark_point(**POINT).encode(
            x,
            y,
            arm,
            shape=arm_shape,
            tooltip=_tips("arm", "depth", "prompt_class", "value", "low", "high"),
        ),
    ]
    return _finished(alt.layer(*layers), frame, "prompt_class", "tokens per second by depth")


def acceptance(frame: pd.DataFrame) -> dict[str, Any]:
    """Share of drafts accepted up to each position, one line an arm."""
    arm, arm_shape = _told_apart(frame, "arm")
    x = alt.X("position:O", title="draft position", axis=alt.Axis(labelAngle=0))
    y = alt.Y("value:Q", title="accepted", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    base = alt.Chart()
    layers = [
        base.mark_line(size=1.5).encode(x, y, arm),
        base.mark_point(**POINT).encode(
            x,
            y,
            arm,
            shape=arm_shape,
            tooltip=[
                *_tips("arm", "cell", "position"),
                alt.Tooltip("value:Q", title="accepted", format=".1%"),
            ],
        ),
    ]
    return _finished(alt.layer(*layers), frame, "cell", "acceptance by position")


def samples(frame: pd.DataFrame) -> dict[str, Any]:
    """Every launch over time with its slot, above temperature and clock where they are known."""
    span = [float(min(frame["minutes"].min(), 0)), float(frame["minutes"].max())]
    x = alt.X(
        "minutes:Q",
        title="minutes since the first launch",
        axis=alt.Axis(tickCount=8),
        scale=alt.Scale(domain=span),
    )
    launches = frame[frame["series"] == "tokens/s"]
    arm, arm_shape = _told_apart(launches, "arm")
    points = alt.Chart(launches[["minutes", "value", "arm", "round", "slot"]])
    y = alt.Y("value:Q", title="tokens/s", scale=alt.Scale(zero=False))
    rows: list[Any] = [
        alt.layer(
            points.mark_point(**POINT).encode(
                x,
                y,
                arm,
                shape=arm_shape,
                tooltip=_tips("arm", "round", "slot", "minutes", "value"),
            ),
            points.mark_text(dx=10, fontSize=FONT_SIZE - 4, color=GREY).encode(x, y, text="slot:N"),
        ).properties(width=WIDTH, height=200)
    ]
    for series in (data.TEMPERATURE, data.CLOCK):
        readings = frame[frame["series"] == series]
        if readings.empty:
            continue
        rows.append(
            alt.Chart(readings[["minutes", "value", "quantity", "round"]])
            .mark_line(size=1.2)
            .encode(
                x,
                alt.Y("value:Q", title=series, scale=alt.Scale(zero=False)),
                alt.Color("quantity:N", title="sensor", scale=alt.Scale(range=COLOURS)),
                detail="round:N",
                tooltip=_tips("quantity", "minutes", "value"),
            )
            .properties(width=WIDTH, height=110)
        )
    chart = alt.vconcat(*rows).resolve_scale(color="independent", shape="independent")
    return _configured(chart, "every launch over time")


def _label(chart: alt.Chart, text: str, align: Literal["left", "right"] = "left", dx: float = 0) -> alt.Chart:
    marked: alt.Chart = chart.mark_text(
        text=text, align=align, dx=dx, dy=-8, color=GREY, fontSize=FONT_SIZE - 2
    )
    return marked


def top(frame: pd.DataFrame) -> float:
    """Upper end of a value axis: an interval that says little must not press everything else flat."""
    return float(max(MOST_ROOM * frame["value"].max(), 1.05))


def _room(frame: pd.DataFrame, **scale: Any) -> alt.Scale:
    wide = frame["high"].astype(float).max() > top(frame)
    return alt.Scale(**scale, domainMax=top(frame)) if wide else alt.Scale(**scale)


def _told_apart(frame: pd.DataFrame, field: str) -> tuple[alt.Color, alt.Shape]:
    """Colour and shape of a field; the domain is written out, as layers would otherwise get a legend for each."""
    domain = list(dict.fromkeys(frame[field].tolist()))
    colour = alt.Color(f"{field}:N", title=field, scale=alt.Scale(domain=domain, range=COLOURS))
    return colour, alt.Shape(f"{field}:N", title=field, scale=alt.Scale(domain=domain))


def _tips(*fields: str) -> list[alt.Tooltip]:
    numbers = ("value", "low", "high", "minutes")
    return [
        alt.Tooltip(f"{name}:Q", format=".4~g")
        if name in numbers
        else alt.Tooltip(f"{name}:N", title=name.replace("_", " "))
        for name in fields
    ]


def _finished(chart: Any, frame: pd.DataFrame, by: str, description: str) -> dict[str, Any]:
    """One panel, or one for each value of `by`, two beside each other."""
    if frame[by].nunique() == 1:
        whole: Any = chart.properties(width=WIDTH, height=HEIGHT, data=frame)
    else:
        whole = chart.properties(width=HALF, height=HALF, data=frame).facet(
            facet=alt.Facet(f"{by}:N", title=None, sort=list(dict.fromkeys(frame[by]))), columns=2
        )
    return _configured(whole, description)


def _configured(chart: Any, description: str) -> dict[str, Any]:
    styled = (
        chart.properties(description=description)
        .configure(background="white", font="DejaVu Sans, Arial, sans-serif", padding=8)
        .configure_axis(
            labelFontSize=FONT_SIZE - 2,
            titleFontSize=FONT_SIZE - 1,
            titleFontWeight="normal",
            gridColor="#e5e5e5",
        )
        .configure_legend(
            labelFontSize=FONT_SIZE - 2,
            titleFontSize=FONT_SIZE - 2,
            orient="bottom",
            columns=3,
            symbolSize=90,
            labelLimit=400,
        )
        .configure_header(labelFontSize=FONT_SIZE - 1)
        .configure_view(stroke="#cccccc")
    )
    spec: dict[str, Any] = styled.to_dict()
    return spec
