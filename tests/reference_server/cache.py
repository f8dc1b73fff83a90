"""Prefix caches: how many prompt tokens a request finds already computed."""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from typing import Protocol


class PrefixCache(Protocol):
    """Remembers sequences and matches prompts against them, in tokens."""

    def match(self, prompt: Sequence[int]) -> int:
        """Tokens at the start of the prompt that need no computing; at least one is always computed."""
        ...

    def store(self, sequence: Sequence[int]) -> None:
        """Remember a prompt and its completion."""
        ...


class NoCache:
    """Prefix caching disabled."""

    def match(self, prompt: Sequence[int]) -> int:
        return 0

    def store(self, sequence: Sequence[int]) -> None:
        pass


class BlockCache:
    """vLLM's: whole blocks, found by the hash of everything up to their end, never evicted."""

    def __init__(self, block: int, *, drop_last: bool) -> None:
        self._block, self._drop_last = block, drop_last
        self._known: set[bytes] = set()

    def match(self, prompt: Sequence[int]) -> int:
        """Whole known blocks, the last one dropped under speculation: the drafter needs its hidden states."""
        blocks = 0
        for key in self._keys(prompt[:-1]):
            if key not in self._known:
                break
            blocks += 1
        return self._block * max(0, blocks - self._drop_last)

    def store(self, sequence: Sequence[int]) -> None:
        self._known.update(self._keys(sequence))

    def _keys(self, sequence: Sequence[int]) -> Iterator[bytes]:
        running = hashlib.sha256()
        for end in range(self._block, len(sequence) + 1, self._block):
            running.update(struct.pack(f"<{self._block}I", *sequence[end - self._block : end]))
            yield running.digest()


class SlotCache:
    """llama.cpp's: what one slot holds from its last request, matched token by token."""

    def __init__(self) -> None:
        self._held: Sequence[int] = ()

    def match(self, prompt: Sequence[int]) -> int:
        limit = min(len(self._held), len(prompt) - 1)
        return next((i for i in range(limit) if self._held[i] != prompt[i]), max(limit, 0))

    def store(self, sequence: Sequence[int]) -> None:
        """The last token of a completion is never computed, so it is not held."""
        self._held = list(sequence[:-1])
