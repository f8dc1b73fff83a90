"""What llama.cpp prints at start-up, 2023 to b11549: model, memory, threads, devices, speculation.

A target is loaded first, then perhaps a drafter that prints the same lines: `opens` tells them apart.
"""

from breakeven.engine.patterns import Pattern
from breakeven.engine.patterns.llamacpp_statistics import STATISTICS
from breakeven.engine.patterns.metrics import sample_pattern

_PROGRAM = (
    Pattern(
        "build version",
        r"(?:\bbuild[ :=]+|^version: )(?P<build>\d+) \((?P<build_commit>[\w.+-]+)\)",
        "all",
        "main: build = 2345 (abcdef1)",
        {"build": 2345, "build_commit": "abcdef1"},
    ),
    Pattern(
        "build_info",
        r"build_info: b(?P<build>\d+)-(?P<build_commit>[\w.]+)",
        "since 2025-11",
        "llama_server: build_info: b9871-abcdef123",
        {"build": 9871, "build_commit": "abcdef123"},
    ),
    Pattern(
        "verbosity",
        r"\bverbosity = (?P<verbosity>\d+)",
        "since b9000",
        "0.00.004.024 I cmn  common_param: common_params_print_info: verbosity = 4 (adjust with the `-lv "
        "N` CLI arg)",
        {"verbosity": 4},
    ),
    Pattern(
        "n_threads",
        r"\bn_threads = (?P<threads>\d+)(?: \(n_threads_batch = (?P<threads_batch>\d+)\))? / (?P<cores>\d+)",
        "all",
        "system_info: n_threads = 4 (n_threads_batch = 4) / 8 | CPU : SSE3 = 1 | AVX = 1 | AVX2 = 0 | ",
        {
            "threads": 4,
            "threads_batch": 4,
            "cores": 8,
            "system_info": "CPU : SSE3 = 1 | AVX = 1 | AVX2 = 0 |",
        },
        fields={"system_info": r"/ \d+ \| (.*)"},
        record="system_info",
    ),
    Pattern(
        "threadpool",
        r"llama threadpool init, n_threads = (?P<threads>\d+)",
        "since b5000",
        "0.00.055.700 I cmn          init: llama threadpool init, n_threads = 1",
        {"threads": 1},
    ),
    Pattern(
        "found",
        r"\bfound (?P<devices>\d+) (?P<backend>ROCm|CUDA|Vulkan|SYCL|MUSA|HIP|CANN|OpenCL)\w* devices",
        "all",
        "ggml_cuda_init: found 2 CUDA devices:",
        {"devices": 2, "backend": "CUDA"},
    ),
    Pattern(
        "found",
        r"\bFound (?P<devices>\d+) (?P<backend>Vulkan|SYCL|CANN|OpenCL)\w* devices",
        "all",
        "ggml_vulkan: Found 1 Vulkan devices:",
        {"devices": 1, "backend": "Vulkan"},
    ),
    Pattern(
        "device",
        r"^\W*(?:[\d.]+ \w )?\s*Device (?P<device_index>\d+): (?P<device_name>[^,]*), compute capability "
        r"(?P<compute_capability>[\d.]+)",
        "all CUDA and HIP builds",
        "  Device 0: Radeon Pro X, compute capability 9.0, VMM: no",
        {"device_index": "0", "device_name": "Radeon Pro X", "compute_capability": "9.0"},
        record="device",
    ),
    Pattern(
        "device",
        r"Device (?P<device_index>\d+): (?P<device_name>[^,]*), (?P<gfx>gfx\w+)",
        "HIP builds since 2025",
        "  Device 0: AMD Radeon X, gfx906:sramecc+:xnack- (0x906), VMM: no, Wave Size: 64",
        {"device_index": "0", "device_name": "AMD Radeon X", "gfx": "gfx906"},
        record="device",
    ),
    Pattern(
        "ggml_vulkan",
        r"ggml_vulkan: (?P<device_index>\d+) = (?P<device_name>[^|]*?) *(?:\||$)",
        "Vulkan builds",
        "ggml_vulkan: 0 = AMD Radeon X (RADV GFX1150) (radv) | uma: 1 | fp16: 1",
        {"device_index": "0", "device_name": "AMD Radeon X (RADV GFX1150) (radv)"},
        record="device",
    ),
    Pattern(
        "ggml_metal_init ggml_metal_device_init",
        r"ggml_metal\w*: (?:found device|GPU name|picking default device): +(?P<device_name>.+?)\s*$",
        "Metal builds",
        "ggml_metal_init: found device: Apple M2 Max",
        {"device_name": "Apple M2 Max", "device_index": "0"},
        fixed={"device_index": "0"},
        record="device",
    ),
    Pattern(
        "ggml_cuda_force_mmq",
        r"GGML_CUDA_FORCE_MMQ: +(?P<force_mmq>yes|no)",
        "to 2025",
        "ggml_cuda_init: GGML_CUDA_FORCE_MMQ:    no",
        {"force_mmq": False},
    ),
    Pattern(
        "loaded",
        r"load_backend: loaded (?P<backends>\w+) backend from",
        "since b4300",
        "load_backend: loaded CPU backend from /opt/libggml-cpu-haswell.so",
        {"backends": "CPU"},
    ),
    Pattern(
        "using",
        r"using device (?P<devices_used>\w+) \(",
        "since b4200",
        "llama_model_load_from_file_impl: using device ROCm0 (AMD Radeon X) (0000:03:00.0) - 32000 MiB free",
        {"devices_used": "ROCm0"},
    ),
    Pattern(
        "listening loaded",
        r"\bmodel loaded\s*$|server is listening on|\blistening on http",
        "all servers",
        "0.00.048.596 I srv  llama_server: model loaded",
        {"ready": True},
        fixed={"ready": True},
    ),
)
_MODEL = (
    Pattern(
        "from",
        r"loaded meta data with \d+ key-value pairs and \d+ tensors from (?P<model>.+?) \(version",
        "all",
        "llama_model_loader: loaded meta data with 31 key-value pairs and 71 tensors from /srv/m.gguf "
        "(version GGUF V3 (latest))",
        {"model": "/srv/m.gguf"},
    ),
    Pattern(
        "loading",
        r"\bload_model: loading model '(?P<model>[^']*)'",
        "since b4000",
        "srv    load_model: loading model '/srv/m.gguf'",
        {"model": "/srv/m.gguf"},
        opens="",
    ),
    Pattern(
        "arch",
        r"print_(?:info|meta): arch +[:=] (?P<arch>\S+)",
        "all",
        "print_info: arch                  = qwen35",
        {"arch": "qwen35"},
    ),
    Pattern(
        "file ftype",
        r"print_(?:info|meta): (?:file type|model ftype) +[:=] (?P<quant>.+?)\s*$",
        "all",
        "print_info: file type   = Q4_K - Medium",
        {"quant": "Q4_K - Medium"},
    ),
    Pattern(
        "model",
        r"print_(?:info|meta): model type +[:=] (?P<model_type>\S+)",
        "all",
        "print_info: model type            = 27B",
        {"model_type": "27B"},
    ),
    Pattern(
        "n_ctx_train",
        r"print_(?:info|meta): n_ctx_train +[:=] (?P<n_ctx_train>\d+)",
        "all",
        "print_info: n_ctx_train           = 8192",
        {"n_ctx_train": 8192},
    ),
    Pattern(
        "n_layer",
        r"print_(?:info|meta): n_layer +[:=] (?P<n_layer>\d+)",
        "all",
        "print_info: n_layer               = 64",
        {"n_layer": 64},
    ),
    Pattern(
        "n_expert",
        r"print_(?:info|meta): n_expert +[:=] (?P<n_expert>\d+)",
        "all",
        "print_info: n_expert              = 128",
        {"n_expert": 128},
    ),
    Pattern(
        "offloaded",
        r"\boffloaded (?P<layers_done>\d+)/(?P<layers_all>\d+) layers to GPU",
        "all",
        "load_tensors: offloaded 33/33 layers to GPU",
        {"layers_done": 33, "layers_all": 33},
        record="offload",
    ),
    Pattern(
        "buffer",
        r"load_tensors: +(?P<buffer_device>[\w*-]+) (?:model )?buffer size = +(?P<mib>[\d.]+) MiB",
        "since 2023-12",
        "load_tensors:        CUDA0 model buffer size =  8045.05 MiB",
        {"buffer_device": "CUDA0", "mib": 8045.05},
        record="model_buffer",
    ),
    Pattern(
        "bias",
        r"added (?P<biased_token>\S+) logit bias = -inf",
        "since b8000",
        "common_init_result: added <|im_end|> logit bias = -inf",
        {"biased_token": "<|im_end|>"},
        record="eos_biased",
    ),
)
_CONTEXT = (
    Pattern(
        "n_ctx",
        r"\b(?:llama_(?:new_context_with_model|context|init_from_model|model_load_internal)|main|"
        r"load_model).{0,3} n_ctx +[:=] "
        r"(?P<n_ctx>\d+)",
        "all",
        "llama_context: n_ctx         = 262144",
        {"n_ctx": 262144},
    ),
    Pattern(
        "n_ctx_seq n_ctx_per_seq",
        r"\bn_ctx_(?:per_)?seq +(?:[:=] |\()(?P<n_ctx_seq>\d+)",
        "since b4100",
        "llama_context: n_ctx_seq     = 4096",
        {"n_ctx_seq": 4096},
    ),
    Pattern(
        "n_ctx_train",
        r"\bn_ctx\w* \(\d+\) [<>] n_ctx_train \((?P<n_ctx_train>\d+)\)",
        "since b4100",
        "W llama_context: n_ctx_seq (72192) < n_ctx_train (262144) -- the full capacity of the model will "
        "not be utilized",
        {"n_ctx_train": 262144},
    ),
    Pattern(
        "n_batch",
        r": n_batch +[:=] (?P<n_batch>\d+)",
        "all",
        "llama_context: n_batch       = 2048",
        {"n_batch": 2048},
    ),
    Pattern(
        "n_ubatch",
        r": n_ubatch +[:=] (?P<n_ubatch>\d+)",
        "since 2024-03",
        "llama_context: n_ubatch      = 512",
        {"n_ubatch": 512},
    ),
    Pattern(
        "kv_unified",
        r"kv_unified += (?P<kv_unified>true|false)",
        "since b6000",
        "llama_context: kv_unified            = false",
        {"kv_unified": False},
    ),
    Pattern(
        "flash_attn",
        r"\bflash_attn +[:=] (?P<flash_attn>\w+)",
        "since 2024-05",
        "llama_context: flash_attn    = auto",
        {"flash_attn": "auto"},
    ),
    Pattern(
        "flash",
        r"Flash Attention (?:was auto, set to )?(?P<flash_attn_enabled>enabled|disabled)\b",
        "since b6300",
        "resolve_fused_ops: Flash Attention enabled",
        {"flash_attn_enabled": True},
    ),
    Pattern(
        "gated",
        r"fused Gated Delta Net \((?P<gdn_stage>\w+)\) (?P<gdn_fused>enabled|disabled|not supported)",
        "since b8200",
        "resolve_fused_ops: fused Gated Delta Net (chunked) enabled",
        {"gdn_stage": "chunked", "gdn_fused": True},
        record="gdn_fused",
    ),
    Pattern(
        "buffer",
        r"(?P<buffer_device>[\w*-]+) KV buffer size = +(?P<mib>[\d.]+) MiB",
        "all",
        "llama_kv_cache_init:      CUDA1 KV buffer size =  3584.00 MiB",
        {"buffer_device": "CUDA1", "mib": 3584.0},
        record="kv_buffer",
    ),
    Pattern(
        "compute",
        r"(?P<buffer_device>[\w*-]+) compute buffer size = +(?P<mib>[\d.]+) MiB",
        "since 2023-12",
        "sched_reserve:      CUDA0 compute buffer size =   130.02 MiB",
        {"buffer_device": "CUDA0", "mib": 130.02},
        record="compute_buffer",
    ),
    Pattern(
        "n_rs_seq n_outputs_max",
        r"llama_context: (?:n_rs_seq += (?P<n_rs_seq>\d+)|n_outputs_max += (?P<n_outputs_max>\d+))",
        "since b9000",
        "llama_context: n_rs_seq              = 3",
        {"n_rs_seq": 3},
    ),
    Pattern(
        "self",
        r"(?i:KV self size) += +(?P<kv_mib>[\d.]+) Mi?B(?:, K \((?P<kv_type_k>\w+)\): "
        r"+(?P<kv_k_mib>[\d.]+) MiB, "
        r"V \((?P<kv_type_v>\w+)\): +"
        r"(?P<kv_v_mib>[\d.]+) MiB)?",
        "to b5200",
        "llama_new_context_with_model: KV self size  = 5120.00 MiB, K (f16): 2560.00 MiB, V (f16): 2560.00 "
        "MiB",
        {"kv_mib": 5120.0, "kv_type_k": "f16", "kv_k_mib": 2560.0, "kv_type_v": "f16", "kv_v_mib": 2560.0},
    ),
    Pattern(
        "llama_kv_cache llama_kv_cache_unified",
        r"llama_kv_cache\w*: size = +(?P<kv_mib>[\d.]+) MiB \( *(?P<kv_cells>\d+) cells.*?\), K "
        r"\((?P<kv_type_k>\w+)\): +(?P<kv_k_mib>[\d.]+) "
        r"MiB, V \((?P<kv_type_v>\w+)\): +(?P<kv_v_mib>[\d.]+) MiB",
        "since b5300; sliding-window models print one line a cache",
        "llama_kv_cache: size =    2.00 MiB (  4096 cells,   1 layers,  1/1 seqs), K (f16):    1.00 MiB, V "
        "(q8_0):    1.00 MiB",
        {
            "kv_mib": 2.0,
            "kv_cells": 4096,
            "kv_type_k": "f16",
            "kv_k_mib": 1.0,
            "kv_type_v": "q8_0",
            "kv_v_mib": 1.0,
        },
    ),
    Pattern(
        "kv_size",
        r"\bkv_size = (?P<kv_size>\d+)",
        "to b5400",
        "llama_kv_cache_unified: kv_size = 4096, type_k = 'f16', type_v = 'q8_0', n_layer = 32, can_shift "
        "= 1, padding = 256",
        {"kv_size": 4096, "kv_type_k": "f16", "kv_type_v": "q8_0"},
        fields={"kv_type_k": r"type_k = '(\w+)'", "kv_type_v": r"type_v = '(\w+)'"},
    ),
    Pattern(
        "llama_memory_recurrent",
        r"llama_memory_recurrent: size = +(?P<recurrent_mib>[\d.]+) MiB",
        "since b5600",
        "llama_memory_recurrent: size =    0.82 MiB (     1 cells,   4 layers,  1 seqs  3 rs_seq), R "
        "(f32):    0.07 MiB",
        {"recurrent_mib": 0.82, "hybrid": True},
        fixed={"hybrid": True},
    ),
    Pattern(
        "nodes",
        r"graph(?:: | )nodes += +(?P<graph_nodes>\d+)",
        "since 2023-12",
        "sched_reserve: graph: nodes = 257, splits = 1, input objects = 4",
        {"graph_nodes": 257, "graph_splits": 1},
        fields={"graph_splits": r"splits = (\d+)"},
    ),
    Pattern(
        "splits",
        r"graph splits += +(?P<graph_splits>\d+)",
        "2024 to b10500",
        "llama_context: graph splits = 2 (with bs=512), 1 (with bs=1)",
        {"graph_splits": 2},
    ),
    Pattern(
        "n_slots",
        r"\bn_slots = (?P<n_slots>\d+)",
        "since 2023-12",
        "srv    load_model: initializing, n_slots = 1, n_ctx_slot = 4096, kv_unified = 'false'",
        {"n_slots": 1, "n_ctx_slot": 4096},
        fields={"n_ctx_slot": r"n_ctx_slot = (\d+)"},
    ),
)
_SPECULATION = (
    Pattern(
        "draft",
        r"loading draft model '(?P<draft_model>[^']*)'",
        "since 2025-03",
        "srv    load_model: loading draft model '/srv/d.gguf'",
        {"draft_model": "/srv/d.gguf", "drafter_loaded": True},
        fixed={"drafter_loaded": True},
        opens="draft_",
    ),
    Pattern(
        "mtp",
        r"creating MTP draft context against the target model '(?P<draft_model>[^']*)'",
        "since b9000",
        "common_speculative_init_result: creating MTP draft context against the target model '/srv/m.gguf'",
        {"draft_model": "/srv/m.gguf", "drafter_loaded": True},
        fixed={"drafter_loaded": True},
        opens="draft_",
    ),
    Pattern(
        "mtp",
        r"estimated memory usage of MTP context is (?P<mtp_ctx_mib>[\d.]+) MiB",
        "b9000 to b10500",
        "srv load_model: [spec] estimated memory usage of MTP context is 420.52 MiB",
        {"mtp_ctx_mib": 420.52},
    ),
    Pattern(
        "implementation",
        r"adding (?:speculative )?implementation '?(?P<spec_types>[\w-]+)'?",
        "since b7800",
        "0.00.123.000 I spec common_specu: adding speculative implementation 'draft-mtp'",
        {"spec_types": "draft-mtp"},
        opens="-",
    ),
    Pattern(
        "n_max",
        r"- n_max=(?P<n_max>\d+), n_min=(?P<n_min>\d+), p_min=(?P<p_min>[\d.]+)",
        "since b9000",
        "0.00.123.004 I spec common_specu: - n_max=3, n_min=0, p_min=0.25, n_embd=256, backend_sampling=1",
        {"n_max": 3, "n_min": 0, "p_min": 0.25},
    ),
    Pattern(
        "n_match",
        r"- n_match=(?P<n_match>\d+), n_max=(?P<n_max>\d+), n_min=(?P<n_min>\d+)",
        "since b9000 (ngram-mod)",
        "0.00.460.015 I spec common_specu: - n_match=6, n_max=8, n_min=1",
        {"n_match": 6, "n_max": 8, "n_min": 1},
    ),
    Pattern(
        "size_n",
        r"- size_n=(?P<size_n>\d+), size_m=(?P<size_m>\d+), min_hits=(?P<min_hits>\d+)",
        "since b9000 (ngram-simple)",
        "0.00.341.859 I spec common_specu: - size_n=4, size_m=8, min_hits=1",
        {"size_n": 4, "size_m": 8, "min_hits": 1},
    ),
    Pattern(
        "block_size",
        r"- block_size=(?P<block_size>\d+)",
        "since b9800 (dflash)",
        "0.00.087.078 I common_speculative_impl_draft_dflash: - block_size=16, mask_token_id=248077, "
        "n_extract=8",
        {"block_size": 16, "n_extract": 8},
        fields={"n_extract": r"n_extract=(\d+)"},
    ),
    Pattern(
        "cache_k",
        r"- gpu_layers=-?\d+, cache_k=(?P<cache_k>\w+), cache_v=(?P<cache_v>\w+)",
        "since b9000",
        "0.00.123.005 I spec common_specu: - gpu_layers=-1, cache_k=f16, cache_v=q8_0, ctx_tgt=yes, "
        "ctx_dft=yes, devices=[default]",
        {"cache_k": "f16", "cache_v": "q8_0"},
    ),
    Pattern(
        "clamp clamping clamped",
        r"(?P<spec_n_asked>\d+)\D.*?\bclamp(?:ing|ed)?\b.*?\bto (?:block_size - 1 "
        r")?[(=]?(?P<n_max_clamped>\d+)",
        "dflash",
        "W requested 24 draft tokens exceeds DFlash block capacity; clamping to 15",
        {"spec_n_asked": 24, "n_max_clamped": "15"},
        record="clamp",
        kind="draft_length_clamped",
        finding=("warn", "{spec_n_asked} draft tokens were asked for, {n_max_clamped} are drafted"),
    ),
    Pattern(
        "clamp clamping clamped",
        r"\bclamp(?:ing|ed)? [\w.]*n_max[\w. ]*?from (?P<spec_n_asked>\d+) to (?P<n_max_clamped>\d+)",
        "dflash",
        "W common_speculative_impl_draft_dflash: clamping n_max from 24 to 15 (block_size - 1)",
        {"spec_n_asked": 24, "n_max_clamped": "15"},
        record="clamp",
        kind="draft_length_clamped",
        finding=("warn", "{spec_n_asked} draft tokens were asked for, {n_max_clamped} are drafted"),
    ),
    Pattern(
        "initialized",
        r"speculative decoding context initialized",
        "since b7000",
        "0.00.152.263 I srv    load_model: speculative decoding context initialized",
        {"spec_initialized": True},
        fixed={"spec_initialized": True},
        opens="-",
    ),
    Pattern(
        "implementations",
        r"no implementations specified for speculative decoding",
        "since b7800",
        "0.00.046.755 I spec common_specu: no implementations specified for speculative decoding",
        {"spec_initialized": False, "spec_none": True},
        fixed={"spec_initialized": False, "spec_none": True},
        opens="-",
    ),
    Pattern(
        "speculative mtp draft",
        r"failed to initialize speculative decoding context: (?P<spec_failure>.+?)\s*$",
        "since b9000",
        "E srv    load_model: failed to initialize speculative decoding context: draft-simple requires a "
        "draft context",
        {"spec_failure": "draft-simple requires a draft context", "spec_initialized": False},
        fixed={"spec_initialized": False},
        kind="spec_failed",
        finding=("error", "speculation could not start and the server goes on without it: {spec_failure}"),
    ),
    Pattern(
        "mtp draft speculative drafts vocabs compatible",
        r"(?P<spec_failure>failed to create MTP context|failed to load draft model|context type MTP "
        r"requested but model doesn't contain MTP layers|"
        r"the target and draft vocabs are not compatible|draft model .* is not compatible with the target "
        r"model|"
        r"speculative decoding (?:is )?not supported[^'\"]*)",
        "since 2025-03",
        "E spec common_specu: the target and draft vocabs are not compatible",
        {"spec_failure": "the target and draft vocabs are not compatible", "spec_initialized": False},
        fixed={"spec_initialized": False},
        kind="spec_failed",
        finding=("error", "speculation could not start: {spec_failure}"),
    ),
    Pattern(
        "synthetic",
        r"synthetic speculative acceptance is enabled",
        "since b10000",
        "W spec common_specu: synthetic speculative acceptance is enabled for benchmarking; generated "
        "output is not valid",
        {"synthetic_acceptance": True},
        fixed={"synthetic_acceptance": True},
        kind="synthetic_acceptance",
        finding=("warn", "acceptance is synthetic: steps cost what they cost, the text is not valid"),
    ),
)
PATTERNS = (*(_PROGRAM + _MODEL + _CONTEXT + _SPECULATION + STATISTICS), sample_pattern("llamacpp", "134"))
