"""What vLLM prints about kernels, backends and the drafter."""

from breakeven.engine.patterns import Pattern

_ATTENTION = (
    Pattern(
        "backends",
        r"Using (?!.*MoE)(?:AttentionBackendEnum\.)?(?P<attention_backends>[\w./-]+(?: [\w./-]+)*?)(?: "
        r"attention)? backend out of potential",
        "since 0.11",
        "INFO 03-04 10:11:12 [cuda.py:372] Using FLASH_ATTN attention backend out of potential backends: "
        "['FLASH_ATTN', "
        "'FLASHINFER'].",
        {"attention_backends": "FLASH_ATTN"},
    ),
    Pattern(
        "using",
        r"Using (?P<attention_backends>[\w./-]+(?: [\w./-]+)*?) backend (?:with \S+ KV (?:cache )?layout "
        r")?on V1 engine",
        "0.8 to 0.11 (V1)",
        "INFO 03-04 10:11:12 [rocm.py:250] Using Triton Attention backend on V1 engine.",
        {"attention_backends": "Triton Attention"},
    ),
    Pattern(
        "backend",
        r"(?:cuda|rocm|selector|xpu|cpu|hpu|tpu|neuron|interface|platform)\.py:\d+\] Using "
        r"(?!.*MoE)(?:AttentionBackendEnum\.)?"
        r"(?P<attention_backends>[\w./-]+(?: [\w./-]+)*?)(?: attention)? backend(?: \([^)]*\))?\s*\.?\s*$",
        "all",
        "INFO 03-04 10:11:12 selector.py:217] Using FlashAttention-2 backend.",
        {"attention_backends": "FlashAttention-2"},
    ),
    Pattern(
        "backend",
        r"Using AttentionBackendEnum\.(?P<attention_backends>\w+) backend",
        "since 0.12, chosen by a person",
        "Using AttentionBackendEnum.TRITON_ATTN backend.",
        {"attention_backends": "TRITON_ATTN"},
    ),
    Pattern(
        "flashattention",
        r"Using FlashAttention version (?P<flash_attn_version>\d)",
        "since 0.8",
        "INFO 03-04 10:11:12 [flash_attn.py:641] Using FlashAttention version 3",
        {"flash_attn_version": 3},
    ),
    Pattern(
        "flashinfer",
        r"FlashInfer resolved query dtypes: .*?\bdecode_backend=(?P<decode_backend>[\w.-]+)",
        "since 0.25",
        "INFO 03-04 10:11:12 [flashinfer.py:780] FlashInfer resolved query dtypes: prefill=torch.bfloat16, "
        "decode=torch.bfloat16, decode_backend=trtllm-gen, kv_cache_dtype=torch.float8_e5m2, arch=sm100",
        {"decode_backend": "trtllm-gen", "kv_dtype": "torch.float8_e5m2", "arch": "sm100"},
        fields={"kv_dtype": r"\bkv_cache_dtype=([\w.]+)", "arch": r"\barch=(\w+)"},
    ),
    Pattern(
        "gdn",
        r"Using (?P<gdn_prefill_kernel>[\w/+. -]+?) GDN prefill kernel",
        "since 0.17",
        "INFO 03-04 10:11:12 [qwen_gdn_linear_attn.py:228] Using Triton/FLA GDN prefill kernel "
        "(requested=auto, "
        "head_k_dim=128).",
        {"gdn_prefill_kernel": "Triton/FLA"},
    ),
    Pattern(
        "gdn",
        r"GDN (?P<gdn_stage>spec decode|decode|prefill) (?:kernel|backend): (?P<gdn_kernel>[\w/+.-]+)",
        "since 0.25",
        "INFO 03-04 10:11:12 [qwen_gdn_linear_attn.py:620] GDN spec decode kernel: CPU",
        {"gdn_stage": "spec decode", "gdn_kernel": "CPU"},
        record="gdn_kernel",
    ),
)
_LAYERS = (
    Pattern(
        "selected using",
        r"\b(?:Selected|Using) (?P<kernel>\w+Kernel\w*) for (?P<kernel_for>\w[\w.]*\w)",
        "since 0.6",
        "(Worker_TP0 pid=7) INFO 03-04 10:11:12 [__init__.py:320] Selected AiterInt8ScaledMMLinearKernel for "
        "CompressedTensorsW8A8Int8",
        {"kernel": "AiterInt8ScaledMMLinearKernel", "kernel_for": "CompressedTensorsW8A8Int8"},
        record="kernel",
    ),
    Pattern(
        "moe",
        r"Using '?(?P<moe_backend>[\w-]+)'? (?P<moe_kind>\w+) MoE backend\b",
        "since 0.14",
        "INFO 03-04 10:11:12 [nvfp4.py:212] Using 'FLASHINFER_CUTLASS' NvFp4 MoE backend out of potential "
        "backends: ['MARLIN']",
        {"moe_backend": "FLASHINFER_CUTLASS", "moe_kind": "NvFp4"},
        record="moe",
    ),
    Pattern(
        "moe",
        r"Using (?P<moe_backend>[\w+-]+(?: [\w+-]+)?) (?:backend|kernels?) for (?P<moe_kind>\w+) MoE",
        "since 0.10",
        "INFO 03-04 10:11:12 [fp8.py:158] Using Triton backend for FP8 MoE",
        {"moe_backend": "Triton", "moe_kind": "FP8"},
        record="moe",
    ),
    Pattern(
        "moe",
        r"Using default MoE config\. Performance might be sub-optimal",
        "all",
        "WARNING 03-04 10:11:12 [fused_moe.py:1085] Using default MoE config. Performance might be "
        "sub-optimal! Config file "
        "not found at ['/c/E=256,N=512,device_name=X.json']",
        {"moe_config": "default"},
        fixed={"moe_config": "default"},
        kind="moe_config_default",
        finding=("warn", "no tuned MoE configuration for this device: the default is used"),
    ),
    Pattern(
        "moe",
        r"Using configuration from (?P<moe_config>\S+) for MoE layer",
        "all",
        "INFO 03-04 10:11:12 [fused_moe.py:1078] Using configuration from /c/E=8.json for MoE layer.",
        {"moe_config": "/c/E=8.json"},
    ),
    Pattern(
        "native",
        r"does not have native support for (?P<wanted>FP8|FP4|NVFP4|MXFP4) computation",
        "since 0.4",
        "WARNING 03-04 10:11:12 [marlin_utils_fp4.py:226] Your GPU does not have native support for FP4 "
        "computation but FP4 "
        "quantization is being used. Weight-only FP4 compression will be used leveraging the Marlin kernel.",
        {"wanted": "FP4"},
        record="weight_only",
        kind="kernel_fallback",
        finding=("warn", "no native {wanted} on this device: weight-only Marlin kernel"),
    ),
    Pattern(
        "available",
        r"(?P<wanted>\w+) backend (?:is )?not available[.,;]? *(?:[Uu]sing|[Ff]alling back to) "
        r"(?P<fallback>\w+)",
        "AITER",
        "GLUON backend not available. Using TRITON backend!!!",
        {"wanted": "GLUON", "fallback": "TRITON"},
        record="fallback",
        kind="kernel_fallback",
        finding=("warn", "{wanted} is not available, {fallback} is used"),
    ),
    Pattern(
        "falling fallback",
        r"[Ff]all(?:ing)?[ -]?back to (?:the )?(?P<fallback>[\w./-]+(?: [\w./-]+){0,3})",
        "all",
        "WARNING 03-04 10:11:12 [rocm_aiter.py:90] AITER MLA is not supported, falling back to TRITON_MLA.",
        {"fallback": "TRITON_MLA."},
        record="fallback_note",
        kind="falls_back",
        finding=("warn", "falls back to {fallback}"),
    ),
    Pattern(
        "unsupported supported capability kint8 kernel_supported cutlass_fp8_supported image",
        r"No compiled \w*scaled_mm for a compute capability|Expected a\.dtype\(\) == torch::kInt8|no "
        r"kernel image is available for "
        r"execution|cutlass_fp8_supported\(\)\D*False|[Kk]ernel\w* .*?(?:is )?not supported (?:on|by|for) "
        r"(?:this |the )?(?:current )?"
        r"(?:device|GPU|platform|SM|sm|compute capability|gfx)|requires compute capability",
        "all",
        "RuntimeError: No compiled cutlass_scaled_mm for a compute capability less than CUDA device "
        "capability: 80",
        {"kernel_unsupported_on_device": True},
        fixed={"kernel_unsupported_on_device": True},
        kind="kernel_unsupported_on_device",
        finding=("error", "a kernel was chosen that this device cannot run"),
    ),
    Pattern(
        "jit",
        r"JIT compilation during inference: (?P<jit_kernel>\w[\w.]*\w)",
        "since 0.20",
        "WARNING 03-04 10:11:12 [jit_monitor.py:103] Triton kernel JIT compilation during inference: "
        "_my_kernel. This causes a "
        "latency spike; consider extending warmup to cover this shape/config.",
        {"jit_kernel": "_my_kernel"},
        record="jit",
        kind="cold_first_request",
        finding=(
            "warn",
            "kernels are compiled while serving ({jit_kernel}): requests before the last such line are cold",
        ),
    ),
)
_DRAFTER = (
    Pattern(
        "drafter",
        r"Loading drafter model",
        "since 0.9",
        "(Worker pid=7) INFO 03-04 10:11:12 [gpu_model_runner.py:4840] Loading drafter model...",
        {"drafter_loaded": True},
        fixed={"drafter_loaded": True},
    ),
    Pattern(
        "sharing",
        r"Detected (?P<drafter_kind>[\w-]+) model.*[Ss]haring target model (?P<shared>embedding|lm_head)",
        "since 0.11",
        "INFO 03-04 10:11:12 [llm_base_proposer.py:1390] Detected MTP model. Sharing target model lm_head "
        "weights with the "
        "draft model.",
        {"drafter_kind": "MTP", "shared": "lm_head", "drafter_loaded": True},
        fixed={"drafter_loaded": True},
        record="shared",
    ),
    Pattern(
        "shares",
        r"EAGLE head shares the same vocab embedding",
        "0.8 to 0.10",
        "INFO 03-04 10:11:12 [eagle.py:312] Assuming the EAGLE head shares the same vocab embedding with "
        "the target model.",
        {"embedding_shared": True, "drafter_loaded": True},
        fixed={"embedding_shared": True, "drafter_loaded": True},
    ),
    Pattern(
        "lm",
        r"Loading EAGLE LM head weights from the target model",
        "0.8 to 0.11",
        "INFO 03-04 10:11:12 [eagle.py:330] Loading EAGLE LM head weights from the target model.",
        {"lm_head_shared": True, "drafter_loaded": True},
        fixed={"lm_head_shared": True, "drafter_loaded": True},
    ),
    Pattern(
        "deprecated",
        r"method `(?P<spec_method_asked>\w+)` is deprecated and replaced with (?P<spec_method_used>\w+)",
        "since 0.11",
        "WARNING 03-04 10:11:12 [speculative.py:1142] method `ernie_mtp` is deprecated and replaced with "
        "mtp.",
        {"spec_method_asked": "ernie_mtp", "spec_method_used": "mtp"},
    ),
    Pattern(
        "num_speculative_tokens",
        r"Enabling num_speculative_tokens > 1 will run multiple times of forward on same MTP layer",
        "since 0.10",
        "WARNING 03-04 10:11:12 [speculative.py:940] Enabling num_speculative_tokens > 1 will run multiple "
        "times of forward on "
        "same MTP layer, which may result in lower acceptance rate",
        {},
        record="warning",
        kind="mtp_layer_reused",
        finding=("warn", "one MTP layer is run several times per draft: acceptance falls with the position"),
    ),
    Pattern(
        "initialized",
        r"[Ww]eights (?:of .{0,80}?)?were not initialized\b[^\[{]*(?P<weights_uninitialized>[\[{].*)",
        "all",
        "ValueError: Following weights were not initialized from checkpoint: {'model.mtp.fc.weight', "
        "'model.norm.weight'}",
        {"weights_uninitialized": ["model.mtp.fc.weight", "model.norm.weight"]},
        kind="weights_uninitialized",
        finding=("error", "weights were not initialised from the checkpoint: {weights_uninitialized}"),
    ),
    Pattern(
        "unexpected",
        r"(?:[Uu]nexpected|[Uu]nused|[Ss]kipping unexpected) (?:weight|parameter|key)s?\b[^:]*: "
        r"*(?P<weights_unexpected>\S+)",
        "all",
        "WARNING 03-04 10:11:12 [utils.py:310] Skipping unexpected weight in the checkpoint: model.mtp.x",
        {"weights_unexpected": "model.mtp.x"},
        kind="weights_unexpected",
        finding=("warn", "the checkpoint holds weights that the model does not use: {weights_unexpected}"),
    ),
    Pattern(
        "params_dict",
        r"[Pp]arameter (?P<weights_unexpected>\S+) not found in params_dict",
        "all",
        "WARNING 03-04 10:11:12 [qwen3_next_mtp.py:200] Parameter mtp.x not found in params_dict, skip "
        "loading",
        {"weights_unexpected": "mtp.x"},
        kind="weights_unexpected",
        finding=("warn", "the checkpoint holds weights that the model does not use: {weights_unexpected}"),
    ),
)
KERNELS = _ATTENTION + _LAYERS + _DRAFTER
