"""Figures of the report (placeholder type)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One figure: its name is its file's stem, `caption` says what to see, `alt` what a reader without it misses."""

    name: str
    title: str
    caption: str
    alt: str
    folder: str
