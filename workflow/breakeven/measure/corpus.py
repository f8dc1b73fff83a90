"""Text of four classes, as much as is asked for, the same from the same seed, from the grammars in `texts/`.

A grammar maps a symbol to its alternatives. `$symbol` stands for one of them, `$symbol#1` for the same one in
all of a piece (`#1` and `#2` differ), `$[2-40]` for a whole number in that range. A piece begins at `start`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import count
from random import Random

import yaml

CLASSES = ("natural", "code", "json", "repetitive")
REFERENCE = re.compile(r"\$(?:\[(?P<low>\d+)-(?P<high>\d+)\]|(?P<symbol>[a-z_]+\d?)(?P<mark>#\d)?)")

Grammar = Mapping[str, Sequence[str]]


def pieces(text_class: str, seed: str) -> Iterator[str]:
    """Paragraphs, functions or documents of one of CLASSES, without end; `repetitive` repeats one paragraph."""
    if text_class == "repetitive":
        paragraph = next(pieces("natural", f"{seed}/repetitive"))
        yield from (f"Copy {number}.\n{paragraph}" for number in count(1))
    else:
        grammar, random = _grammar(text_class), Random(f"{text_class}/{seed}")
        while True:
            yield _piece(grammar, random).rstrip() + "\n\n"


@cache
def _grammar(text_class: str) -> Grammar:
    text = files("breakeven.measure").joinpath("texts", f"{text_class}.yaml").read_text(encoding="utf-8")
    grammar: Grammar = yaml.safe_load(text)
    return grammar


def _piece(grammar: Grammar, random: Random) -> str:
    marked: dict[str, dict[str, str]] = {}

    def draw(symbol: str) -> str:
        alternatives = grammar[symbol]
        # Random.random is the one method whose sequence Python promises to keep for a seed.
        return REFERENCE.sub(fill, alternatives[int(random.random() * len(alternatives))])

    def fill(reference: re.Match[str]) -> str:
        symbol, mark = reference["symbol"], reference["mark"]
        if symbol is None:
            low, high = int(reference["low"]), int(reference["high"])
            return str(low + int(random.random() * (high - low + 1)))
        if mark is None:
            return draw(symbol)
        words = marked.setdefault(symbol, {})
        while mark not in words:
            if (word := draw(symbol)) not in words.values():
                words[mark] = word
        return words[mark]

    return draw("start")
