"""Text of four classes from seeded grammars: as much as is asked for, the same from the same seed."""

from collections.abc import Iterator

CLASSES = ("natural", "code", "json", "repetitive")


def pieces(text_class: str, seed: str) -> Iterator[str]:
    """Paragraphs without end, never the same twice, except for `repetitive`, which repeats on purpose."""
    raise NotImplementedError
