"""The report as one HTML file that needs nothing else: the Markdown page, with its figures interactive.

The text is rendered from the Markdown, so both say the same; raw HTML in it stays text. The figures' library comes out
of vl-convert, and the page forbids itself every connection.
"""

import base64
import html
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import jinja2
import vl_convert
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

from breakeven.publish.report.figures import Figure

TEMPLATE = "report.html.j2"
MENU_LEVEL = "h2"


def page(markdown: str, figures: Sequence[Figure]) -> str:
    """The page. A picture whose link is a figure's becomes the interactive figure."""
    by_link = {str(figure.link): figure for figure in figures}
    renderer = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = renderer.parse(markdown)
    menu = _anchors(tokens)
    _regions(tokens)
    renderer.add_render_rule("image", _image(by_link))
    body = renderer.renderer.render(tokens, renderer.options, {})
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("breakeven", "templates"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
    )
    made: str = environment.get_template(TEMPLATE).render(
        title=_text(tokens[1]) if len(tokens) > 1 else "Report",
        menu=menu,
        body=Markup(body),
        library=Markup(_script(_library())) if figures else None,
        specs=Markup(_json({figure.name: _bare(figure.spec) for figure in figures})),
    )
    return made


def _anchors(tokens: Sequence[Token]) -> list[tuple[str, str]]:
    """Give every heading an id; (id, text) of those that the menu lists."""
    menu: list[tuple[str, str]] = []
    taken: set[str] = set()
    for opening, inline in pairwise(tokens):
        if opening.type != "heading_open":
            continue
        text = _text(inline)
        stem = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"
        name = next(
            name for n in range(len(tokens)) if (name := stem if not n else f"{stem}-{n}") not in taken
        )
        taken.add(name)
        opening.attrSet("id", name)
        if opening.tag == MENU_LEVEL:
            menu.append((name, text))
    return menu


def _text(inline: Token) -> str:
    return "".join(child.content for child in inline.children or ())


def _regions(tokens: list[Token]) -> None:
    """Put every table and block into a region that a keyboard can reach and scroll; in place."""
    heading = "report"
    made: list[Token] = []
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = _text(tokens[index + 1])
        if token.type == "table_open":
            label = html.escape(f"Table: {heading}", quote=True)
            opening = f'<div class="wide" role="region" tabindex="0" aria-label="{label}">\n'
            made.append(Token("html_block", "", 0, content=opening, block=True))
        made.append(token)
        if token.type == "table_close":
            made.append(Token("html_block", "", 0, content="</div>\n", block=True))
        if token.type == "fence":
            token.attrSet("tabindex", "0")
    tokens[:] = made


def _image(by_link: Mapping[str, Figure]) -> Any:
    """Render rule of images: a figure's place in the page, with its picture for readers without scripts."""

    def rule(self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        token = tokens[index]
        figure = by_link.get(str(token.attrGet("src")))
        alt = html.escape(self.renderInlineAsText(token.children, options, env), quote=True)
        if figure is None:
            return f"<em>{alt}</em>"
        picture = base64.b64encode(figure.svg.encode()).decode()
        return (
            f'<span class="figure" role="figure" tabindex="0" aria-label="{alt}" id="figure-{figure.name}" '
            f'data-figure="{figure.name}"><img alt="{alt}" src="data:image/svg+xml;base64,{picture}"></span>'
        )

    return rule


def _bare(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification without the address of its schema, which nothing reads here."""
    return {key: value for key, value in spec.items() if key != "$schema"}


def _json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return (
        json.dumps(value, allow_nan=False, default=str).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    )


def _script(text: str) -> str:
    return re.sub(r"</(?=script)", r"<\\/", text, flags=re.IGNORECASE)


@cache
def _library() -> str:
    library: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub lacks the default
    return library
