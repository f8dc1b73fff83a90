"""The structure table as a page of its own: what differs between the arms, from startup alone.

`python -m breakeven.publish.structure results/EXPERIMENT OUT.md` reads each arm's verify.json and bring_up.json; no
launch has to be measured for it.
"""

import sys
from pathlib import Path
from typing import Any

from breakeven.files import read_json, write_text
from breakeven.publish.escape import environment
from breakeven.verify.structure import from_verified


def page(folder: Path) -> str:
    """Markdown of the page for one experiment's results."""
    experiment = read_json(folder / "experiment.json")
    arms = list(experiment["arms"])
    verified, brought_up = (_documents(folder, arms, name) for name in ("verify", "bring_up"))
    structure = from_verified(verified, brought_up, experiment["baseline"])
    title = f"What differs between the arms of {experiment['name']}"
    return environment().get_template("structure.md.j2").render(structure=structure, title=title)


def _documents(folder: Path, arms: list[str], name: str) -> dict[str, dict[str, Any]]:
    return {arm: read_json(folder / arm / f"{name}.json") for arm in arms}


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    write_text(target, page(source))
