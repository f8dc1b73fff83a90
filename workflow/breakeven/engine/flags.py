"""Flags from an experiment's `args`."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def command_line(args: Mapping[str, Any]) -> Iterator[str]:
    """`{"ctx-size": 4096, "metrics": True}` -> `--ctx-size 4096 --metrics`, in the order given.

    true is the flag alone, false and null leave it out, a list repeats it, an object is JSON.
    """
    for name, value in args.items():
        flag = f"--{name}"
        match value:
            case None | False:
                pass
            case True:
                yield flag
            case list():
                for item in value:
                    yield from (flag, _text(item))
            case _:
                yield from (flag, _text(value))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True) if isinstance(value, (dict, list)) else str(value)
