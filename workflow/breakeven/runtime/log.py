"""The tail of a server's log file, for messages that quote it."""

from pathlib import Path

_BLOCK_BYTES = 64 * 1024


def last_lines(path: Path, count: int = 15) -> tuple[str, ...]:
    """Up to `count` last non-empty lines within the last 64 KiB of a log; empty when there is none.

    Bytes that are not UTF-8 are replaced; of a progress bar redrawn with carriage returns the last state
    stays.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _BLOCK_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ()
    lines = [line.rstrip("\r").rsplit("\r", 1)[-1].rstrip() for line in text.split("\n")]
    return tuple(line for line in lines if line)[-count:]
