"""What vLLM prints, V0 (0.5) to current: start-up facts and statistics lines. Bars are read by `bars`."""

from breakeven.engine.patterns import Pattern
from breakeven.engine.patterns.metrics import sample_pattern
from breakeven.engine.patterns.vllm_kernels import KERNELS
from breakeven.engine.patterns.vllm_statistics import STATISTICS

_STARTUP = (
    Pattern(
        "version",
        r"(?:vLLM API server|vLLM server|█) +version v?(?P<version>\d[\w.]*\w)",
        "all; the banner with blocks since 0.14",
        "INFO 03-04 10:11:12 [api_server.py:1287] vLLM API server version 0.9.1.dev7+gabc1234",
        {"version": "0.9.1.dev7"},
    ),
    Pattern(
        "initializing",
        r"Initializing an? (?:(?P<engine_gen>V\d) )?LLM engine \(v(?P<version>\d[\w.]*)[^)]*\) with config:",
        "all",
        "INFO 03-04 10:11:12 [core.py:97] Initializing a V1 LLM engine (v0.13.0+gabc1234) with config: "
        "model='/srv/big', speculative_config=SpeculativeConfig(method='mtp', model='/srv/big', "
        "num_spec_tokens=2), "
        "tokenizer='/srv/big', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=4, "
        "pipeline_parallel_size=1, quantization=None, enforce_eager=False, kv_cache_dtype=fp8, "
        "device_config=cuda, "
        "enable_prefix_caching=True, enable_chunked_prefill=True",
        {
            "engine_gen": "V1",
            "version": "0.13.0",
            "model": "/srv/big",
            "spec_method": "mtp",
            "spec_model": "/srv/big",
            "spec_n": 2,
            "dtype": "torch.bfloat16",
            "max_model_len": 8192,
            "tp": 4,
            "pp": 1,
            "quantization": None,
            "enforce_eager": False,
            "kv_cache_dtype": "fp8",
            "device": "cuda",
            "enable_prefix_caching": True,
            "chunked_prefill_enabled": True,
            "spec_resolved": "SpeculativeConfig",
        },
        fields={
            "model": r"config: *model='([^']*)'",
            "spec_resolved": r"\bspeculative_config=(SpeculativeConfig|None)",
            "spec_method": r"\bSpeculativeConfig\((?:[^)]*?\b)?method=([^,)]+)",
            "spec_model": r"\bSpeculativeConfig\((?:[^)]*?\b)?(?:draft_)?model=([^,)]+)",
            "spec_n": r"\bnum_spec(?:ulative)?_tokens=(\d+)",
            "dtype": r"[, ]dtype=([\w.]+)",
            "max_model_len": r"\bmax_seq_len=(\d+)",
            "tp": r"\btensor_parallel_size=(\d+)",
            "pp": r"\bpipeline_parallel_size=(\d+)",
            "dp": r"\bdata_parallel_size=(\d+)",
            "quantization": r"\bquantization=([^,\s]+)",
            "enforce_eager": r"\benforce_eager=(True|False)",
            "kv_cache_dtype": r"\bkv_cache_dtype=([^,\s]+)",
            "device": r"\bdevice_config=([^,\s]+)",
            "enable_prefix_caching": r"\benable_prefix_caching=(True|False)",
            "chunked_prefill_enabled": r"\b(?:chunked_prefill_enabled|enable_chunked_prefill)=(True|False)",
            "cudagraph_mode": r"cudagraph_mode['\"]?: ?<?(?:CUDAGraphMode\.)?([A-Z_]+)",
            "graph_sizes_planned": r"cudagraph_capture_sizes['\"]?: ?\[([\d, ]+)\]",
            "compilation_mode": r"['\"]mode['\"]: ?<?(?:CompilationMode\.)?([A-Z_]{3,})",
            "linear_backend": r"\blinear_backend=([^,\s)]+)",
            "moe_backend_asked": r"\bmoe_backend=([^,\s)]+)",
        },
    ),
    Pattern(
        "args",
        r"non-default args: (?P<non_default_args>\{.*\})",
        "since 0.8",
        "INFO 03-04 10:11:12 [utils.py:233] non-default args: {'model': 'org/big', 'max_model_len': 4096, "
        "'speculative_config': {'method': 'ngram', 'num_speculative_tokens': 3}}",
        {
            "non_default_args": {
                "model": "org/big",
                "max_model_len": 4096,
                "speculative_config": {"method": "ngram", "num_speculative_tokens": 3},
            }
        },
    ),
    Pattern(
        "args",
        r"non-default args: .*?'speculative_config': (?P<requested_spec_text>\{[^{}]*\})",
        "since 0.8, also when other values are no literals",
        "non-default args: {'compilation_config': <C>, 'speculative_config': {'method': 'mtp', 'model': "
        "'org/d'}}",
        {"requested_spec_text": "{'method': 'mtp', 'model': 'org/d'}"},
    ),
    Pattern(
        "namespace",
        r"\bargs: Namespace\((?P<v0_args>.*)",
        "V0 to 0.8",
        "INFO 03-04 10:11:12 api_server.py:713] args: Namespace(host=None, model='org/big', "
        "speculative_model='org/small', num_speculative_tokens=5, seed=0)",
        {
            "v0_args": "host=None, model='org/big', "
            "speculative_model='org/small', num_speculative_tokens=5, seed=0)",
            "requested_spec_model": "org/small",
            "requested_spec_n": "5",
        },
        fields={
            "requested_spec_model": r"\bspeculative_model=([^,)]+)",
            "requested_spec_n": r"\bnum_speculative_tokens=([^,)]+)",
        },
    ),
    Pattern(
        "architecture architectures",
        r"Resolved architectures?: (?P<architectures>[\w\[\]', ]+)",
        "since 0.9",
        "INFO 03-04 10:11:12 [model.py:733] Resolved architecture: MiMoMTPModel",
        {"architectures": ["MiMoMTPModel"]},
    ),
    Pattern(
        "platform",
        r"Automatically detected platform (?P<platform>\w+)",
        "since 0.7",
        "INFO 03-04 10:11:12 [__init__.py:241] Automatically detected platform cuda.",
        {"platform": "cuda"},
    ),
    Pattern(
        "world",
        r"rank \d+ in world size (?P<world_size>\d+) is assigned",
        "since 0.7",
        "INFO 03-04 10:11:12 [parallel_state.py:1394] rank 1 in world size 4 is assigned as DP rank 0, PP "
        "rank 0, TP rank 1",
        {"world_size": 4},
    ),
    Pattern(
        "inductor",
        r"Inductor compilation was disabled by user settings",
        "since 0.13",
        "WARNING 03-04 10:11:12 [vllm.py:1727] Inductor compilation was disabled by user settings, "
        "optimizations",
        {"inductor": False},
        fixed={"inductor": False},
    ),
    Pattern(
        "eager",
        r"Enforce eager set, disabling torch\.compile and CUDAGraphs|Enforce eager set, disabling "
        r"torch\.compile, CUDAGraphs",
        "since 0.11",
        "WARNING 03-04 10:11:12 [vllm.py:601] Enforce eager set, disabling torch.compile and CUDAGraphs.",
        {"enforce_eager": True, "cudagraph_mode": "NONE"},
        fixed={"enforce_eager": True, "cudagraph_mode": "NONE"},
    ),
    Pattern(
        "cudagraphmode",
        r"CUDAGraphMode\.(?P<cudagraph_mode_wanted>\w+) is not supported with .*?;? ?setting "
        r"cudagraph_mode=(?:CUDAGraphMode\.)?(?P<cudagraph_mode>\w+)",
        "since 0.11",
        "WARNING 03-04 10:11:12 [compilation.py:1409] CUDAGraphMode.FULL_AND_PIECEWISE is not supported "
        "with spec-decode "
        "for attention backend FlashInferBackend (support: AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE); "
        "setting cudagraph_mode=PIECEWISE",
        {
            "cudagraph_mode_wanted": "FULL_AND_PIECEWISE",
            "cudagraph_mode": "PIECEWISE",
            "graph_limited_by": "FlashInferBackend",
            "cudagraph_support": "UNIFORM_SINGLE_TOKEN_DECODE",
        },
        fields={
            "graph_limited_by": r"(?:\bfor (?:attention backend |backend )?|not supported with "
            r"(?!spec))(?:AttentionBackendEnum\.)?(\w+)",
            "cudagraph_support": r"AttentionCGSupport\.(\w+)",
        },
        kind="cudagraph_mode_downgraded",
        finding=(
            "warn",
            "graph mode {cudagraph_mode_wanted} became {cudagraph_mode} (limited by {graph_limited_by})",
        ),
    ),
    Pattern(
        "skipping",
        r"Skipping CUDA graph capture",
        "since 0.8",
        "WARNING 03-04 10:11:12 [gpu_model_runner.py:3201] Skipping CUDA graph capture. To turn on CUDA "
        "graph capture",
        {"cudagraph_mode": "NONE"},
        fixed={"cudagraph_mode": "NONE"},
    ),
    Pattern(
        "profiling",
        r"Profiling CUDA graph memory: (?P<graph_plan>(?:\w+=\d+ \(largest=\d+\)(?:, )?)+)",
        "since 0.20",
        "INFO 03-04 10:11:12 [gpu_model_runner.py:6568] Profiling CUDA graph memory: PIECEWISE=5 "
        "(largest=16), FULL=4 (largest=8)",
        {
            "graph_plan": "PIECEWISE=5 (largest=16), FULL=4 (largest=8)",
            "graphs_piecewise_planned": 5,
            "graphs_full_planned": 4,
            "largest_piecewise": 16,
            "largest_full": 8,
        },
        fields={
            "graphs_piecewise_planned": r"PIECEWISE=(\d+)",
            "graphs_full_planned": r"FULL=(\d+)",
            "largest_piecewise": r"PIECEWISE=\d+ \(largest=(\d+)",
            "largest_full": r"FULL=\d+ \(largest=(\d+)",
        },
    ),
    Pattern(
        "estimated",
        r"Estimated CUDA graph memory: (?P<graph_gib_estimate>-?[\d.]+) GiB",
        "since 0.20",
        "INFO 03-04 10:11:12 [gpu_model_runner.py:6654] Estimated CUDA graph memory: 0.31 GiB total",
        {"graph_gib_estimate": 0.31},
    ),
    Pattern(
        "capturing finished",
        r"Graph capturing finished in (?P<graph_secs>[\d.]+) secs?, took (?P<graph_gib>-?[\d.]+) GiB",
        "all",
        "INFO 03-04 10:11:12 [gpu_model_runner.py:3480] Graph capturing finished in 7 secs, took 0.55 GiB",
        {"graph_secs": 7.0, "graph_gib": 0.55, "graphs_finished": True},
        fixed={"graphs_finished": True},
    ),
    Pattern(
        "capturing",
        r"Graph capturing for (?P<graph_size>\d+) input tokens",
        "forks of 0.10 that capture while serving",
        "INFO 03-04 10:11:12 [gpu_model_runner.py:2721] Graph capturing for 128 input tokens",
        {"graph_size": 128},
        record="lazy_graph",
    ),
    Pattern(
        "finished",
        r"\] +finished in (?P<secs>[\d.]+) secs, took (?P<graph_mib_each>[\d.]+) MiB",
        "forks of 0.10 that capture while serving",
        "INFO 03-04 10:11:12 [gpu_model_runner.py:2721]            finished in 0.041 secs, took 18.00 MiB",
        {"secs": 0.041, "graph_mib_each": 18.0},
        record="lazy_graph",
    ),
    Pattern(
        "weights",
        r"Loading model weights took (?P<weights_gb>[\d.]+) Gi?B",
        "to 0.8",
        "INFO 03-04 10:11:12 model_runner.py:1024] Loading model weights took 12.5501 GB",
        {"weights_gb": 12.5501},
    ),
    Pattern(
        "loading",
        r"Model loading took (?P<weights_gib>[\d.]+) Gi?B(?: memory)? and (?P<load_s>[\d.]+) seconds",
        "since 0.8",
        "INFO 03-04 10:11:12 [gpu_model_runner.py:4820] Model loading took 15.27 GiB memory and 4.543456 "
        "seconds",
        {"weights_gib": 15.27, "load_s": 4.543456},
    ),
    Pattern(
        "init",
        r"init engine \([^)]*\) took (?P<init_s>[\d.]+) s",
        "all",
        "INFO 03-04 10:11:12 [core.py:402] init engine (profile, create kv cache, warmup model) took 36.51 s",
        {"init_s": 36.51},
    ),
)
_GRAPHS = (
    Pattern(
        "capturing",
        r"Capturing (?P<bar>[\w ]*?(?:[Gg]raphs?|shapes))(?: \((?P<bar_detail>[^)|%]*)\))?: +\d+%\|[^|]*\| "
        r"*(?P<done>\d+)/(?P<total>\d+)",
        "progress bars since 0.6",
        "Capturing CUDA graphs (decode, FULL):  50%|#####     | 4/8 [00:01<00:01,  3.10it/s]",
        {"bar": "CUDA graphs", "bar_detail": "decode, FULL", "done": 4, "total": 8},
        repeats=True,
        record="bar",
    ),
)
_MEMORY = (
    Pattern(
        "kv concurrency",
        r"KV cache size: (?P<kv_tokens>[\d,]+) tokens",
        "since 0.8",
        "INFO 03-04 10:11:12 [kv_cache_utils.py:2327] CPU KV cache size: 123,456 tokens, Maximum "
        "concurrency for 1,024 "
        "tokens per request: 120.56x",
        {"kv_tokens": 123456},
    ),
    Pattern(
        "kv",
        r"KV cache size: [\d,]+ tokens",
        "since 0.8",
        "INFO 03-04 10:11:12 [kv_cache_utils.py:864] GPU KV cache size: 123,456 tokens",
        {},
        record="kv_line",
    ),
    Pattern(
        "concurrency",
        r"Maximum concurrency for (?P<concurrency_len>[\d,]+) tokens per request: "
        r"(?P<max_concurrency>[\d.]+)x",
        "all",
        "INFO 03-04 10:11:12 [kv_cache_utils.py:868] Maximum concurrency for 32,768 tokens per request: "
        "3.77x",
        {"concurrency_len": 32768, "max_concurrency": 3.77},
    ),
    Pattern(
        "blocks",
        r"# (?P<block_device>\w+) blocks: (?P<gpu_blocks>\d+)(?:, # CPU blocks: (?P<cpu_blocks>\d+))?",
        "to 0.8",
        "INFO 03-04 10:11:12 executor_base.py:76] # GPU blocks: 3333, # CPU blocks: 444",
        {"block_device": "GPU", "gpu_blocks": 3333, "cpu_blocks": 444},
    ),
    Pattern(
        "available",
        r"Available KV cache memory: (?P<available_kv_gib>-?[\d.]+) Gi?B",
        "since 0.8",
        "(Worker_TP1 pid=7) INFO 03-04 10:11:12 [gpu_worker.py:436] Available KV cache memory: 19.36 GiB",
        {"available_kv_gib": 19.36},
    ),
    Pattern(
        "reserved",
        r"memory reserved for KV Cache is (?P<available_kv_gib>[\d.]+)Gi?B",
        "0.6 to 0.8 (V0)",
        "the rest of the memory reserved for KV Cache is 21.53GiB.",
        {"available_kv_gib": 21.53},
    ),
    Pattern(
        "explicitly",
        r"Explicitly set \((?P<available_kv_gib>[\d.]+)/[\d.]+\) GiB for KV cache",
        "CPU, since 0.20",
        "INFO 03-04 10:11:12 [cpu_worker.py:260] Explicitly set (2.0/15.59) GiB for KV cache on node 0.",
        {"available_kv_gib": 2.0},
    ),
    Pattern(
        "memory_utilization utilization",
        r"current --gpu-memory-utilization=(?P<gpu_mem_util>[\d.]*\d) is equivalent to "
        r"--gpu-memory-utilization=(?P<gpu_mem_util_effective>[\d.]*\d) without",
        "since 0.21",
        "The current --gpu-memory-utilization=0.9000 is equivalent to --gpu-memory-utilization=0.8871 "
        "without CUDA graph "
        "memory profiling. To maintain the same effective KV cache size as before, increase "
        "--gpu-memory-utilization to 0.9129.",
        {"gpu_mem_util": 0.9, "gpu_mem_util_effective": 0.8871, "gpu_mem_util_equal_kv": 0.9129},
        fields={"gpu_mem_util_equal_kv": r"increase --gpu-memory-utilization to ([\d.]*\d)"},
        kind="graph_memory_shrinks_kv",
        finding=(
            "note",
            "graph memory is charged to the pool: {gpu_mem_util} acts as {gpu_mem_util_effective}",
        ),
    ),
    Pattern(
        "num_gpu_blocks_override",
        r"num_gpu_blocks_override=(?P<num_gpu_blocks_override>\d+)",
        "all",
        "INFO 03-04 10:11:12 [kv_cache_utils.py:829] Overriding num_gpu_blocks=0 with "
        "num_gpu_blocks_override=512",
        {"num_gpu_blocks_override": 512},
    ),
    Pattern(
        "mamba",
        r"Setting attention block size to (?P<block_size>\d+) tokens to ensure that attention page size is "
        r">= mamba page size",
        "since 0.10, hybrid models",
        "INFO 03-04 10:11:12 [interface.py:1096] Setting attention block size to 784 tokens to ensure that "
        "attention page "
        "size is >= mamba page size.",
        {"block_size": 784, "block_size_reason": "mamba page", "hybrid": True},
        fixed={"block_size_reason": "mamba page", "hybrid": True},
    ),
    Pattern(
        "mamba",
        r"Padding mamba page size by (?P<mamba_page_padding_percent>[\d.]+)%",
        "since 0.10, hybrid models",
        "INFO 03-04 10:11:12 [config.py:463] Padding mamba page size by 1.75% to ensure that mamba page size",
        {"mamba_page_padding_percent": 1.75, "hybrid": True},
        fixed={"hybrid": True},
    ),
    Pattern(
        "mamba",
        r"Mamba cache mode is set to '(?P<mamba_cache_mode>\w+)'",
        "since 0.12, hybrid models",
        "INFO 03-04 10:11:12 [config.py:331] Mamba cache mode is set to 'align' for Qwen3_5ForCausalLM by "
        "default",
        {"mamba_cache_mode": "align", "hybrid": True},
        fixed={"hybrid": True},
    ),
    Pattern(
        "padding",
        r"Add (?P<kv_padding_layers>\d+) padding layers, may waste at most (?P<kv_padding_percent>[\d.]+)% "
        r"KV",
        "since 0.11",
        "WARNING 03-04 10:11:12 [kv_cache_utils.py:1208] Add 3 padding layers, may waste at most 6.25% KV "
        "cache memory",
        {"kv_padding_layers": 3, "kv_padding_percent": 6.25},
    ),
    Pattern(
        "layout",
        r"Using (?P<kv_layout>\w+) KV cache layout",
        "since 0.10",
        "INFO 03-04 10:11:12 [utils.py:347] Using HND KV cache layout.",
        {"kv_layout": "HND"},
    ),
    Pattern(
        "store",
        r"Using (?P<kv_dtype>\w+) data type to store kv cache",
        "all",
        "INFO 03-04 10:11:12 [cache.py:216] Using fp8 data type to store kv cache. It reduces the GPU "
        "memory footprint",
        {"kv_dtype": "fp8"},
    ),
)
_SCHEDULING = (
    Pattern(
        "chunked",
        r"Chunked prefill is enabled with max_num_batched_tokens=(?P<max_num_batched_tokens>\d+)",
        "since 0.5",
        "INFO 03-04 10:11:12 [scheduler.py:239] Chunked prefill is enabled with max_num_batched_tokens=8192.",
        {"max_num_batched_tokens": 8192, "chunked_prefill_enabled": True},
        fixed={"chunked_prefill_enabled": True},
    ),
    Pattern(
        "max_num_scheduled_tokens",
        r"max_num_scheduled_tokens is set to (?P<max_num_scheduled_tokens>\d+) based on the speculative",
        "since 0.14",
        "WARNING 03-04 10:11:12 [vllm.py:2276] max_num_scheduled_tokens is set to 2048 based on the "
        "speculative decoding "
        "settings. This may lead to suboptimal performance.",
        {"max_num_scheduled_tokens": 2048},
        kind="scheduled_tokens_capped",
        finding=(
            "warn",
            "speculation caps scheduled tokens at {max_num_scheduled_tokens}: prefill chunks may shrink",
        ),
    ),
    Pattern(
        "asynchronous",
        r"Asynchronous scheduling is (?P<async_scheduling>enabled|disabled)",
        "since 0.11",
        "INFO 03-04 10:11:12 [vllm.py:1114] Asynchronous scheduling is enabled.",
        {"async_scheduling": True},
    ),
    Pattern(
        "async",
        r"Async scheduling (?:is )?not supported with (?P<async_limit>[\w-]+?)(?:-based)? speculative "
        r"decoding",
        "since 0.12",
        "WARNING 03-04 10:11:12 [vllm.py:1605] Async scheduling not supported with ngram-based speculative "
        "decoding and "
        "will be disabled.",
        {"async_limit": "ngram", "async_scheduling": False},
        fixed={"async_scheduling": False},
        kind="async_scheduling_off",
        finding=("warn", "asynchronous scheduling is off because of {async_limit} speculation"),
    ),
    Pattern(
        "reorder_batch_threshold threshold",
        r"reorder[ _]batch[ _]threshold(?: is| set)?(?: to)?[ =:]+(?P<reorder_batch_threshold>\d+)",
        "debug lines and forks",
        "(Worker pid=7) INFO 03-04 10:11:12 [gdn_attn.py:112] reorder_batch_threshold=4",
        {"reorder_batch_threshold": 4},
    ),
    Pattern(
        "runner",
        r"(?:[Uu]sing|with) (?:the )?(?P<model_runner>V\d) [Mm]odel [Rr]unner",
        "since 0.14",
        "WARNING 03-04 10:11:12 [vllm.py:725] Model Runner V2 requires Triton; using the V1 model runner "
        "instead.",
        {"model_runner": "V1"},
    ),
    Pattern(
        "directly",
        r"Directly load (?:the compiled graph|AOT compilation)",
        "since 0.8",
        "INFO 03-04 10:11:12 [backends.py:292] Directly load the compiled graph(s) for compile range (1, "
        "8192) from the "
        "cache, took 0.202 s",
        {"compile_cache_hit": True},
        fixed={"compile_cache_hit": True},
    ),
    Pattern(
        "graph aot",
        r"Cache the graph (?:of|for) .* for later use|Compiling a graph for (?:dynamic|general|compile)|"
        r"saved AOT compiled function",
        "since 0.8",
        "INFO 03-04 10:11:12 [backends.py:144] Cache the graph for dynamic shape for later use",
        {"compile_cache_hit": False},
        fixed={"compile_cache_hit": False},
    ),
    Pattern(
        "torch compile",
        r"torch\.compile (?:takes|took) (?P<compile_s>[\d.]+) s in total",
        "since 0.8",
        "INFO 03-04 10:11:12 [monitor.py:53] torch.compile took 11.71 s in total",
        {"compile_s": 11.71},
    ),
    Pattern(
        "startup",
        r"Application startup complete",
        "all",
        "INFO:     Application startup complete.",
        {"ready": True},
        fixed={"ready": True},
    ),
)
PATTERNS = (
    *(_STARTUP + _GRAPHS + _MEMORY + _SCHEDULING + KERNELS + STATISTICS),
    sample_pattern("vllm", "6.5e+03"),
)
