"""`python -m breakeven.publish.report EXPERIMENT VERDICT.json OUT.md`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from breakeven.errors import BreakevenError
from breakeven.publish.ledger.files import write_text
from breakeven.publish.report.page import markdown
from breakeven.publish.report.run import read_run


def main(arguments: Sequence[str]) -> int:
    """Write the page; 2 and a message when something cannot be read."""
    if len(arguments) != 3:
        print("usage: python -m breakeven.publish.report EXPERIMENT VERDICT.json OUT.md", file=sys.stderr)
        return 2
    _, verdict, page = arguments
    try:
        run = read_run(Path(verdict))
        write_text(Path(page), markdown(run))
    except BreakevenError as error:
        print(f"breakeven: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
