"""Untrusted text (log lines, model names, notes) made harmless for Markdown and for HTML.

Whatever the text holds, it renders as text: no markup, link, image, autolink, table cell, fence or HTML.
Backslashes settle what CommonMark and tables read. Some renderers look for addresses, @names, #numbers and
:emoji: in the rendered text, where a backslash is gone; those are broken with an invisible word joiner
(U+2060). What a reader copies (paths, digests, commands) belongs in a code span, which needs no joiner.

`environment()` is secure by default: a template's `{{ value }}` is escaped unless it is a `Markdown` already.
"""

import html
import re
from typing import Any

import jinja2

JOINER = "\u2060"

_CONTROL_PICTURES = {code: 0x2400 + code for code in range(32)} | {127: 0x2421}
_REPLACED = re.compile(
    "[\ud800-\udfff\x80-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]"  # surrogates, C1, direction
)
_SPACE = re.compile(r"[\s\x1c-\x1f\u200b\u2028\u2029]+")
_ALWAYS = re.compile(r"[\\`*\[\]|~$&{}]|<(?=[A-Za-z/!?]|\Z)|(?<![^\W_])_|_(?![^\W_])|//")
_AT_START = re.compile(r"\A(\d{1,9}(?=[.)](?:\s|\Z))|(?=[#+\-=>:]))")
_NO_HOST = "cpp|csv|gguf|json|log|parquet|safetensors|txt|yaml"
"""Endings of names in this field that are no top-level domain: their dot makes no address and stays readable."""
_HOST_DOT = re.compile(rf"(?<=[^\W_])\.(?=[^\W\d_]{{2}})(?!(?:{_NO_HOST})(?![\w.:/@-]))")
_JOINED = re.compile(
    r"(?<=:)(?=\\/)"  # scheme://
    r"|(?<=www)(?=\\?\.)"
    r"|(?<=@)(?=\w)"
    r"|(?<=#)(?=\d)"
    r"|(?<=GH-)(?=\d)"
    r"|(?<=:)(?=(?:100|1234|[\w+-]*[a-z][\w+-]*):)"  # :emoji:
    r"|(?<=mailto:)|(?<=xmpp:)",
    re.IGNORECASE,
)


class Markdown(str):
    """Text that is Markdown already and is not escaped again by `environment()`."""

    __slots__ = ()


def printable(text: str) -> str:
    """Text with control characters made visible (ESC is ␛), direction marks and surrogates replaced."""
    return _REPLACED.sub("\ufffd", text).translate(_CONTROL_PICTURES)


def one_line(text: str) -> str:
    """Printable text on one line, every run of white space one blank."""
    return printable(_SPACE.sub(" ", text).strip())


def markdown_text(text: str) -> Markdown:
    """One line of Markdown that renders as exactly this text in a paragraph, list, heading or table cell."""
    line = _ALWAYS.sub(lambda match: "".join(f"\\{mark}" for mark in match[0]), one_line(text))
    line = _HOST_DOT.sub(r"\\.", line)
    if line.endswith(("!", "#")):  # before a link of the template, or as the end mark of its heading
        line = f"{line[:-1]}\\{line[-1]}"
    line = _AT_START.sub(r"\1\\", line, count=1)
    return Markdown(_JOINED.sub(JOINER, line))


def markdown_code(text: str, *, in_table: bool = False) -> Markdown:
    """A code span with this text on one line; `in_table` where a pipe would end the cell."""
    line = one_line(text)
    if not line:
        return Markdown("")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    if in_table:
        line = line.replace("|", "\\|")
    return Markdown(f"{fence}{pad}{line}{pad}{fence}")


def markdown_block(text: str) -> Markdown:
    """A fenced code block with these lines, tabs as blanks; it stands at the margin, between empty lines."""
    lines = [printable(line) for line in text.expandtabs(4).splitlines()]
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markdown("\n".join([f"{fence}text", *lines, fence]))


def html_text(text: str) -> str:
    """Text for HTML content and for quoted attributes."""
    kept = "\n".join(printable(line) for line in text.expandtabs(4).splitlines())
    return html.escape(kept, quote=True)


def _finalize(value: Any) -> str:
    if value is None:
        return "unknown"
    return value if isinstance(value, Markdown) else markdown_text(str(value))


def environment() -> jinja2.Environment:
    """Jinja for Markdown: every value is escaped, None reads "unknown", a missing name is an error.

    Filters: `code` and `cell_code` (code span, outside and inside a table), `block` (fenced block).
    """
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("breakeven", "templates"),
        finalize=_finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # of HTML: `finalize` escapes for Markdown
    )
    made.filters["code"] = markdown_code
    made.filters["cell_code"] = lambda text: markdown_code(text, in_table=True)
    made.filters["block"] = markdown_block
    return made
