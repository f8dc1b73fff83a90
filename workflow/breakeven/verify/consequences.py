"""What a difference between two logs means: known consequences of speculation, and what is none. Data only.

A fact is named by a glob; the first match counts. What stands in no table is an unexplained difference, and blocks:
a cause that nobody knows may be a second variable.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from breakeven.engine.facts import Fact


@dataclass(frozen=True)
class Consequence:
    """A difference that the declared variable brings about, and why.

    `what` names the fact for a person; `with_drafter` explains it where the arm runs a drafter, `otherwise` in the
    other cases.
    """

    what: str
    with_drafter: str
    otherwise: str = "follows from the declared variable"


_POOL = "the drafter's layers share the pool"
_WEIGHTS = "the drafter's weights are loaded too"
_ROWS = "every step verifies several rows"
_GRAPHS = "the engine captures other graphs for speculative batches"
_SPECULATION = "speculation itself"

CONSEQUENCES: Mapping[str, Consequence] = {
    "*spec_decode_kernel": Consequence(
        "kernel of the verify step", "only a speculating arm verifies", "only a speculating arm verifies"
    ),
    "spec_*": Consequence("speculation", _SPECULATION, _SPECULATION),
    "requested_spec*": Consequence("speculation asked for", _SPECULATION, _SPECULATION),
    "draft_*": Consequence("drafter", "it runs in this arm only"),
    "drafter_*": Consequence("drafter", "it runs in this arm only"),
    "*_shared": Consequence("weights shared with the drafter", "the drafter uses the target's own"),
    "mtp_*": Consequence("MTP context", "it exists for the drafter only"),
    "p_min": Consequence("confidence gate", _SPECULATION, _SPECULATION),
    "n_max": Consequence("draft length", _SPECULATION, _SPECULATION),
    "n_min": Consequence("shortest draft", _SPECULATION, _SPECULATION),
    "n_extract": Consequence("hidden states for the drafter", _SPECULATION),
    "num_draft_tokens": Consequence("draft length", _SPECULATION, _SPECULATION),
    "num_steps": Consequence("draft steps", _SPECULATION, _SPECULATION),
    "eagle_topk": Consequence("draft tree width", _SPECULATION, _SPECULATION),
    "size_n": Consequence("n-gram length", _SPECULATION, _SPECULATION),
    "size_m": Consequence("n-gram draft length", _SPECULATION, _SPECULATION),
    "cache_[kv]": Consequence("drafter's cache type", "it exists for the drafter only"),
    "synthetic_acceptance": Consequence("forced acceptance", _SPECULATION, _SPECULATION),
    "min_hits": Consequence("n-gram hits", _SPECULATION, _SPECULATION),
    "n_match": Consequence("n-gram match length", _SPECULATION, _SPECULATION),
    "resolved_spec": Consequence("speculation", _SPECULATION, _SPECULATION),
    "warning": Consequence("warnings", "they are listed under findings", "they are listed under findings"),
    "weights_unexpected": Consequence("unused weights", "the drafter's weights are used in one arm only"),
    "weights_unused*": Consequence("unused weights", "the drafter's weights are used in one arm only"),
    "kv_tokens": Consequence("KV capacity", _POOL),
    "kv_mib": Consequence("KV cache", _POOL),
    "kv_[kv]_mib": Consequence("KV cache", _POOL),
    "kv_gib": Consequence("KV cache", _POOL),
    "kv_by_device_mib": Consequence("KV cache by device", _POOL),
    "kv_padding*": Consequence("KV cache padding", _POOL),
    "mamba_page_padding*": Consequence("page padding", _POOL),
    "[kv]_gb": Consequence("KV cache", _POOL),
    "gpu_blocks": Consequence("KV blocks", _POOL),
    "cpu_blocks": Consequence("swap blocks", _POOL),
    "block_size": Consequence("KV block size", "the page is sized for the drafter's layers too"),
    "page_size": Consequence("KV page size", "the page is sized for the drafter's layers too"),
    "available_kv_gib": Consequence("memory left for KV", f"{_WEIGHTS}, and its activations are profiled"),
    "max_concurrency": Consequence("concurrency", "it is KV capacity over request length"),
    "recurrent_*": Consequence(
        "recurrent state", "states are kept per draft position, to roll back rejected ones"
    ),
    "weights_gib": Consequence("weights", _WEIGHTS),
    "weights_gb": Consequence("weights", _WEIGHTS),
    "model_mib": Consequence("weights by device", _WEIGHTS),
    "model_size_mib": Consequence("weights", _WEIGHTS),
    "compute_*": Consequence("compute buffers", _ROWS),
    "output_*": Consequence("output buffers", _ROWS),
    "n_outputs*": Consequence("output rows", _ROWS, _ROWS),
    "n_rs_seq": Consequence("recurrent states kept", "one per draft position, to roll back rejected ones"),
    "cudagraph_mode": Consequence(
        "graph mode", "the spec flag itself changes it", "the declared variable itself changes it"
    ),
    "compilation_mode": Consequence("compilation mode", "the spec flag itself changes it"),
    "graph_gib*": Consequence("graph memory", _GRAPHS),
    "graph_mib*": Consequence("graph memory", _GRAPHS),
    "graph_*": Consequence("graph", "drafting and verifying need graphs of their own"),
    "graphs*": Consequence("captured graphs", _GRAPHS),
    "largest*": Consequence("largest captured graph", _GRAPHS),
    "cuda_graph_on": Consequence("graphs in use", _GRAPHS),
    "compile_cache_hit": Consequence("compile cache", "another graph has another cache entry"),
    "max_num_scheduled_tokens": Consequence(
        "scheduled-token cap", "slots are kept free for draft tokens", _ROWS
    ),
    "max_num_batched_tokens": Consequence("prefill chunk", "slots are kept free for draft tokens", _ROWS),
    "max_prefill_tokens": Consequence("prefill chunk", "slots are kept free for draft tokens", _ROWS),
    "chunked_prefill*": Consequence(
        "prefill chunk", "the engine schedules prefill otherwise under speculation"
    ),
    "max_running_requests": Consequence("running requests", "speculation caps them"),
    "reorder_batch_threshold": Consequence("reorder threshold", "verified rows count as decode"),
    "async_*": Consequence(
        "asynchronous scheduling", "not supported with this method", "not supported with this method"
    ),
    "overlap_schedule": Consequence("overlapped scheduling", "not supported with this method"),
    "prefix_caching": Consequence("prefix caching", "the spec flag itself changes it"),
    "enable_prefix_caching": Consequence("prefix caching", "the spec flag itself changes it"),
    "model_runner": Consequence("model runner", "the newer one does not support this method"),
}

CONTAMINATION: Sequence[str] = (
    *("kernel*", "*_kernel", "*_kernels", "moe_*", "attention_backend*", "decode_backend", "linear_backend"),
    *("backend*", "fallback", "falls_back_to", "wanted", "count"),
    *("quant*", "*dtype", "kv_type_*", "arch*", "model", "model_type", "n_layer", "n_expert*"),
    *("version", "engine_gen", "build*", "commit", "compiler", "platform", "load_backend"),
    *(
        "tp",
        "pp",
        "dp",
        "ep",
        "world_size",
        "threads*",
        "cores",
        "cpu_features",
        "device*",
        "compute_capability",
    ),
    *(
        "flash_attn*",
        "gdn_*",
        "force_mmq",
        "layers_*",
        "offload*",
        "n_ctx*",
        "n_batch",
        "n_ubatch",
        "n_slots",
    ),
    *(
        "max_model_len",
        "context_len",
        "concurrency_len",
        "kv_size",
        "kv_cells",
        "kv_layout",
        "kv_unified",
        "seed",
    ),
    *("gpu_mem_util*", "mem_fraction_static", "enforce_eager", "disable_*", "num_gpu_blocks_override"),
    *("weights_uninitialized", "weights_missing", "power_cap*", "clock*"),
)
"""Facts that a speculation flag does not change: a second variable."""

LISTS_THAT_A_DRAFTER_EXTENDS: Sequence[str] = ("architectures",)
"""Lists to which a drafter adds its own entry behind the target's; tables by layer kind may grow without a mention."""

RUN_FACTS: Sequence[str] = (
    *("*_s", "*_ms", "*_secs", "*_at", "*free*", "*pid*", "port", "host", "url", "date", "time*", "ready"),
    *(
        "non_default_args",
        "requested_spec_text",
        "verbosity",
        "graphs_reused",
        "process",
        "rank",
        "*_lines",
        "flag",
    ),
    "jit_kernels",
)
"""Facts that name a run and not an arm, or that repeat the command line, which is compared by itself."""

WITHOUT_A_LINE: Sequence[str] = (
    *(
        "spec_*",
        "requested_spec",
        "resolved_spec",
        "draft*_loaded",
        "attention_backend",
        "backend",
        "version",
    ),
    *("block_size", "kv_tokens", "*kv_mib", "hybrid", "graphs_*", "graph_*", "largest", "fallback"),
)
"""Facts of start-up that the reader derives from others. Every other fact without a line of its own adds up requests
(statistics), and says nothing about the arm."""

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

FACTS_OF_VARIABLE: Mapping[str, Sequence[str]] = {
    "image": (
        "version",
        "engine_gen",
        "build*",
        "commit",
        "compiler",
        "load_backend",
        "*kernel*",
        "*backend*",
    ),
    "binary": (
        "version",
        "engine_gen",
        "build*",
        "commit",
        "compiler",
        "load_backend",
        "*kernel*",
        "*backend*",
    ),
    "model": (
        "model*",
        "arch*",
        "quant*",
        "n_layer",
        "n_expert*",
        "*kernel*",
        "weights_*",
        "kv_*",
        "n_ctx_train",
    ),
    "threads*": ("threads*",),
    "cache-type-*": ("kv_*", "cache_[kv]"),
    "kv-cache-dtype": ("kv_*", "attention_backend*"),
    "flash-attn": ("flash_attn*", "attention_backend*", "kv_*"),
    "ctx-size": ("n_ctx*", "kv_size", "kv_cells"),
    "max-model-len": ("max_model_len", "concurrency_len", "context_len"),
    "batch-size": ("n_batch",),
    "ubatch-size": ("n_ubatch",),
    "parallel": ("n_slots", "n_ctx*", "kv_*"),
    "gpu-layers": ("layers_*", "offload*", "kv_by_device_mib", "model_mib"),
    "tensor-parallel-size": ("tp", "world_size"),
    "pipeline-parallel-size": ("pp", "world_size"),
    "data-parallel-size": ("dp", "world_size"),
    "quantization": ("quant*", "*kernel*"),
    "dtype": ("*dtype", "*kernel*"),
    "gpu-memory-utilization": ("gpu_mem_util*",),
    "enforce-eager": ("enforce_eager",),
    "attention-backend": ("attention_backend*", "decode_backend"),
    "linear-backend": ("linear_backend", "*kernel*"),
    "moe-backend": ("moe_*",),
    "env:VLLM_ATTENTION_BACKEND": ("attention_backend*", "decode_backend"),
    "env:VLLM_ROCM_USE_AITER*": ("*kernel*", "moe_*", "attention_backend*"),
    "env:GGML_CUDA_FORCE_MMQ": ("force_mmq",),
    "env:VLLM_USE_V2_MODEL_RUNNER": ("model_runner",),
}
"""A flag or variable that really differs -> the facts that it sets by itself (other than consequences)."""


def matches(name: str, globs: Iterable[str]) -> bool:
    """Whether a name is one of the globs."""
    return any(fnmatchcase(name, glob) for glob in globs)


def facts_set_by(variables: Collection[str]) -> tuple[str, ...]:
    """Globs of the facts that these flags, `env:NAME`, `image` or `binary` set by themselves."""
    return tuple(
        glob
        for name, globs in FACTS_OF_VARIABLE.items()
        if any(fnmatchcase(variable, name) or fnmatchcase(name, variable) for variable in variables)
        for glob in globs
    )


def names_the_arm(fact: Fact) -> bool:
    """Whether a fact says what was started, and not how a run of it went."""
    if fact.line_number is None and not matches(fact.name, WITHOUT_A_LINE):
        return False
    return not matches(fact.name, RUN_FACTS)


def consequence_of(fact: str) -> Consequence | None:
    """What is known about a fact that differs; None when it is no known consequence."""
    return next((known for glob, known in CONSEQUENCES.items() if fnmatchcase(fact, glob)), None)
