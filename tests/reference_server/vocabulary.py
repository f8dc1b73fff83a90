"""A small reversible vocabulary: one id per byte, and one per two-syllable word with its leading space."""

import re
from collections.abc import Iterable, Mapping, Sequence

EOS, BOS = 0, 1
FIRST_BYTE = 2
FIRST_WORD = FIRST_BYTE + 256

_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
_WORD_LIST = [f" {first}{second}" for first in _SYLLABLES for second in _SYLLABLES]
_WORD_IDS = {word: FIRST_WORD + index for index, word in enumerate(_WORD_LIST)}
_WORD = re.compile(r" [bdfgklmnprstvz][aeiou][bdfgklmnprstvz][aeiou](?![a-z])")

WORDS = len(_WORD_LIST)
SIZE = FIRST_WORD + WORDS


def encode(text: str) -> list[int]:
    """Token ids of a text. decode(encode(text)) is the text; encode(decode(ids)) is ids for words."""
    ids: list[int] = []
    at = 0
    for match in _WORD.finditer(text):
        ids += (FIRST_BYTE + byte for byte in text[at : match.start()].encode())
        ids.append(_WORD_IDS[match.group()])
        at = match.end()
    ids += (FIRST_BYTE + byte for byte in text[at:].encode())
    return ids


def decode(ids: Sequence[int]) -> str:
    """Text of token ids; BOS, EOS and ids outside the vocabulary have none."""
    out = bytearray()
    for token in ids:
        if FIRST_WORD <= token < SIZE:
            out += _WORD_LIST[token - FIRST_WORD].encode()
        elif FIRST_BYTE <= token < FIRST_WORD:
            out.append(token - FIRST_BYTE)
    return out.decode(errors="replace")


def chat_template(messages: Iterable[Mapping[str, str]]) -> str:
    """The messages as one prompt, ending where the assistant speaks."""
    turns = "".join(f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>\n" for turn in messages)
    return turns + "<|im_start|>assistant\n"
