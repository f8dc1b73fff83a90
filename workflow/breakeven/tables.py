"""The Parquet tables between the stages: one schema each, checked on write, renamed into place when whole.

Every field's metadata says what it is (`what`), its unit (`unit`) and where the value comes from (`source`).
A value that is not known is null, never 0. pandas takes half a second to import, which a launch need not wait for:
it is imported where a frame is read.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from breakeven.errors import BreakevenError
from breakeven.files import whole

if TYPE_CHECKING:
    import pandas as pd

INT, FLOAT, TEXT, BOOL = pa.int64(), pa.float64(), pa.string(), pa.bool_()


def _field(
    name: str, kind: pa.DataType, what: str, *, unit: str = "", source: str = "", null: bool = True
) -> pa.Field:
    return pa.field(name, kind, nullable=null, metadata={"what": what, "unit": unit, "source": source})


def _key(name: str, kind: pa.DataType, what: str) -> pa.Field:
    return _field(name, kind, what, source="experiment", null=False)


COMPRESSION = "snappy"
"""A launch's tables are small: zstd makes them 5 to 15 % smaller and takes twice as long to read."""

OK = "ok"
"""Status of a request or launch that may be analysed."""

ENGINES = "engines"
"""Row of the counters table that is a number and not a count: engines whose series were summed."""

LAUNCH_KEYS = [
    _key("experiment", TEXT, "name of the experiment file"),
    _key("arm", TEXT, "arm of the experiment"),
    _key("round", INT, "round, from 1; one fresh launch of every arm"),
    _key("slot", INT, "position of the launch inside its round, from 0"),
]
REQUEST_KEYS = [
    *LAUNCH_KEYS,
    _key("depth", INT, "tokens of context that are cached before the request"),
    _key("prompt_class", TEXT, "class of the prompt's text"),
    _key("prompt", INT, "prompt inside its class, from 0"),
    _key("rep", INT, "repetition, from 0"),
    _key("seq", INT, "order of the request inside its launch, from 0; joins requests, events and counters"),
    _key("kind", TEXT, "warmup, depth (fills the cache), pp (one token) or tg (decode)"),
]

REQUESTS = pa.schema(
    [
        *REQUEST_KEYS,
        _field("status", TEXT, "ok, or error with the reason in `error`", source="client", null=False),
        _field("error", TEXT, "why the request failed", source="client"),
        _field(
            "started_at", FLOAT, "wall clock at the request", unit="s since 1970", source="client", null=False
        ),
        _field(
            "asked_tokens", INT, "completion tokens asked for", unit="tokens", source="workload", null=False
        ),
        _field(
            "planned_new_tokens",
            INT,
            "prompt tokens that should not be cached",
            unit="tokens",
            source="workload",
        ),
        _field("prompt_tokens", INT, "all prompt tokens", unit="tokens", source="server"),
        _field(
            "cached_tokens", INT, "prompt tokens taken from a prefix cache", unit="tokens", source="server"
        ),
        _field(
            "computed_tokens", INT, "prompt tokens computed for this request", unit="tokens", source="server"
        ),
        _field(
            "completion_tokens",
            INT,
            "completion tokens by the server's own count",
            unit="tokens",
            source="server",
        ),
        _field("id_tokens", INT, "completion tokens by token ids received", unit="tokens", source="client"),
        _field(
            "first_event_tokens",
            INT,
            "tokens that arrived with the first: their time is not in the decode window",
            unit="tokens",
            source="client",
        ),
        _field("token_events", INT, "events that carried at least one token", unit="events", source="client"),
        _field(
            "bursts",
            INT,
            "groups of token events that arrived together: steps as a client sees them",
            source="client",
        ),
        _field("ttft_s", FLOAT, "request sent to first token", unit="s", source="client"),
        _field(
            "decode_s",
            FLOAT,
            "first token event to last burst; null where tokens were held back with the first and steps may be cut",
            unit="s",
            source="client",
        ),
        _field(
            "first_half_s",
            FLOAT,
            "decode time of the first half of the decode tokens",
            unit="s",
            source="client",
        ),
        _field(
            "server_prompt_s",
            FLOAT,
            "prefill time by the server's own clock",
            unit="s",
            source="server timings",
        ),
        _field(
            "server_decode_s",
            FLOAT,
            "decode time by the server's own clock",
            unit="s",
            source="server timings",
        ),
        _field(
            "draft_tokens",
            INT,
            "M of this request: draft tokens submitted",
            unit="tokens",
            source="server timings",
        ),
        _field(
            "accepted_tokens",
            INT,
            "A of this request: draft tokens accepted",
            unit="tokens",
            source="server timings",
        ),
        _field("stop", TEXT, "why generation ended: limit, eos, ...", source="server"),
        _field("prompt_sha256", TEXT, "hash of the prompt's token ids", source="workload", null=False),
        _field("output_sha256", TEXT, "hash of the completion's token ids", source="client"),
        _field("output_ids", pa.list_(pa.int32()), "token ids of the completion", source="client"),
    ]
)
EVENTS = pa.schema(
    [
        *LAUNCH_KEYS,
        _key("seq", INT, "request inside the launch"),
        _field("event", INT, "order of the event inside its request, from 0", source="client", null=False),
        _field(
            "arrived_s",
            FLOAT,
            "arrival, counted from sending the request",
            unit="s",
            source="client",
            null=False,
        ),
        _field(
            "kind",
            TEXT,
            "token, empty, role, reasoning, usage, keepalive or final",
            source="client",
            null=False,
        ),
        _field("tokens", INT, "token ids in this event", unit="tokens", source="client", null=False),
        _field(
            "running_tokens",
            INT,
            "the server's running count of completion tokens",
            unit="tokens",
            source="server",
        ),
    ]
)
COUNTERS = pa.schema(
    [
        *LAUNCH_KEYS,
        _key("seq", INT, "request inside the launch"),
        _field(
            "counter",
            TEXT,
            "drafts, draft_tokens, accepted_tokens, accepted_per_pos, prompt_tokens, computed_tokens, "
            "cached_tokens, completion_tokens, requests; sums of seconds: server_prompt_s, server_decode_s; "
            "engines: a number, not a count",
            source="engine's metric names",
            null=False,
        ),
        _field("position", INT, "draft position, from 0", source="metric label"),
        _field(
            "before", FLOAT, "value before the request, summed over engines", source="/metrics", null=False
        ),
        _field("after", FLOAT, "value after the request, summed over engines", source="/metrics", null=False),
    ]
)
TELEMETRY = pa.schema(
    [
        *LAUNCH_KEYS,
        _field("at", FLOAT, "wall clock", unit="s since 1970", source="client", null=False),
        _field("device", TEXT, "cpu, or the accelerator's PCI address", source="system", null=False),
        _field(
            "quantity",
            TEXT,
            "name with its unit, such as gpu_clock_mhz or load_1m",
            source="system",
            null=False,
        ),
        _field("value", FLOAT, "reading", source="system", null=False),
        _field("source", TEXT, "sysfs, amdsmi, nvml or psutil", source="system", null=False),
    ]
)
PLACE_KEYS = [
    _key("experiment", TEXT, "name of the experiment file"),
    _key("arm", TEXT, "arm whose output differs from the baseline's; the baseline: from its own first one"),
    _key("round", INT, "round of the baseline's request"),
    _key("depth", INT, "depth of the prompt"),
    _key("prompt_class", TEXT, "prompt class"),
    _key("prompt_sha256", TEXT, "hash of the prompt's token ids"),
    _key("token", INT, "place of the first difference, completion tokens from 0"),
    _field("baseline_id", INT, "token of the baseline there; null: its output ended", source="requests"),
    _field("arm_id", INT, "token of the arm there; null: its output ended", source="requests"),
]
DIFFERENCES = pa.schema(
    [
        *PLACE_KEYS,
        _field("seq", INT, "the baseline's request inside its launch", source="requests", null=False),
        _field("baseline_ids", pa.list_(INT), "token ids of the baseline's output", source="requests"),
    ]
)
MARGINS = pa.schema(
    [
        *PLACE_KEYS,
        _field(
            "margin",
            FLOAT,
            "log probability of the baseline's best token there less that of the arm's; where that is not among those "
            "that the server names, less that of the last named: at least so much",
            unit="nats",
            source="server logprobs",
        ),
        _field("reason", TEXT, "why the margin is not known"),
    ]
)
CHECKS = pa.schema(
    [
        _key("experiment", TEXT, "name of the experiment file"),
        _key("arm", TEXT, "arm of the experiment"),
        _field("round", INT, "round, null when the check spans rounds"),
        _field("depth", INT, "depth, null when the check spans depths"),
        _field("prompt_class", TEXT, "prompt class, null when the check spans classes"),
        _field("check", TEXT, "name of the check", source="analysis/checks", null=False),
        _field("severity", TEXT, "block (the cell is invalid) or warn", null=False),
        _field("passed", BOOL, "null: could not be decided, the reason says why"),
        _field("value", FLOAT, "figure found"),
        _field("allowed", TEXT, "what is allowed", null=False),
        _field("reason", TEXT, "in words, for a person", null=False),
    ]
)


def write(
    rows: "Sequence[Mapping[str, Any]] | pd.DataFrame | pa.Table", path: Path, schema: pa.Schema
) -> None:
    """Write rows under a temporary name and rename: a half-written file never has the final name.

    Raises BreakevenError naming the file and the field when a row does not fit the schema.
    """
    try:
        if isinstance(rows, pa.Table):
            table = rows.cast(schema)
        elif isinstance(rows, Sequence):
            table = pa.Table.from_pylist(list(rows), schema=schema)
        else:
            table = pa.Table.from_pandas(rows, schema=schema, preserve_index=False)
        table.validate(full=True)
        for field in schema:
            if not field.nullable and table[field.name].null_count:
                raise pa.ArrowInvalid(
                    f"field {field.name} has {table[field.name].null_count} nulls, none is allowed"
                )
    except (pa.ArrowException, KeyError, ValueError, TypeError) as error:
        raise BreakevenError(f"{path}: rows do not fit the table's schema: {error}") from error
    with whole(path) as part:
        pq.write_table(table, part, compression=COMPRESSION)


def rows(path: Path, schema: pa.Schema) -> list[dict[str, Any]]:
    """The rows of a small table, None for what is missing. Raises as `read`."""
    found: list[dict[str, Any]] = _table(path, schema).to_pylist()
    return found


def read(path: Path, schema: pa.Schema | None = None) -> "pd.DataFrame":
    """Read a table back, nullable dtypes kept (Int64, not float with NaN).

    Raises BreakevenError naming the file when it is missing, torn or of another schema.
    """
    import pandas as pd

    frame: pd.DataFrame = _table(path, schema).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return frame


def _table(path: Path, schema: pa.Schema | None) -> pa.Table:
    try:
        table = pq.read_table(path)
        return table if schema is None else table.select(schema.names).cast(schema)
    except (OSError, pa.ArrowException, KeyError) as error:
        raise BreakevenError(
            f"{path}: not a table of this version ({error}); measure that arm again"
        ) from error
