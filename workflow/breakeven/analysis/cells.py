"""From requests and counters to cells (arm x round x depth x class) and prompts: counts and times.

The replicate of every later test is the launch, so a cell is one launch's view of one depth and prompt class
(Method 4); prompts are the clusters of the workload's own spread. Definitions are those of Method 2:

* Tokens are the server's count, or token ids received; events are never tokens.
* Decode time is the server's own where it tells it (a busy client sees answers late), else first to last event.
* Decode tokens = completion tokens minus those whose time is not in it: the first, or those of the first event.
* Steps = drafts + undrafted steps. A lossless step emits 1 + accepted, so P - 1 - A steps were run. Where
  accepted tokens past the length limit are counted that is too low; the drafts are then the better count.
* Time per step = time per token x tokens per step, so that a first event which hides steps does no harm.
* A request counts when every launch of its round that ran has it: arms are compared on the same requests.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from breakeven.errors import BreakevenError
from breakeven.tables import FLOAT, INT, LAUNCH_KEYS, OK, TEXT

TG, PP = "tg", "pp"
RAN = ("measured", OK)
"""Status of a launch that may be analysed."""

CELL = ["arm", "round", "slot", "depth", "prompt_class"]
REQUEST = ["depth", "prompt_class", "prompt", "rep"]
REQUEST_COLUMNS = (
    *("arm", "round", "slot", "depth", "prompt_class", "prompt", "rep", "seq", "kind", "status"),
    *(
        "planned_new_tokens",
        "prompt_tokens",
        "cached_tokens",
        "computed_tokens",
        "completion_tokens",
        "id_tokens",
    ),
    *("first_event_tokens", "ttft_s", "decode_s", "server_decode_s", "draft_tokens", "accepted_tokens"),
)
COUNTER_COLUMNS = ("arm", "round", "seq", "counter", "position", "before", "after")
POSITIONS = "accepted_per_pos"
CONTRADICTION = "counters contradict the tokens: drafts + accepted exceed them by more than a draft a request"
SPECULATION = ("drafts", "draft_tokens", "accepted_tokens", POSITIONS)


def _field(
    name: str, kind: pa.DataType, what: str, unit: str = "", source: str = "analysis/cells.py"
) -> pa.Field:
    return pa.field(name, kind, metadata={"what": what, "unit": unit, "source": source})


_PLACE = [
    pa.field(
        "depth",
        INT,
        nullable=False,
        metadata={"what": "tokens of context before the request", "unit": "tokens"},
    ),
    pa.field(
        "prompt_class", TEXT, nullable=False, metadata={"what": "class of the prompt's text", "unit": ""}
    ),
]
_COUNTS = [
    _field("requests", INT, "decode requests counted", "requests"),
    _field("completion_tokens", INT, "P: completion tokens", "tokens", "server"),
    _field("decode_tokens", INT, "completion tokens without those of the first event", "tokens", "server"),
    _field("decode_s", FLOAT, "first token to last", "s", "server timings, else client"),
    _field("drafts", INT, "D: steps that verified at least one draft token", "steps", "engine's counters"),
    _field("draft_tokens", INT, "M: draft tokens submitted", "tokens", "engine's timings or counters"),
    _field("accepted", INT, "A: draft tokens accepted", "tokens", "engine's timings or counters"),
    _field(
        "accepted_per_pos",
        pa.list_(FLOAT),
        "A_i: accepted at each draft position",
        "tokens",
        "engine's counters",
    ),
    _field("undrafted", INT, "U: steps that drafted nothing", "steps"),
    _field("steps", INT, "D + U: all decode steps", "steps"),
]
CELLS = pa.schema(
    [
        *LAUNCH_KEYS,
        *_PLACE,
        _field("started_at", FLOAT, "wall clock at the launch", "s since 1970", "launch.json"),
        _field(
            "session",
            TEXT,
            "host boot, image and date that launches must share to be compared",
            "",
            "launch.json",
        ),
        *_COUNTS,
        _field("steps_reason", TEXT, "why there is no step count"),
        _field(
            "unpaired_requests",
            INT,
            "requests left out because another arm of the round lacks them",
            "requests",
        ),
        _field("log_step_s", FLOAT, "mean over requests of log(decode seconds per step)", "log s"),
        _field("log_token_s", FLOAT, "log of all decode seconds over all decode tokens", "log s"),
        _field("tok_s", FLOAT, "decode tokens per decode second, all requests together", "tokens/s"),
        _field("pp_requests", INT, "prefill requests counted", "requests"),
        _field("new_tokens", FLOAT, "mean prompt tokens that should not be cached", "tokens", "workload"),
        _field("computed_tokens", FLOAT, "mean prompt tokens that the server computed", "tokens", "server"),
        _field("cached_tokens", FLOAT, "mean prompt tokens taken from a prefix cache", "tokens", "server"),
        _field("ttft_s", FLOAT, "geometric mean of the time to the first token", "s", "client"),
        _field("pp_new_tok_s", FLOAT, "geometric mean of new tokens over TTFT", "tokens/s"),
        _field("pp_computed_tok_s", FLOAT, "geometric mean of computed tokens over TTFT", "tokens/s"),
    ]
)
PROMPTS = pa.schema(
    [
        *[field for field in LAUNCH_KEYS if field.name in ("experiment", "arm")],
        *_PLACE,
        pa.field(
            "prompt", INT, nullable=False, metadata={"what": "prompt inside its class, from 0", "unit": ""}
        ),
        *_COUNTS,
        _field("rate", FLOAT, "A/M"),
        _field("length", FLOAT, "L: tokens per decode step over all steps", "tokens"),
        _field("survival", pa.list_(FLOAT), "S_i = A_i/D"),
    ]
)


def per_request(requests: pd.DataFrame, counters: pd.DataFrame) -> pd.DataFrame:
    """One row per pp and tg request with its counts, counters differenced and joined by (arm, round, seq).

    A missing series is NaN. Raises BreakevenError when a counter went backwards.
    """
    kept = requests.loc[requests["kind"].isin([TG, PP]), list(REQUEST_COLUMNS)].reset_index(drop=True)
    counts = _counts(kept, counters)

    def number(name: str) -> np.ndarray:
        return kept[name].to_numpy(dtype=float, na_value=np.nan)

    completion = number("completion_tokens")
    completion = np.where(np.isnan(completion), number("id_tokens"), completion)
    cached, computed = number("cached_tokens"), number("computed_tokens")
    frame = kept[[*CELL, "prompt", "rep", "kind"]].copy()
    frame["completion_tokens"] = completion
    own_clock = number("server_decode_s")
    timed = ~np.isnan(own_clock)
    frame["decode_tokens"] = completion - np.where(timed, 1.0, number("first_event_tokens"))
    frame["decode_s"] = np.where(timed, own_clock, number("decode_s"))
    frame["drafts"] = counts.pop("drafts")
    for column, timing, counter in (
        ("draft_tokens", "draft_tokens", "draft_tokens"),
        ("accepted", "accepted_tokens", "accepted_tokens"),
    ):
        own, around = number(timing), counts.pop(counter)
        frame[column] = np.where(np.isnan(own), around, own)
    frame = frame.assign(**counts)
    frame["ttft_s"] = number("ttft_s")
    frame["new_tokens"] = number("planned_new_tokens")
    frame["cached_tokens"] = cached
    frame["computed_tokens"] = np.where(np.isnan(computed), number("prompt_tokens") - cached, computed)
    ran = (kept["status"] == OK).to_numpy()
    decodes = (frame["decode_tokens"] > 0) & (frame["decode_s"] > 0) & (completion > 1)
    frame["usable"] = ran & np.where(frame["kind"] == TG, decodes, frame["ttft_s"] > 0)
    return frame


def _counts(requests: pd.DataFrame, counters: pd.DataFrame) -> dict[str, np.ndarray]:
    """Differences of the speculation counters in the order of `requests`: drafts, .., and pos_0, pos_1, .."""
    counters = counters[counters["counter"].isin(SPECULATION)]
    back = (counters["after"] < counters["before"]).to_numpy()
    if back.any():
        row = counters[back].iloc[0]
        raise BreakevenError(
            f"counter {row['counter']} of arm {row['arm']}, round {row['round']} fell from {row['before']:g} "
            f"to {row['after']:g} around request {row['seq']}: the server restarted, or another was read; "
            "measure that launch again"
        )
    count = len(requests)
    here = pd.concat(
        [requests[["arm", "round", "seq"]], counters[["arm", "round", "seq"]]], ignore_index=True
    )
    launch = here.groupby(["arm", "round"], observed=True, sort=False).ngroup().to_numpy()
    seq = here["seq"].to_numpy(dtype=np.int64)
    key = launch * (seq.max(initial=0) + 1) + seq
    order = np.argsort(key[:count], kind="stable")
    known = key[:count][order]
    found = np.searchsorted(known, key[count:])
    matched = found < count
    matched[matched] = known[found[matched]] == key[count:][matched]
    row = order[found[matched]]
    counters = counters[matched]
    difference = (counters["after"] - counters["before"]).to_numpy(dtype=float)
    name = pd.Categorical(counters["counter"], categories=list(SPECULATION)).codes
    position = counters["position"].to_numpy(dtype=float, na_value=np.nan)

    def column(mask: np.ndarray) -> np.ndarray:
        values = np.full(count, np.nan)
        seen = np.bincount(row[mask], minlength=count) > 0
        values[seen] = np.bincount(row[mask], weights=difference[mask], minlength=count)[seen]
        return values

    result = {series: column(name == i) for i, series in enumerate(SPECULATION) if series != POSITIONS}
    per_position = name == SPECULATION.index(POSITIONS)
    deepest = int(np.nanmax(position[per_position], initial=-1))
    return result | {f"pos_{i}": column(per_position & (position == i)) for i in range(deepest + 1)}


def _positions(frame: pd.DataFrame) -> list[str]:
    names = [name for name in frame.columns if str(name).startswith("pos_")]
    return sorted(names, key=lambda name: int(name.removeprefix("pos_")))


def paired(requests: pd.DataFrame, launches: pd.DataFrame) -> pd.DataFrame:
    """The rows of launches that ran, with `n_spec` (0 when none is asked), `drafting` and `paired`.

    `paired`: usable, and so is the same request in every other launch of the round that ran.
    """
    ran = launches.loc[launches["status"].isin(RAN), ["arm", "round", "n_spec"]]
    ran = ran.assign(n_spec=ran["n_spec"].astype("Float64").fillna(0).astype(float))
    ran["drafting"] = ran["n_spec"] > 0
    if "gated" in launches:
        ran["drafting"] |= launches.loc[ran.index, "gated"].astype(bool)
    twice = ran.duplicated(["arm", "round"])
    if twice.any():
        arm, number = ran.loc[twice, ["arm", "round"]].iloc[0]
        raise BreakevenError(
            f"round {number} has two launches of arm {arm}; one launch of an arm a round is wanted"
        )
    rows = requests.assign(arm=requests["arm"].astype(str)).merge(ran, on=["arm", "round"], how="inner")
    same = rows.groupby(["round", *REQUEST, "kind"], observed=True, sort=False)
    launched = rows.drop_duplicates(["arm", "round", "kind", "depth", "prompt_class"])
    wanted = (
        launched.groupby(["round", "kind", "depth", "prompt_class"], observed=True)["arm"]
        .size()
        .rename("wanted")
    )
    rows = rows.assign(have=same["usable"].transform("sum")).merge(
        wanted.reset_index(), on=["round", "kind", "depth", "prompt_class"], how="left"
    )
    rows["paired"] = rows["usable"] & (rows["have"] >= rows["wanted"])
    return rows.drop(columns=["have", "wanted"])


def _with_steps(rows: pd.DataFrame) -> pd.DataFrame:
    """tg rows with generated (P - 1), steps and undrafted; NaN where the counters do not give them."""
    generated = rows["completion_tokens"].to_numpy() - 1
    accepted = rows["accepted"].to_numpy()
    accepted = np.where(np.isnan(accepted) & ~rows["drafting"].to_numpy(), 0.0, accepted)
    drafts = rows["drafts"].to_numpy()
    lossless = generated - accepted
    steps = np.fmax(lossless, np.where(np.isnan(lossless), np.nan, drafts))
    none_drafted = np.where(rows["drafting"], np.nan, 0.0)
    return rows.assign(
        generated=generated,
        lossless=lossless,
        steps=steps,
        undrafted=steps - np.where(np.isnan(drafts), none_drafted, drafts),
    )


def _sums(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Sums of the counts over the groups of `keys`; a count that one request lacks is absent from the sum."""
    names = [
        "completion_tokens",
        "generated",
        "decode_tokens",
        "decode_s",
        "drafts",
        "draft_tokens",
        "accepted",
    ]
    names += ["undrafted", "steps", "lossless", *_positions(rows)]
    grouped = rows.groupby(list(keys), observed=True, sort=True)
    sums = grouped[names].sum(skipna=False)
    return sums.assign(requests=grouped.size(), n_spec=grouped["n_spec"].first())


def _judge_steps(sums: pd.DataFrame) -> pd.DataFrame:
    """Void steps whose counters contradict the tokens (conservation, Method 2); say why steps are absent."""
    excess = sums["drafts"] - sums["lossless"] - sums["requests"] * sums["n_spec"]
    broken = (excess > 0) & (sums["n_spec"] > 0)
    unknown = sums["steps"].isna()
    reason = np.select(
        [broken, unknown],
        [
            CONTRADICTION,
            "accepted tokens are not counted, so steps are not known",
        ],
        default="",
    )
    void = {name: sums[name].mask(broken) for name in ("steps", "undrafted")}
    return sums.assign(**void, steps_reason=pd.Series(reason, index=sums.index).replace("", None))


def _lists(frame: pd.DataFrame) -> pd.DataFrame:
    """The pos_i columns as one list column, shortened to positions that exist; None where there is none."""
    names = _positions(frame)
    table = frame[names].to_numpy(dtype=float) if names else np.empty((len(frame), 0))
    lengths = np.isfinite(table).sum(axis=1)
    lists = [row[:length].tolist() if length else None for row, length in zip(table, lengths, strict=True)]
    return frame.drop(columns=names).assign(
        accepted_per_pos=pd.Series(lists, index=frame.index, dtype=object)
    )


def _typed(frame: pd.DataFrame, experiment: str, schema: pa.Schema) -> pd.DataFrame:
    frame = frame.assign(experiment=experiment)
    for field in schema:
        if field.name not in frame:
            frame[field.name] = None
        if pa.types.is_integer(field.type):
            frame[field.name] = pd.to_numeric(frame[field.name]).round().astype("Int64")
        elif pa.types.is_floating(field.type):
            frame[field.name] = pd.to_numeric(frame[field.name]).astype(float)
    typed: pd.DataFrame = frame[schema.names]
    return typed


def cells(requests: pd.DataFrame, launches: pd.DataFrame, experiment: str) -> pd.DataFrame:
    """The CELLS table from rows of `per_request` and launches (arm, round, started_at, session, n_spec, status).

    `n_spec` is null for an arm that asks for no drafts; `gated`, where given, tells arms whose drafts may be
    shorter. Launches that did not run have no cell.
    Raises BreakevenError on two launches of one arm and round.
    """
    rows = paired(requests, launches)
    decodes = _with_steps(rows[rows["paired"] & (rows["kind"] == TG)])
    table = _judge_steps(_sums(decodes, CELL))
    per_step = np.log(
        decodes["decode_s"] / decodes["decode_tokens"] * decodes["generated"] / decodes["steps"]
    )
    log_step = decodes[CELL].assign(y=per_step).groupby(CELL, observed=True)["y"].mean(skipna=False)
    seconds = table["decode_s"] / table["decode_tokens"]
    table = _lists(
        table.assign(
            log_step_s=log_step.mask(table["steps"].isna()), log_token_s=np.log(seconds), tok_s=1 / seconds
        )
    )
    lost = rows[rows["usable"] & ~rows["paired"] & (rows["kind"] == TG)]
    table["unpaired_requests"] = lost.groupby(CELL, observed=True).size().reindex(table.index, fill_value=0)
    whole = table.join(_prefill(rows), how="outer").reset_index()
    known = [name for name in ("started_at", "session") if name in launches]
    whole = whole.merge(launches[["arm", "round", *known]], on=["arm", "round"], how="left")
    return _typed(whole, experiment, CELLS)


def _prefill(rows: pd.DataFrame) -> pd.DataFrame:
    pp = rows[rows["paired"] & (rows["kind"] == PP)]
    logs = pp[CELL].assign(
        ttft_s=np.log(pp["ttft_s"]),
        pp_new_tok_s=np.log(pp["new_tokens"] / pp["ttft_s"]),
        pp_computed_tok_s=np.log(pp["computed_tokens"] / pp["ttft_s"]),
    )
    rates = logs.groupby(CELL, observed=True).mean().apply(np.exp)
    grouped = pp.groupby(CELL, observed=True)
    means = grouped[["new_tokens", "computed_tokens", "cached_tokens"]].mean()
    return means.join(rates).assign(pp_requests=grouped.size())


def prompts(requests: pd.DataFrame, launches: pd.DataFrame, experiment: str) -> pd.DataFrame:
    """The PROMPTS table: each prompt's counts over all rounds and repetitions (the workload's spread)."""
    rows = paired(requests, launches)
    decodes = _with_steps(rows[rows["paired"] & (rows["kind"] == TG)])
    sums = _judge_steps(_sums(decodes, ["arm", "depth", "prompt_class", "prompt"]))
    sums["rate"] = (sums["accepted"] / sums["draft_tokens"]).where(sums["draft_tokens"] > 0)
    sums["length"] = sums["generated"] / sums["steps"]
    table = _lists(sums)
    survival = [
        [count / drafts for count in counts] if counts and drafts > 0 else None
        for counts, drafts in zip(table["accepted_per_pos"], table["drafts"], strict=True)
    ]
    table["survival"] = pd.Series(survival, index=table.index, dtype=object)
    return _typed(table.reset_index(), experiment, PROMPTS)
