"""Nothing in a log, a name or a note becomes markup. Oracles: markdown-it-py and GitHub's cmark-gfm."""

from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from breakeven.publish import escape

cmarkgfm = pytest.importorskip("cmarkgfm")
pytest.importorskip("linkify_it")

PLAIN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
LINKING = MarkdownIt("commonmark", {"linkify": True}).enable(["table", "strikethrough", "linkify"])
RENDERERS = {
    "commonmark": PLAIN.render,
    "linkify": LINKING.render,
    "github": cmarkgfm.github_flavored_markdown_to_html,
}

HOSTILE = r"""
\ ` `` ``` ~~~ * ** _ __ [ ] ( ) ![ ]( <b> </td> <!-- --> <script> & &lt; &#35; # ## + - --- :-- === > 1. 2)
| |---| || $x$ ! !! : :tada: :100: @ @user a@b.co http:// https://a.b//c ftp://h www.a.com a.com //localhost
mailto:a@b.c xmpp: #12 GH-1 [^1] [x] [a]: é 漢 😀 0.84 1e-3 word q4_0 spec_decode
"""
BLANKS = ["\n", "\r\n", "\t", "\x00", "\x1b[31m", "\u202e", "\u2028", "\u00a0"]
TABLE = ["table", "thead", "tr", "th", "th", "tr"]
UNTRUSTED = st.lists(
    st.one_of(st.sampled_from(HOSTILE.split() + BLANKS), st.text(max_size=3), st.just(" ")), max_size=12
).map("".join)


class Elements(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)

    def handle_comment(self, data):
        self.names.append("comment")

    def handle_decl(self, decl):
        self.names.append("declaration")

    def handle_data(self, data):
        self.text += data


def shown(text: str) -> str:
    """What a reader sees of a text, joiners and trailing line ends aside."""
    return text.replace(escape.JOINER, "").strip("\n")


@pytest.mark.parametrize("renderer", RENDERERS)
class TestRenderedTextIsTheTextAndNothingElse:
    @settings(max_examples=150, deadline=None)
    @given(text=UNTRUSTED)
    @example(text="\\__x a__-")
    @example(text="see http://evil.example/a_b?q=1&copy=2 or mail root@evil.example")
    @example(text="![x](http://a.b/c.png)<img src=x onerror=alert(1)>")
    def test_in_a_paragraph(self, renderer, text):
        page = Elements(RENDERERS[renderer](f"before {escape.markdown_text(text)}[x](y) after"))
        assert page.names == ["p", "a"]
        assert shown(page.text) == shown(f"before {escape.one_line(text)}x after")

    @settings(max_examples=150, deadline=None)
    @given(text=UNTRUSTED)
    @example(text="1. a")
    @example(text="===")
    @example(text=":-")
    @example(text="# title")
    def test_at_the_start_of_a_line_after_another(self, renderer, text):
        page = Elements(RENDERERS[renderer](f"title\n{escape.markdown_text(text)}"))
        assert page.names == ["p"]
        assert shown(page.text) == shown(f"title\n{escape.one_line(text)}")

    @settings(max_examples=150, deadline=None)
    @given(text=UNTRUSTED)
    @example(text="a\\|b||c")
    def test_in_a_table_cell(self, renderer, text):
        cell = escape.markdown_text(text)
        page = Elements(RENDERERS[renderer](f"| a | b |\n|---|---|\n| {cell} | end |\n"))
        assert [name for name in page.names if name != "tbody"] == [*TABLE, "td", "td"]
        assert "".join(shown(page.text).split()) == "".join(f"ab{shown(escape.one_line(text))}end".split())

    @settings(max_examples=150, deadline=None)
    @given(text=UNTRUSTED.filter(lambda text: escape.one_line(text)))
    def test_in_a_code_span_outside_and_inside_a_table(self, renderer, text):
        page = Elements(RENDERERS[renderer](f"x {escape.markdown_code(text)}"))
        assert page.names == ["p", "code"]
        assert page.text.rstrip("\n") == f"x {escape.one_line(text)}"
        cell = escape.markdown_code(text, in_table=True)
        page = Elements(RENDERERS[renderer](f"| a | b |\n|---|---|\n| {cell} | end |\n"))
        assert [name for name in page.names if name != "tbody"] == [*TABLE, "td", "code", "td"]

    @settings(max_examples=150, deadline=None)
    @given(text=UNTRUSTED)
    def test_in_a_block(self, renderer, text):
        page = Elements(RENDERERS[renderer](f"x\n\n{escape.markdown_block(text)}\n\ny"))
        assert page.names == ["p", "pre", "code", "p"]


@settings(max_examples=150, deadline=None)
@given(text=UNTRUSTED)
def test_html_text_has_no_element_in_content_or_attribute(text):
    page = Elements(f'<p title="{escape.html_text(text)}">{escape.html_text(text)}</p>')
    assert page.names == ["p"]


def test_a_template_escapes_what_it_is_given_and_leaves_its_own_markup():
    template = escape.environment().from_string("**{{ name }}** {{ name | code }} {{ missing_value }}")
    assert template.render(name="a*b", missing_value=None) == "**a\\*b** `a*b` unknown"


def test_ordinary_words_and_numbers_stay_readable_in_the_source():
    assert escape.markdown_text("q4_0 at 36.13 t/s (83 %), b = 1.16") == "q4_0 at 36.13 t/s (83 %), b = 1.16"


def test_control_characters_of_a_log_line_are_visible():
    assert escape.printable("\x1b[31mred\u202e") == "␛[31mred\ufffd"
