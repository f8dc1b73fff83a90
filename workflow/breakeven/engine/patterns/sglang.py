"""What SGLang prints, 0.3 to current: start-up facts, graph captures, and decode batches."""

from breakeven.engine.patterns import Pattern
from breakeven.engine.patterns.metrics import sample_pattern


def _argument(name: str) -> str:
    return rf"\b{name}=('[^']*'|\"[^\"]*\"|[^,)\s]+)"


_STARTUP = (
    Pattern(
        "serverargs",
        r"server_args=ServerArgs\((?P<server_args>.*)",
        "all",
        "[2025-03-04 10:11:12] server_args=ServerArgs(model_path='/srv/big', tp_size=2, "
        "attention_backend='fa3', "
        "speculative_algorithm='EAGLE', speculative_num_steps=3, speculative_eagle_topk=1, "
        "speculative_num_draft_tokens=4)",
        {
            "model": "/srv/big",
            "tp": 2,
            "attention_backend": "fa3",
            "spec_method": "EAGLE",
            "num_steps": 3,
            "eagle_topk": 1,
            "num_draft_tokens": 4,
            "server_args": "model_path='/srv/big', tp_size=2, "
            "attention_backend='fa3', speculative_algorithm='EAGLE', "
            "speculative_num_steps=3, speculative_eagle_topk=1, speculative_num_draft_tokens=4)",
        },
        fields={
            "model": _argument("model_path"),
            "tp": _argument("tp_size"),
            "dp": _argument("dp_size"),
            "pp": _argument("pp_size"),
            "device": _argument("device"),
            "dtype": _argument("dtype"),
            "quantization": _argument("quantization"),
            "kv_cache_dtype": _argument("kv_cache_dtype"),
            "attention_backend": _argument("attention_backend"),
            "page_size": _argument("page_size"),
            "chunked_prefill_size": _argument("chunked_prefill_size"),
            "max_running_requests": _argument("max_running_requests"),
            "mem_fraction_static": _argument("mem_fraction_static"),
            "disable_cuda_graph": _argument("disable_cuda_graph"),
            "disable_radix_cache": _argument("disable_radix_cache"),
            "moe_backend": _argument("moe_runner_backend"),
            "spec_method": _argument("speculative_algorithm"),
            "spec_model": _argument("speculative_draft_model_path"),
            "num_steps": _argument("speculative_num_steps"),
            "eagle_topk": _argument("speculative_eagle_topk"),
            "num_draft_tokens": _argument("speculative_num_draft_tokens"),
        },
    ),
    Pattern(
        "sglang",
        r"\bsglang(?:[ =_]version|==| v)[ =:]*'?(?P<version>\d+\.\d+[\w.]*)",
        "environment reports",
        "sglang: sglang==0.5.3.post1",
        {"version": "0.5.3.post1"},
    ),
    Pattern(
        "max_total_num_tokens",
        r"\bmax_total_num_tokens=(?P<kv_tokens>\d+)",
        "all",
        "[2025-03-04 10:11:12 TP0] max_total_num_tokens=123456, chunked_prefill_size=8192, "
        "max_prefill_tokens=16384, "
        "max_running_requests=48, context_len=32768, available_gpu_mem=8.10 GB",
        {
            "kv_tokens": 123456,
            "chunked_prefill_size": 8192,
            "max_prefill_tokens": 16384,
            "max_running_requests": 48,
            "context_len": 32768,
        },
        fields={
            "chunked_prefill_size": _argument("chunked_prefill_size"),
            "max_prefill_tokens": _argument("max_prefill_tokens"),
            "max_running_requests": _argument("max_running_requests"),
            "context_len": _argument("context_len"),
        },
    ),
    Pattern(
        "allocated",
        r"KV Cache is allocated\.",
        "all; target first, a drafter's pool after it",
        "[2025-03-04 10:11:12 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 123456, K size: "
        "5.50 GB, V size: 5.50 GB",
        {"kv_dtype": "torch.bfloat16", "kv_tokens": 123456, "k_gb": 5.5, "v_gb": 5.5},
        fields={
            "kv_dtype": r"\bdtype: ([\w.]+)",
            "kv_tokens": r"#tokens: ([\d,]+)",
            "k_gb": r"K size: ([\d.]+) GB",
            "v_gb": r"V size: ([\d.]+) GB",
        },
        record="kv_pool",
    ),
    Pattern(
        "load",
        r"Load weight end\.",
        "all; target first, a drafter after it",
        "[2025-03-04 10:11:12 TP0] Load weight end. elapsed=3.25 s, type=LlamaForCausalLM, "
        "dtype=torch.bfloat16, avail mem=8.10 "
        "GB, mem usage=15.02 GB.",
        {
            "architectures": ["LlamaForCausalLM"],
            "dtype": "torch.bfloat16",
            "weights_gb": 15.02,
            "load_s": 3.25,
        },
        fields={
            "architectures": r"\btype=(\w+)",
            "dtype": r"\bdtype=([\w.]+)",
            "weights_gb": r"\bmem usage=([\d.]+) GB",
            "load_s": r"\belapsed=([\d.]+) s",
        },
    ),
    Pattern(
        "backend",
        r"(?:Attention backend not (?:explicitly )?(?:set|specified)\. )?[Uu]se (?P<attention_backend>\w+) "
        r"(?:attention )?backend by default",
        "0.4 to 0.5",
        "[2025-03-04 10:11:12] Attention backend not explicitly specified. Use flashinfer backend by "
        "default.",
        {"attention_backend": "flashinfer"},
    ),
    Pattern(
        "linear",
        r"Using hybrid linear attention backend for hybrid (?P<hybrid_kind>\w+) models",
        "since 0.5.3",
        "[2025-03-04 10:11:12 TP0] Using hybrid linear attention backend for hybrid GDN models.",
        {"hybrid_kind": "GDN", "hybrid": True},
        fixed={"hybrid": True},
    ),
    Pattern(
        "gdn linear",
        r"(?:GDN|[Ll]inear attention) kernel(?: backend|s)?: .*?decode=(?P<gdn_decode_kernel>\w+), "
        r".*?(?:prefill|extend)=(?P<gdn_prefill_kernel>\w+)",
        "since 0.5.9",
        "[2025-03-04 10:11:12 TP0] Linear attention kernel backend: decode=triton, prefill=triton",
        {"gdn_decode_kernel": "triton", "gdn_prefill_kernel": "triton"},
    ),
    Pattern(
        "dtype",
        r"Using KV cache dtype: (?P<kv_dtype>[\w.]+)",
        "since 0.5",
        "[2025-03-04 10:11:12 TP0] Using KV cache dtype: torch.float8_e4m3fn",
        {"kv_dtype": "torch.float8_e4m3fn"},
    ),
    Pattern(
        "running",
        r"Max running requests is reset to (?P<max_running_requests>\d+) for speculative decoding",
        "since 0.4",
        "[2025-03-04 10:11:12] Max running requests is reset to 48 for speculative decoding. You can "
        "override this by explicitly",
        {"max_running_requests": 48},
        kind="running_requests_capped",
        finding=("warn", "speculation resets max running requests to {max_running_requests}"),
    ),
    Pattern(
        "overlap",
        r"Overlap scheduler is disabled",
        "since 0.4",
        "[2025-03-04 10:11:12] Overlap scheduler is disabled because of using eagle speculative decoding.",
        {"overlap_schedule": False},
        fixed={"overlap_schedule": False},
        kind="overlap_schedule_off",
        finding=("warn", "the overlap scheduler is off in this run"),
    ),
    Pattern(
        "fired",
        r"The server is fired up and ready to roll",
        "all",
        "[2025-03-04 10:11:12] The server is fired up and ready to roll!",
        {"ready": True},
        fixed={"ready": True},
    ),
)
_GRAPHS = (
    Pattern(
        "capturing",
        r"Capturing (?P<bar>batches|num tokens)(?: \([^)|%]*\))?: +\d+%\|[^|]*\| "
        r"*(?P<done>\d+)/(?P<total>\d+)",
        "progress bars, all",
        "Capturing batches (bs=1 avail_mem=11.18 GB): 100%|##########| 36/36 [00:10<00:00,  3.37it/s]",
        {"bar": "batches", "done": 36, "total": 36},
        repeats=True,
        record="bar",
    ),
    Pattern(
        "capture",
        r"Capture (?P<capture>(?:[\w-]+ )*)(?:cuda|cpu|npu|CUDA) ?graph begin\.",
        "all",
        "[2025-03-04 10:11:12 TP0] Capture draft extend cuda graph begin. This can take up to several "
        "minutes.",
        {"capture": "draft extend"},
        record="capture_begin",
    ),
    Pattern(
        "capture",
        r"Capture cuda graph bs \[(?P<graph_bs_sizes>[\d, ]+)\]?",
        "all",
        "[2025-03-04 10:11:12 TP0] Capture cuda graph bs [1, 2, 4, 8]",
        {"graph_bs_sizes": [1, 2, 4, 8]},
    ),
    Pattern(
        "capture",
        r"Capture (?:piecewise )?cuda graph num tokens \[(?P<graph_num_tokens_sizes>[\d, ]+)\]?",
        "since 0.5.5",
        "[2025-03-04 10:11:12 TP0] Capture cuda graph num tokens [4, 8, 12]",
        {"graph_num_tokens_sizes": [4, 8, 12]},
    ),
    Pattern(
        "capture",
        r"Capture (?P<capture>(?:[\w-]+ )*)(?:cuda|cpu|npu|CUDA) ?graph end\.",
        "all",
        "[2025-03-04 10:11:12 TP1] Capture draft cuda graph end. Time elapsed: 9.50 s. mem usage=0.43 GB. "
        "avail mem=5.37 GB.",
        {"capture": "draft", "secs": 9.5, "gb": 0.43},
        fields={"secs": r"Time elapsed: ([\d.]+) s", "gb": r"mem usage=(-?[\d.]+) GB"},
        record="capture_end",
    ),
)
_STATISTICS = (
    Pattern(
        "decode",
        r"\bDecode batch\b",
        "all",
        "[2025-03-04 10:11:12 TP0] Decode batch, #running-req: 2, #token: 186, token usage: 0.00, accept "
        "len: 2.40, accept rate: "
        "0.80, cuda graph: True, gen throughput (token/s): 178.86, #queue-req: 0, ",
        {
            "running": 2,
            "accept_len": 2.4,
            "accept_rate": 0.8,
            "cuda_graph": True,
            "gen_tok_s": 178.86,
            "queued": 0,
        },
        fields={
            "running": r"#running-req: (\d+)",
            "accept_len": r"\baccept len: ([\d.]+)",
            "accept_rate": r"\baccept rate: ([\d.]+)",
            "cuda_graph": r"\b(?:cuda|cpu|npu) graph: (True|False)",
            "gen_tok_s": r"gen throughput \(token/s\): ([\d.]+)",
            "queued": r"#queue-req: (\d+)",
        },
        record="decode_batch",
    ),
    Pattern(
        "prefill",
        r"\bPrefill batch\b",
        "all",
        "[2025-03-04 10:11:12 TP0] Prefill batch. #new-seq: 1, #new-token: 28, #cached-token: 5, token "
        "usage: 0.00, "
        "#running-req: 0, #queue-req: 0, ",
        {"new_seq": 1, "new_tokens": 28, "cached_tokens": 5, "running": 0, "queued": 0},
        fields={
            "new_seq": r"#new-seq: (\d+)",
            "new_tokens": r"#new-token: (\d+)",
            "cached_tokens": r"#cached-token: (\d+)",
            "running": r"#running-req: (\d+)",
            "queued": r"#queue-req: (\d+)",
        },
        record="prefill_batch",
    ),
    Pattern(
        "questions",
        r"#questions: (?P<questions>\d+), Throughput: (?P<tok_s>[\d.]+) token/s, Acceptance length: "
        r"(?P<accept_len>[\d.]+)",
        "bench_speculative",
        "#questions: 40, Throughput: 250.50 token/s, Acceptance length: 3.25",
        {"questions": "40", "tok_s": 250.5, "accept_len": 3.25},
        record="bench_run",
    ),
    Pattern(
        "token_capacity",
        r'"token_capacity": *(?P<kv_tokens>\d+)',
        "/server_info since 0.4.7",
        '"memory_usage":{"kvcache":40.0,"token_capacity":123456}',
        {"kv_tokens": 123456},
    ),
    Pattern(
        "avg_spec_accept_length",
        r'"avg_spec_accept_length": *(?P<avg_spec_accept_length>[\d.]+)',
        "/server_info since 0.4.7: a mean since the start, with the bonus token",
        '"avg_spec_accept_length":2.25',
        {"avg_spec_accept_length": 2.25},
    ),
)
PATTERNS = (*(_STARTUP + _GRAPHS + _STATISTICS), sample_pattern("sglang", "230794.0"))
