"""`python -m truth_report SECTION OUT.json` measures; `python -m truth_report page OUT.md SECTION.json ...` shows."""

import importlib
import json
import os
import sys
import time
from pathlib import Path

SECTIONS = (
    "recovery",
    "cost",
    "checks",
    "outputs",
    "same",
    "mi210",
    "drift",
    "overhead",
    "embedded",
    "harness",
)


def main(what: str, out: str, *sections: str) -> None:
    """Measure one section, or put the measured ones on a page."""
    module = importlib.import_module(f"truth_report.{what}")
    if what == "page":
        Path(out).write_text(
            module.page({Path(path).stem: json.loads(Path(path).read_text()) for path in sections})
        )
        return
    assert what in SECTIONS, f"{what} is not one of {', '.join(SECTIONS)}"
    began, load = time.monotonic(), os.getloadavg()[0]
    found = module.run()
    found |= {"seconds": time.monotonic() - began, "load": [load, os.getloadavg()[0]]}
    Path(out).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
