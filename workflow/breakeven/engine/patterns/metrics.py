"""Metric pages (Prometheus text): which series are facts. Counts are the `_total` series; `_created` are dates."""

from breakeven.engine.patterns import Pattern

COUNTERS: dict[str, dict[str, str]] = {
    "vllm": {
        "vllm:spec_decode_num_drafts_total": "num_drafts",
        "vllm:spec_decode_num_draft_tokens_total": "drafted",
        "vllm:spec_decode_num_accepted_tokens_total": "accepted",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total": "accepted_per_pos",
        "vllm:spec_decode_num_emitted_tokens_total": "emitted",
        "vllm:prompt_tokens_total": "prompt_tokens_total",
        "vllm:generation_tokens_total": "generation_tokens_total",
        "vllm:prefix_cache_hits_total": "prefix_cache_hits_total",
    },
    "llamacpp": {
        "llamacpp:spec_decode_num_drafts_total": "num_drafts",
        "llamacpp:spec_decode_num_draft_tokens_total": "drafted",
        "llamacpp:spec_decode_num_accepted_tokens_total": "accepted",
        "llamacpp:spec_decode_num_accepted_tokens_per_pos_total": "accepted_per_pos",
        "llamacpp:prompt_tokens_total": "prompt_tokens_total",
        "llamacpp:tokens_predicted_total": "tokens_predicted_total",
        "llamacpp:n_decode_total": "n_decode_total",
    },
    "sglang": {
        "sglang:prompt_tokens_total": "prompt_tokens_total",
        "sglang:generation_tokens_total": "generation_tokens_total",
        "sglang:cached_tokens_total": "cached_tokens_total",
        "sglang:num_requests_total": "num_requests_total",
        "sglang:spec_num_drafts_total": "num_drafts",
        "sglang:spec_num_draft_tokens_total": "drafted",
        "sglang:spec_num_accepted_tokens_total": "accepted",
    },
}
GAUGES: dict[str, dict[str, str]] = {
    "vllm": {},
    "llamacpp": {},
    "sglang": {
        "sglang:max_total_num_tokens": "kv_tokens",
        "sglang:max_prefill_tokens": "max_prefill_tokens",
        "sglang:context_len": "context_len",
        "sglang:max_running_requests": "max_running_requests",
        "sglang:spec_accept_length": "accept_len",
        "sglang:spec_accept_rate": "accept_rate",
        "sglang:gen_throughput": "gen_tok_s",
    },
}
INFO_LABELS = {
    "vllm:cache_config_info": {
        "block_size": "block_size",
        "num_gpu_blocks": "gpu_blocks",
        "cache_dtype": "kv_cache_dtype",
        "enable_prefix_caching": "enable_prefix_caching",
        "gpu_memory_utilization": "gpu_mem_util",
    }
}
"""Information series: label -> fact."""


def sample_pattern(engine: str, value: str) -> Pattern:
    """Return the pattern of an engine's samples; `value` is the example's text."""
    series = [
        *COUNTERS[engine],
        *GAUGES[engine],
        *(name for name in INFO_LABELS if name.startswith(f"{engine}:")),
    ]
    words = {name.split(":")[1] for name in series}
    words |= {word.removesuffix("_total") + "_created" for word in words if word.endswith("_total")}
    return Pattern(
        " ".join(sorted(words)),
        rf"^\s*(?P<sample>{engine}:\w+(?:\{{.*\}})? +[-+]?(?:\d[\d.eE+-]*|[nN]a[nN]|[iI]nf))\s*(?:\d+\s*)?$",
        "all",
        f"{series[0]} {value}",
        {"sample": f"{series[0]} {value}"},
        record="sample",
    )
