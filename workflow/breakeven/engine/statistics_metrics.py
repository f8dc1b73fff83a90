"""Samples of a metrics page: summed over engines, differenced over scrapes, dates left out."""

from collections.abc import Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from breakeven.engine.patterns import convert
from breakeven.engine.patterns.metrics import COUNTERS, GAUGES, INFO_LABELS

MOST_SERIES = 10_000


class Metrics:
    """The samples of one engine's metric pages in one text; several scrapes follow each other."""

    def __init__(self, engine: str) -> None:
        self.counters, self.gauges = COUNTERS[engine], GAUGES[engine]
        self.first: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self.last: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self.lines: dict[str, int] = {}
        self.labels: dict[str, str] = {}
        self.ignored_created = 0

    def take(self, text: str, number: int) -> None:
        """Read one sample line; a line that is none is ignored."""
        try:
            samples = [s for family in text_string_to_metric_families(text + "\n") for s in family.samples]
        except (ValueError, IndexError, KeyError):
            return
        for name, labels, value, *_ in samples:
            if name.endswith("_created"):
                self.ignored_created += 1
            elif name in INFO_LABELS:
                self.labels |= {
                    fact: labels[label] for label, fact in INFO_LABELS[name].items() if label in labels
                }
            elif (name in self.counters or name in self.gauges) and len(self.last) < MOST_SERIES:
                key = (name, tuple(sorted(labels.items())))
                self.first.setdefault(key, value)
                self.last[key] = value
                self.lines.setdefault(name, number)

    def facts(self) -> dict[str, Any]:
        """Return each counter's last value summed over its series, gauges, and what follows from them."""
        values: dict[str, Any] = {fact: convert(fact, text) for fact, text in self.labels.items()}
        for name, fact in self.counters.items():
            values |= {fact: total} if (total := _sum(self.last, name)) is not None else {}
        positions = _positions(self.last, self.counters)
        values.pop("accepted_per_pos", None)
        for name, fact in self.gauges.items():
            series = [value for (key, _), value in self.last.items() if key == name]
            values |= {fact: _whole(series[0])} if len(set(series)) == 1 else {}
        drafts, drafted = values.get("num_drafts"), values.get("drafted")
        if drafts and drafted and drafted % drafts == 0:
            values["k"] = drafted // drafts
        if positions and drafts:
            values["per_position"] = [round(count / drafts, 5) for count in positions]
        if drafted and "accepted" in values:
            values["acceptance"] = round(values["accepted"] / drafted, 5)
        if self.ignored_created:
            values["ignored_created"] = self.ignored_created
        return values

    def delta(self) -> Mapping[str, float | None]:
        """Return last minus first scrape per counter; None where a counter went back (the server restarted)."""
        if self.first == self.last:
            return {}
        found: dict[str, float | None] = {}
        for name, fact in self.counters.items():
            before, after = _sum(self.first, name), _sum(self.last, name)
            if before is not None and after is not None:
                found[fact] = after - before if after >= before else None
        return found


def _sum(series: Mapping[tuple[str, Any], float], name: str) -> Any:
    values = [value for (key, _), value in series.items() if key == name]
    return _whole(sum(values)) if values else None


def _positions(series: Mapping[tuple[str, Any], float], counters: Mapping[str, str]) -> list[float]:
    found: dict[int, float] = {}
    for (name, labels), value in series.items():
        position = dict(labels).get("position", "")
        if counters.get(name) == "accepted_per_pos" and position.isdecimal() and len(position) < 4:
            found[int(position)] = found.get(int(position), 0.0) + value
    return [found[index] for index in sorted(found)] if sorted(found) == list(range(len(found))) else []


def _whole(value: float) -> Any:
    return int(value) if abs(value) < 1e18 and value == int(value) else (value if value == value else None)
