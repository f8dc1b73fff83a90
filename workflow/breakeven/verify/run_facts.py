"""Which facts of a log say what was started, and which only how one run of it went. Data, and the test of a name."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

RUN_FACTS: Sequence[str] = (
    *("*_s", "*_ms", "*_secs", "*_at", "*free*", "*pid*", "port", "host", "url", "date", "time*", "ready"),
    *("process", "rank", "ranks", "engine", "flag", "lines", "*_lines", "jit_kernels", "graphs_reused"),
    *("non_default_args", "requested_spec_text", "verbosity"),
)
"""Times, names of processes, and what repeats the command line, which is compared by itself."""

REQUEST_FACTS: Sequence[str] = (
    *(
        "k",
        "accepted",
        "drafted",
        "emitted",
        "num_drafts",
        "mean_len*",
        "acceptance*",
        "per_position",
        "accept_*",
    ),
    *(
        "system_efficiency",
        "rate_definition",
        "impl",
        "sum_impl",
        "draft_block",
        "depth_changes",
        "cuda_graph",
    ),
    *(
        "prompt_n",
        "predicted_n",
        "cache_n",
        "cached_tokens",
        "new_*",
        "n_gen",
        "n_draft*",
        "n_predict",
        "n_accept",
    ),
    *(
        "tg",
        "tg_*",
        "*tok_s",
        "*_tps",
        "eval_*",
        "calls*",
        "gen_*",
        "acc_*",
        "steps",
        "tokens_per_step",
        "cur_*",
    ),
    *(
        "running",
        "waiting",
        "queued",
        "slot",
        "task",
        "secs",
        "gb",
        "mib",
        "prompt_tokens_total",
        "busy_windows",
    ),
    *(
        "runs",
        "rows",
        "arms",
        "windows",
        "window",
        "scope",
        "last",
        "delta",
        "early_*",
        "cold_*",
        "ignored_created",
    ),
)
"""What the requests of a run add up to."""

REQUEST_FACTS_OF: Mapping[str, Sequence[str]] = {"llamacpp": ("pp",)}
"""Names that mean a request's figure in one engine only (`pp` is the pipeline-parallel size elsewhere)."""

UNSTEADY: Sequence[str] = ("compile_cache_hit", "graph_gib*", "graph_mib*", "warning", "spec_active")
"""May differ between two launches of one arm: caches fill, graph memory is a difference of two readings, warnings
come while serving, and an n-gram drafter is seen at work only once a text repeats (`spec_initialized` is steady)."""

CAPACITY: Sequence[str] = (
    *(
        "kv_tokens",
        "gpu_blocks",
        "cpu_blocks",
        "available_kv_gib",
        "max_concurrency",
        "[kv]_gb",
        "weights_gib",
    ),
    "weights_gb",
)
"""Facts that an engine derives from the memory it finds free at start."""

CAPACITY_TOLERANCE = 0.01
"""Relative difference of a CAPACITY fact between two launches of one arm that free memory explains. A judgement: a
drafter's share starts at several percent, the rounding to blocks and a display's use of memory lie far below."""


def matches(name: str, globs: Iterable[str]) -> bool:
    """Whether a name is one of the globs."""
    return any(fnmatchcase(name, glob) for glob in globs)


def names_the_arm(fact: str, engine: str | None) -> bool:
    """Whether a fact says what was started, and not how a run of it went."""
    return not matches(fact, (*RUN_FACTS, *REQUEST_FACTS, *REQUEST_FACTS_OF.get(engine or "", ())))
