"""Read the requests and counters of many launches, a batch of files at a time, down to one row per request.

Only the columns that are counted are read, and counters are differenced batch by batch: ten thousand launches never
lie in memory as counters.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from breakeven.analysis.cells import COUNTER_COLUMNS, REQUEST_COLUMNS, per_request
from breakeven.errors import BreakevenError

LAUNCHES_AT_ONCE = 500


def gather(folders: Sequence[Path]) -> pd.DataFrame:
    """Rows of `per_request` for every launch folder (requests.parquet, counters.parquet), in the order given.

    Raises BreakevenError naming a table that is missing or torn, and when a counter went backwards.
    """
    starts = range(0, len(folders), LAUNCHES_AT_ONCE)
    parts = [_batch(folders[start : start + LAUNCHES_AT_ONCE]) for start in starts]
    if not parts:
        return per_request(
            pd.DataFrame(columns=list(REQUEST_COLUMNS)), pd.DataFrame(columns=list(COUNTER_COLUMNS))
        )
    rows: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return rows


def _batch(folders: Sequence[Path]) -> pd.DataFrame:
    requests, counters = (
        pa.concat_tables([_read(folder / name, columns) for folder in folders]).to_pandas(
            strings_to_categorical=True
        )
        for name, columns in (("requests.parquet", REQUEST_COLUMNS), ("counters.parquet", COUNTER_COLUMNS))
    )
    part = per_request(requests, counters)
    plain: pd.DataFrame = part.astype(dict.fromkeys(part.select_dtypes("category").columns, str))
    return plain


def _read(path: Path, columns: Sequence[str]) -> pa.Table:
    try:
        table = pq.ParquetFile(pa.BufferReader(path.read_bytes())).read(
            columns=list(columns), use_threads=False
        )
    except (OSError, pa.ArrowException) as error:
        raise BreakevenError(
            f"{path}: not a table of this version ({error}); measure that arm again"
        ) from error
    if len(table.column_names) < len(columns):
        missing = sorted(set(columns) - set(table.column_names))
        raise BreakevenError(f"{path}: columns {missing} are missing; measure that arm again")
    return table
