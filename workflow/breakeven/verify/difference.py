"""One difference between an arm and its baseline, and what it means for the comparison (Method 6)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

Meaning = Literal[
    "declared",
    "consequence",
    "instrumentation",
    "contamination",
    "unexplained",
    "strict",
    "noise",
    "unverified",
]
BLOCKING = frozenset({"contamination", "unexplained", "strict"})


@dataclass(frozen=True)
class Difference:
    """What stands in the arm and what in the baseline; None is "not there" or "not stated".

    `about` is flag, env, mount, image, binary, model, option or fact. `meaning`: declared (the variable itself),
    consequence (follows from it), instrumentation (exempt), contamination (a second variable), unexplained (in no
    table: blocks as well), strict (a consequence that the experiment forbids), noise (two launches of one arm),
    unverified (one side is not known). `message` is for a person; `why` is its explanation alone.
    """

    about: str
    name: str
    arm: Any
    baseline: Any
    meaning: Meaning
    message: str
    why: str = ""

    @property
    def blocks(self) -> bool:
        """Whether the arms must not be compared because of it."""
        return self.meaning in BLOCKING

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        return asdict(self) | {"blocks": self.blocks}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Difference":
        """Read back what `to_json` gave."""
        return cls(**{field.name: data[field.name] for field in fields(cls)})
