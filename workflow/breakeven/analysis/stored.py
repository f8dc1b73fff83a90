"""Dataclasses to JSON and back without loss: what one stage computed is what the next one reads.

`document.plain` is for readers, one way, and drops what JSON cannot say; this is for the next stage.
"""

import json
from collections.abc import Sequence
from typing import Any

import cattrs
import numpy as np

from breakeven.analysis.comparison import CellNumbers

_CONVERTER = cattrs.Converter()
_CONVERTER.register_unstructure_hook(np.ndarray, np.ndarray.tolist)
_CONVERTER.register_structure_hook(np.ndarray, lambda value, _: np.asarray(value, dtype=float))
_CONVERTER.register_unstructure_hook(np.generic, np.generic.item)


def numbers_to_json(numbers: Sequence[CellNumbers]) -> str:
    """Cells with their fits, one JSON list."""
    return json.dumps(_CONVERTER.unstructure(numbers), indent=1)


def numbers_from_json(text: str) -> list[CellNumbers]:
    """Read back what `numbers_to_json` gave."""
    document: Any = json.loads(text)
    return _CONVERTER.structure(document, list[CellNumbers])
