"""Dataclasses, frames' numbers and arrays as JSON's own types; what JSON cannot hold is null."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd


def plain(value: Any) -> Any:
    """Dicts, lists, numbers, text, booleans and None; NaN, inf and NA are None, keys that are not text dropped."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items() if isinstance(key, str)}
    if isinstance(value, (tuple, list, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return None if value is None or value is pd.NA else str(value)
