"""A log as a stream of cleaned lines: chunks in, only the lines that hold a watched word out.

Logs come with colours, carriage-return bars, JSON envelopes, container prefixes, cut and wrapped lines. The whole
file is looked at as lower-case words first (one `bytes.translate` per chunk), so that a hundred megabytes of
uninteresting text cost a set lookup per line and no decoding.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

CHUNK_BYTES = 1 << 20
LONGEST_LINE_BYTES = 1 << 18
"""A line longer than this is read in pieces, so that memory stays bounded on any input."""
FOLLOWING_LINES = 24
"""Lines kept after one for a record that goes on: a wrapped line, a list printed one item a line."""
LONGEST_AHEAD = 1 << 16
NARROWEST_WRAP = 40
SHORTEST_WRAPPED = 0.4
"""A wrapped line that is shorter than this share of the first one is the record's last."""
LONGEST_PREFIX = 48
"""A line with a process prefix and nothing else is shorter: bars are printed after such a prefix."""
_PREFIX_ALONE = frozenset({b"pid"})

_WORD_BYTES = b"abcdefghijklmnopqrstuvwxyz0123456789_"
_TO_WORDS = bytes(
    byte if byte in _WORD_BYTES else (byte + 32 if 65 <= byte <= 90 else (10 if byte == 10 else 32))
    for byte in range(256)
)
_COLOUR = rb"\[[0-9;?]*[ -/]*[@-~]"
_ESCAPES = tuple(
    (hint, re.compile(regex))
    for hint, regex in (
        (b"\x1b", rb"\x1b(?:" + _COLOUR + rb"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?)?"),
        *(
            (text, re.escape(text[:-1]) + _COLOUR)
            for text in (b"^[[", b"\\x1b[", b"\\u001b[", b"\\033[", b"#033[", b"\xe2\x90\x9b[")
        ),
        (b"[0m", rb"\[(?:\d{1,3};)*\d{1,3}m"),
        (b"[0;", rb"\[(?:\d{1,3};)*\d{1,3}m"),
    )
)
"""How escapes reach a file: as they are, caret-escaped, escaped by JSON, syslog or a shell, or without the escape."""
_MESSAGE_KEYS = ("msg", "message", "log", "MESSAGE")
_PREFIX = re.compile(r"^[\w.-]+\s+\|\s?")
_PROCESS = re.compile(r"\(([A-Za-z][^()]*?) pid=\d+[^()]*\)")
_SGLANG_RANK = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?((?: [A-Z]{2,4}\d+)+)\]")
_HEAD = re.compile(
    r"\s*$|\s*\(\S+ pid=|\s*\[\w+\.py:\d+\] |"
    r"\W{0,3}(?:INFO|WARN|ERROR|DEBUG|CRITICAL|Traceback)|\W{0,3}\d{4}-\d\d-\d\d|"
    r"\d+\.\d\d\.\d{3}\.\d{3} "
    r"|\{\"|\+ |(?:\w*_\w*|main|load|build): |(?:slot|srv|llama\w*|print_info|load\w*|ggml\w*)\b|[^|]*\d%\|"
)


@dataclass(frozen=True)
class Line:
    """One cleaned line; `number` counts the file's lines from 1.

    `rank` is the innermost process that its prefix names, None without one. `following` are the raw lines after
    it, for a record that a terminal has wrapped.
    """

    number: int
    text: str
    rank: str | None = None
    words: Set[bytes] = frozenset()
    following: tuple[bytes, ...] = ()

    @cached_property
    def unwrapped(self) -> tuple[tuple[str, list[str]], ...]:
        """The text joined with the lines it may have been wrapped into, and those lines; empty when there are none.

        The line has a head, they have none, and all but the last are about as long as the first. A terminal breaks
        between letters, a word wrapper drops the space it breaks at: both are given.
        """
        first = self.text.rstrip()
        if len(first) < NARROWEST_WRAP or not self.following or not _HEAD.match(_bare(first)):
            return ()
        rests: list[str] = []
        for raw in self.following:
            rest = _bare(raw.decode("utf-8", "replace").rstrip("\r"))
            if _HEAD.match(rest):
                break
            rests.append(rest)
            if len(rest) < SHORTEST_WRAPPED * len(first):
                break
        if not rests:
            return ()
        return (self.text + "".join(rests), rests), (" ".join([first, *rests]), rests)


def _bare(text: str) -> str:
    """Return a line without a container's name in front of it."""
    return _PREFIX.sub("", text) if " | " in text[:80] else text


def chunks(source: Path | bytes | Iterable[bytes]) -> Iterator[bytes]:
    """Yield a source piecewise. Raises OSError when a path cannot be read."""
    if isinstance(source, Path):
        with source.open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk
    elif isinstance(source, bytes):
        for start in range(0, len(source), CHUNK_BYTES):
            yield source[start : start + CHUNK_BYTES]
    else:
        yield from source


def read_lines(source: Path | bytes | Iterable[bytes], watched: set[bytes]) -> Iterator[Line]:
    """Yield, cleaned, the lines that hold a watched (lower-case) word. The set may be narrowed while reading."""
    number = 0
    for block, ahead in _with_lines_ahead(_uncoloured(_whole_lines(_utf8(chunks(source))))):
        raw = block.split(b"\n")
        if not raw[-1]:
            raw.pop()
        for index, words in enumerate(block.translate(_TO_WORDS).split(b"\n")):
            found: Set[bytes] = watched.intersection(words.split())
            if not found and len(words) < LONGEST_PREFIX and b" pid " in words:
                found = _PREFIX_ALONE
            if found:
                following = raw[index + 1 : index + 1 + FOLLOWING_LINES]
                following += ahead[: FOLLOWING_LINES - len(following)]
                yield from _clean(number + index + 1, raw[index], found, tuple(following))
        number += block.count(b"\n")


def _uncoloured(blocks: Iterator[bytes]) -> Iterator[bytes]:
    for block in blocks:
        for hint, escape in _ESCAPES:
            if hint in block:
                block = escape.sub(b"", block)
        yield block


def _with_lines_ahead(blocks: Iterator[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    """Pair every block with the first lines of the next one."""
    held: bytes | None = None
    for block in blocks:
        if held is not None:
            yield held, block[:LONGEST_AHEAD].split(b"\n")[:FOLLOWING_LINES]
        held = block
    if held is not None:
        yield held, []


def _clean(number: int, raw: bytes, words: Set[bytes], following: tuple[bytes, ...]) -> Iterator[Line]:
    text = (_last_frames(raw) if b"\r" in raw else raw).decode("utf-8", "replace")
    if text.lstrip().startswith("{"):
        text = _message(text)
    for part in text.splitlines() if "\r" in text or "\n" in text else (text,):
        if part and not part.isspace():
            yield Line(number, part, _rank(part), words, following)


def _last_frames(raw: bytes) -> bytes:
    """Drop the frames of a progress bar that the next frame of the same bar overwrites."""
    parts = raw.split(b"\r")
    labels = [part.partition(b"%|")[0].partition(b":")[0] if b"%|" in part else None for part in parts]
    kept = [
        part
        for part, label, after in zip(parts, labels, [*labels[1:], None], strict=True)
        if not label or label != after
    ]
    return b"\r".join(kept)


def _message(text: str) -> str:
    """Return the message of a JSON-lines record (llama.cpp's msg, Docker's log, ..), the text itself otherwise."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(record, dict):
        return text
    message = next((record[key] for key in _MESSAGE_KEYS if isinstance(record.get(key), str)), text)
    return str(message).encode("utf-8", "replace").decode("utf-8")


def _rank(text: str) -> str | None:
    """Return who says a line: the last `(Name pid=N)` of its prefixes, or SGLang's rank after the time."""
    if "pid=" in text and (names := _PROCESS.findall(text)):
        return str(names[-1])
    found = _SGLANG_RANK.search(text) if "[" in text else None
    return found[1].strip() if found else None


def _utf8(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Pass bytes on, and turn UTF-16 with a byte-order mark (a Windows shell's redirect) into UTF-8."""
    decoder = None
    for count, piece in enumerate(pieces):
        marked = not count and piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if marked and b"\0" in piece[:64]:
            decoder = codecs.getincrementaldecoder("utf-16")("replace")
        yield decoder.decode(piece).encode("utf-8", "replace") if decoder else piece


def _whole_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield blocks that end with a line end; the last one may end anywhere."""
    held = b""
    for piece in pieces:
        held += piece
        cut = held.rfind(b"\n") + 1
        if cut:
            yield held[:cut]
            held = held[cut:]
        elif len(held) > LONGEST_LINE_BYTES:
            yield held + b"\n"
            held = b""
    if held:
        yield held
