"""Log patterns as data. A new engine version is a row in `vllm`, `llamacpp` or `sglang`, and its example.

A pattern is tried on lines that hold one of its `words`. Its named groups and `fields` are facts; what a fact's
text means (type, unit, how several statements merge) stands once, in `NAMES`.
"""

import ast
import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

LONGEST_NUMBER = 19
"""Digits of a whole number that is read as one; longer runs of digits are no counts."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """One line format of an engine.

    `words`: lower-case words, space separated; a line with any of them is tried. `regex` is searched in the line;
    `fields` are searched from the match on, each giving group 1 or nothing. `fixed` are facts that the line states
    by being there. `record` hands the values to the statistics instead of making facts. `repeats` takes every
    match of a line. `finding` is (severity, message) under the kind `kind`; the message may quote values.
    `opens` makes the facts after this line those of the draft ("draft_") or of nobody ("-").
    `example` is a line as the named `versions` print it, `gives` what must be read from it; a test runs each.
    """

    words: str
    regex: str
    versions: str
    example: str
    gives: Mapping[str, Any]
    fields: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    record: str | None = None
    repeats: bool = False
    kind: str | None = None
    finding: tuple[str, str] | None = None
    opens: str | None = None

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The regex, compiled once."""
        return re.compile(self.regex)

    @cached_property
    def compiled_fields(self) -> tuple[tuple[str, re.Pattern[str], Callable[[str], Any]], ...]:
        """The fields: name, regex compiled once, how the text is read."""
        return tuple((name, re.compile(regex), named(name).read) for name, regex in self.fields.items())

    def read(self, text: str, starting_before: int | None = None) -> list[dict[str, Any]]:
        """Return the typed values of each match in a line; no match gives an empty list."""
        if self.repeats:
            matches = list(self.compiled.finditer(text))
        else:
            found = self.compiled.search(text)
            matches = (
                [found] if found and (starting_before is None or found.start() < starting_before) else []
            )
        return [self._values(text, match) for match in matches]

    def _values(self, text: str, match: re.Match[str]) -> dict[str, Any]:
        values: dict[str, Any] = dict(self.fixed)
        for name, group in match.groupdict().items():
            if group is not None:
                values[name] = convert(name, group)
        start = match.start()
        for name, regex, read in self.compiled_fields:
            if found := regex.search(text, start):
                values[name] = read(found[found.lastindex or 0])
        return values


@dataclass(frozen=True)
class Name:
    """What a fact is: how its text is read, its unit, and how several statements of it become one.

    merge: same (one value; ranks that differ are a finding), first, last, min, max, sum, every (all values must
    be true), list (different values in order), all (every statement), map (dictionaries added up).
    """

    read: Callable[[str], Any]
    merge: str = "same"
    unit: str | None = None


def integer(text: str) -> int | None:
    """Read 188,640 or 1.5e+06; None when it is no whole number."""
    if text.isdecimal() and len(text) < LONGEST_NUMBER:
        return int(text)
    try:
        value = float(text.replace(",", "").replace("_", ""))
        return int(value) if value == int(value) else None
    except (ValueError, OverflowError):
        return None


def real(text: str) -> float | None:
    """Read a finite number, None otherwise."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def percent(text: str) -> float | None:
    """Read 81.3 as 0.813."""
    value = real(text)
    return None if value is None else round(value / 100, 6)


def words(text: str) -> str | None:
    """Read a word or phrase without quotes; None for None."""
    text = text.strip().strip("'\"").strip()
    return None if text in ("None", "null", "") else text


def yes(text: str) -> bool | None:
    """Read True/1/yes/on/enabled and their opposites; None for anything else."""
    known = {"true": True, "1": True, "yes": True, "on": True, "enabled": True}
    known |= {"false": False, "0": False, "no": False, "off": False, "disabled": False}
    return known.get(text.strip().strip("'\"").lower())


def numbers(text: str) -> list[float]:
    """Read every number of a text."""
    return [
        float(item) for item in re.findall(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?(?![\d.])", text[:20_000])
    ]


def integers(text: str) -> list[int]:
    """Read every whole number of a text."""
    return [int(item) for item in re.findall(r"\d{1,18}", text[:100_000])]


def names(text: str) -> list[str]:
    """Read a list of words: 'a', 'b' or a, b."""
    return [item for item in re.split(r"[\s,'\"\[\]{}]+", text[:20_000]) if item]


def literal(text: str) -> Any:
    """Read a Python literal as JSON data; None when it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _plain(ast.literal_eval(text[:100_000]))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool) or value is None else str(value)


def build_number(text: str) -> int | None:
    """Read a build number; 0 is what a build without one prints, so it is unknown."""
    return integer(text) or None


_INT, _REAL, _YES = integer, real, yes


def _names(read: Callable[[str], Any], merge: str, unit: str | None, listed: str) -> dict[str, Name]:
    return {name: Name(read, merge, unit) for name in listed.split()}


NAMES: dict[str, Name] = {
    **_names(
        _INT, "same", "tokens", "kv_tokens concurrency_len max_model_len block_size max_num_batched_tokens"
    ),
    **_names(
        _INT,
        "same",
        "tokens",
        "max_prefill_tokens chunked_prefill_size context_len page_size",
    ),
    **_names(_INT, "last", "tokens", "max_num_scheduled_tokens"),
    **_names(_INT, "max", "tokens", "kv_size kv_cells"),
    **_names(words, "first", None, "cudagraph_support cudagraph_mode_wanted"),
    **_names(_INT, "first", "tokens", "n_ctx n_ctx_seq n_ctx_train n_ctx_slot n_batch n_ubatch"),
    **_names(_INT, "same", None, "gpu_blocks cpu_blocks spec_n tp dp world_size graphs_reused seed"),
    **_names(_INT, "same", "layers", "kv_padding_layers"),
    **_names(_INT, "last", None, "max_running_requests num_gpu_blocks_override reorder_batch_threshold"),
    **_names(
        _INT,
        "first",
        None,
        "threads threads_batch cores verbosity n_slots n_layer n_expert devices devices_listed",
    ),
    **_names(
        _INT,
        "first",
        None,
        "n_max n_min spec_n_asked n_extract size_n size_m min_hits n_match num_steps eagle_topk",
    ),
    **_names(
        _INT,
        "first",
        None,
        "num_draft_tokens graph_nodes graph_splits layers_done layers_all n_rs_seq n_outputs_max",
    ),
    **_names(
        _INT, "first", None, "graphs_piecewise_planned graphs_full_planned largest_piecewise largest_full"
    ),
    **_names(_INT, "first", None, "flash_attn_version"),
    **_names(build_number, "first", None, "build"),
    **_names(
        _REAL, "same", None, "max_concurrency gpu_mem_util gpu_mem_util_effective gpu_mem_util_equal_kv"
    ),
    **_names(_REAL, "first", None, "p_min mem_fraction_static avg_spec_accept_length"),
    **_names(_REAL, "min", "GiB", "available_kv_gib"),
    **_names(_REAL, "max", "GiB", "weights_gib graph_gib graph_gib_estimate"),
    **_names(_REAL, "max", "GB", "weights_gb k_gb v_gb"),
    **_names(_REAL, "max", "s", "load_s graph_secs compile_s init_s"),
    **_names(_REAL, "sum", "MiB", "kv_mib recurrent_mib kv_k_mib kv_v_mib"),
    **_names(_REAL, "first", "MiB", "mtp_ctx_mib model_size_mib"),
    **_names(_REAL, "first", "percent", "mamba_page_padding_percent kv_padding_percent"),
    **_names(
        _YES, "last", None, "async_scheduling enforce_eager prefix_caching overlap_schedule cuda_graph_on"
    ),
    **_names(
        _YES,
        "same",
        None,
        "enable_prefix_caching chunked_prefill_enabled disable_cuda_graph disable_radix_cache",
    ),
    **_names(_YES, "first", None, "force_mmq flash_attn_enabled kv_unified gdn_fused"),
    **_names(_YES, "every", None, "compile_cache_hit"),
    **_names(words, "last", None, "cudagraph_mode kv_dtype model_runner"),
    **_names(
        words,
        "first",
        None,
        "model arch attention_backend spec_model flash_attn device0 compute_capability backend",
    ),
    **_names(
        words,
        "first",
        None,
        "draft_model quant model_type spec_impl cache_k cache_v version dtype kernel kernel_for",
    ),
    **_names(words, "first", None, "kv_type_k kv_type_v build_commit spec_method error spec_failure"),
    **_names(
        words,
        "list",
        None,
        "attention_backends moe_backends spec_types devices_used backends weights_unexpected",
    ),
    **_names(words, "list", None, "graph_limited_by load_backend"),
    **_names(names, "list", None, "architectures weights_uninitialized"),
    **_names(names, "first", None, "cpu_features"),
    **_names(literal, "last", None, "non_default_args"),
    **_names(integers, "first", None, "graph_sizes_planned graph_bs_sizes graph_num_tokens_sizes"),
    **_names(str.strip, "first", None, "device_name"),
    # values of statistics lines
    **_names(
        _INT,
        "last",
        None,
        "k accepted drafted emitted num_drafts running waiting n_gen prompt_n predicted_n cache_n",
    ),
    **_names(
        _INT,
        "last",
        None,
        "calls calls_begin calls_draft calls_accept gen_drafts acc_drafts gen_tokens acc_tokens",
    ),
    **_names(
        _INT,
        "last",
        None,
        "new_seq new_tokens cached_tokens queued slot task eval_runs graphs graph_size done total",
    ),
    **_names(
        _INT,
        "last",
        None,
        "depth_from depth_to cur_accepted cur_generated n_draft n_predict n_drafted n_accept ttft_ms toks",
    ),
    **_names(
        _REAL,
        "last",
        None,
        "mean_len acceptance system_efficiency generation_tok_s prompt_tok_s accept_len tg tg_3s",
    ),
    **_names(
        _REAL,
        "last",
        None,
        "accept_rate gen_tok_s eval_ms prompt_ms pp t_draft_ms secs gb graph_mib_each tok_s",
    ),
    **_names(_REAL, "last", None, "predicted_ms total_ms mib decode_tps"),
    **_names(percent, "last", None, "acceptance_percent"),
    **_names(numbers, "last", None, "per_position dur_ms"),
    **_names(_YES, "last", None, "cuda_graph"),
}
_PLAIN = Name(words)


def named(name: str) -> Name:
    """Return what a fact is; a name without an entry is a word that all ranks should agree on."""
    return NAMES.get(name, _PLAIN)


def convert(name: str, text: str) -> Any:
    """Read the text of a fact as its type."""
    return named(name).read(text)


def by_word(patterns: tuple[Pattern, ...]) -> dict[bytes, tuple[tuple[int, Pattern], ...]]:
    """Return which patterns a word calls for, each with its place in the table."""
    table: dict[bytes, list[tuple[int, Pattern]]] = {}
    for place, pattern in enumerate(patterns):
        for word in pattern.words.split():
            table.setdefault(word.encode(), []).append((place, pattern))
    return {word: tuple(found) for word, found in table.items()}
