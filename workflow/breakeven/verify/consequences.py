"""What a difference between two logs means: known consequences of speculation, and what is none. Data only.

A fact is named by a glob; the first match counts. What stands in no table is an unexplained difference, and blocks:
a cause that nobody knows may be a second variable.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Consequence:
    """A difference that the declared variable brings about, and why.

    `what` names the fact for a person; `with_drafter` explains it where the arm runs a drafter, `otherwise` in the
    other cases. `grows` says which way the explanation goes (None: either): a change the other way is told without it.
    """

    what: str
    with_drafter: str
    otherwise: str = "follows from the declared variable"
    grows: bool | None = None


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
    "hybrid": Consequence("several cache groups", "the drafter's layers may form a group of their own"),
    "kv_tokens*": Consequence("KV capacity", _POOL, grows=False),
    "kv_gib": Consequence("KV cache", _POOL, grows=False),
    "kv_padding*": Consequence("KV cache padding", _POOL),
    "mamba_page_padding*": Consequence("page padding", _POOL),
    "[kv]_gb": Consequence("KV cache", _POOL, grows=False),
    "gpu_blocks": Consequence("KV blocks", _POOL, grows=False),
    "cpu_blocks": Consequence("swap blocks", _POOL, grows=False),
    "block_size": Consequence("KV block size", "the page is sized for the drafter's layers too"),
    "page_size": Consequence("KV page size", "the page is sized for the drafter's layers too"),
    "available_kv_gib": Consequence(
        "memory left for KV", f"{_WEIGHTS}, and its activations are profiled", grows=False
    ),
    "max_concurrency": Consequence("concurrency", "it is KV capacity over request length", grows=False),
    "recurrent_*": Consequence(
        "recurrent state", "states are kept per draft position, to roll back rejected ones", grows=True
    ),
    "weights_gib": Consequence("weights", _WEIGHTS, grows=True),
    "weights_gb": Consequence("weights", _WEIGHTS, grows=True),
    "model_mib": Consequence("weights by device", _WEIGHTS, grows=True),
    "model_size_mib": Consequence("weights", _WEIGHTS, grows=True),
    "compute_*": Consequence("compute buffers", _ROWS, grows=True),
    "output_*": Consequence("output buffers", _ROWS, grows=True),
    "n_outputs*": Consequence("output rows", _ROWS, _ROWS, grows=True),
    "n_rs_seq": Consequence(
        "recurrent states kept", "one per draft position, to roll back rejected ones", grows=True
    ),
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
        "scheduled-token cap", "slots are kept free for draft tokens", _ROWS, grows=False
    ),
    "max_num_batched_tokens": Consequence(
        "prefill chunk", "slots are kept free for draft tokens", _ROWS, grows=False
    ),
    "max_prefill_tokens": Consequence(
        "prefill chunk", "slots are kept free for draft tokens", _ROWS, grows=False
    ),
    "chunked_prefill*": Consequence(
        "prefill chunk", "the engine schedules prefill otherwise under speculation"
    ),
    "max_running_requests": Consequence("running requests", "speculation caps them", grows=False),
    "reorder_batch_threshold": Consequence("reorder threshold", "verified rows count as decode"),
    "async_*": Consequence(
        "asynchronous scheduling", "not supported with this method", "not supported with this method"
    ),
    "overlap_schedule": Consequence("overlapped scheduling", "not supported with this method"),
    "prefix_caching": Consequence("prefix caching", "the spec flag itself changes it"),
    "enable_prefix_caching": Consequence("prefix caching", "the spec flag itself changes it"),
    "mamba_cache_mode": Consequence("cached recurrent states", "it follows prefix caching"),
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


def facts_set_by(variables: Collection[str]) -> tuple[str, ...]:
    """Globs of the facts that these flags, `env:NAME`, `image` or `binary` set by themselves."""
    return tuple(
        glob
        for name, globs in FACTS_OF_VARIABLE.items()
        if any(fnmatchcase(variable, name) or fnmatchcase(name, variable) for variable in variables)
        for glob in globs
    )


def consequence_of(fact: str) -> Consequence | None:
    """What is known about a fact that differs; None when it is no known consequence."""
    return next((known for glob, known in CONSEQUENCES.items() if fnmatchcase(fact, glob)), None)
