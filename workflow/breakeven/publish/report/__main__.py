"""`python -m breakeven.publish.report EXPERIMENT VERDICT.json OUT.md OUT.html FIGURES`: the entry point of the rule."""

import sys
from collections.abc import Sequence
from pathlib import Path

from breakeven.errors import BreakevenError
from breakeven.files import write_text
from breakeven.publish.report import html
from breakeven.publish.report.figures import figures, write
from breakeven.publish.report.page import markdown
from breakeven.publish.report.prior import earlier
from breakeven.publish.report.run import read_run


def publish(verdict: Path, page: Path, web_page: Path, folder: Path) -> None:
    """Write Markdown, HTML and figures of the run that a verdict belongs to.

    Figures stand in `figures/<experiment>` beside the page, as its links say. Raises BreakevenError naming the file
    that cannot be read.
    """
    run = read_run(verdict)
    drawn, missing = figures(run)
    text = markdown(run, drawn, missing, earlier(run))
    folder.mkdir(parents=True, exist_ok=True)
    for figure in drawn:
        write(figure, folder)
    write_text(web_page, html.page(text, drawn))
    write_text(page, text)


def main(arguments: Sequence[str]) -> int:
    """Publish; 2 and a message when something cannot be read."""
    if len(arguments) != 5:
        usage = "usage: python -m breakeven.publish.report EXPERIMENT VERDICT.json OUT.md OUT.html FIGURES"
        print(usage, file=sys.stderr)
        return 2
    try:
        publish(*map(Path, arguments[1:]))
    except BreakevenError as error:
        print(f"breakeven: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
