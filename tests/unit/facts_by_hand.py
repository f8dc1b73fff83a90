"""Facts as a log's reader would give them, written by hand: `facts(kv_tokens=1000)` stands on line 1."""

from typing import Any

from breakeven.engine.facts import Fact, Facts, Finding


def facts(engine: str = "vllm", findings: tuple[Finding, ...] = (), **values: Any) -> Facts:
    return Facts(
        engine,
        {
            name: Fact(name, value, source_line=f"INFO the line of {name}", line_number=number)
            for number, (name, value) in enumerate(values.items(), start=1)
        },
        findings,
    )


BASE = facts(
    version="0.31.2",
    model="/models/w8a8",
    dtype="torch.bfloat16",
    tp=1,
    kernel="AiterInt8ScaledMMLinearKernel",
    attention_backend="ROCM_ATTN",
    cudagraph_mode="FULL_AND_PIECEWISE",
    graphs_piecewise=48,
    graphs_full=35,
    kv_tokens=1_000_000,
    max_concurrency=30.5,
    compile_s=31.0,
    spec_active=False,
    spec_initialized=False,
)


def changed(base: Facts, **values: Any) -> Facts:
    """The same log with other values; None takes a fact away."""
    kept = {name: fact.value for name, fact in base.facts.items()} | values
    return facts(base.engine or "vllm", base.findings, **{k: v for k, v in kept.items() if v is not None})


MTP = changed(
    BASE,
    kv_tokens=942_000,
    max_concurrency=28.7,
    spec_active=True,
    spec_initialized=True,
    spec_method="mtp",
    spec_n=1,
    drafter_loaded=True,
    compile_s=47.5,
)
