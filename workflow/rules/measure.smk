"""The only rules that start a server. `shell:`, not `script:`: a touched shim must not cost GPU hours; `exec`, so
that a job is Snakemake's own child: stopped with it, and ended by the kernel if Snakemake is killed.

in   config/experiments/<experiment>.yaml, generated models
out  results/<experiment>/<arm>/{bring_up.log,bring_up.json,verify.json}
     results/<experiment>/<arm>/<round>/{server.log,launch.json,requests,events,counters,telemetry.parquet}
     results/<experiment>/look<look>/{margins.log,margins.parquet}
"""


rule demo_model:
    output:
        f"{settings.DEMO_MODELS}/{settings.Recipe().file_name}",
    shell:
        "python -m breakeven.demo {output}"


rule bring_up:
    input:
        model,
    output:
        "results/{experiment}/{arm}/bring_up.json",
    log:
        "results/{experiment}/{arm}/bring_up.log",
    priority: 2_000_000
    threads: lambda wildcards: workflow.cores or 1
    resources:
        gpu=1,
        # Not a parameter: another baseline must not measure its arms again.
        is_baseline=is_baseline,
    params:
        serve=serve,
    message:
        "bring up {wildcards.experiment}/{wildcards.arm}: one discarded launch"
    shell:
        "exec python -m breakeven.job bring_up {wildcards.experiment} {wildcards.arm} {params.serve:q}"
        " {resources.is_baseline} {log} {output}"


rule verify:
    input:
        bring_up="results/{experiment}/{arm}/bring_up.json",
        log="results/{experiment}/{arm}/bring_up.log",
        base=of_reference("results/{experiment}/{arm}/bring_up.json"),
        base_log=of_reference("results/{experiment}/{arm}/bring_up.log"),
    output:
        "results/{experiment}/{arm}/verify.json",
    priority: 2_000_000
    params:
        wanted=wanted,
        code=code_hash("engine", "verify"),
    message:
        "verify {wildcards.experiment}/{wildcards.arm}: is it the arm it claims to be?"
    shell:
        "exec python -m breakeven.job verify {params.wanted:q} {input} {output}"


rule sweep:
    input:
        model,
        # Not ancient, and bring_up has every parameter that sweep has: `ancient` below hides a sweep's
        # own changed parameters whenever verify runs too (snakemake#4166).
        "results/{experiment}/{arm}/bring_up.json",
        gate=gate,
    output:
        "results/{experiment}/{arm}/{round}/launch.json",
        "results/{experiment}/{arm}/{round}/requests.parquet",
        "results/{experiment}/{arm}/{round}/events.parquet",
        "results/{experiment}/{arm}/{round}/counters.parquet",
        "results/{experiment}/{arm}/{round}/telemetry.parquet",
    log:
        "results/{experiment}/{arm}/{round}/server.log",
    priority: launch_priority
    threads: lambda wildcards: workflow.cores or 1
    resources:
        gpu=1,
        # Not a parameter: an arm that is added later moves the others' slots and must not measure them again.
        slot=slot,
    params:
        serve=serve,
    message:
        "measure {wildcards.experiment}/{wildcards.arm}, round {wildcards.round}"
    shell:
        "exec python -m breakeven.job sweep {wildcards.experiment} {wildcards.arm} {wildcards.round} {resources.slot}"
        " {params.serve:q} {input.gate} {log} results/{wildcards.experiment}/{wildcards.arm}/{wildcards.round}"


rule margins:
    input:
        model,
        differences="results/{experiment}/look{look}/differences.parquet",
    output:
        "results/{experiment}/look{look}/margins.parquet",
    log:
        "results/{experiment}/look{look}/margins.log",
    threads: lambda wildcards: workflow.cores or 1
    resources:
        gpu=1,
    params:
        baseline=lambda wildcards: experiment(wildcards.experiment)["baseline"],
        serve=serve_of_baseline,
    message:
        "margins {wildcards.experiment}: where outputs differ, how sure was the baseline?"
    shell:
        "exec python -m breakeven.job margins {wildcards.experiment} {params.baseline} {params.serve:q}"
        " {input.differences} {log} {output}"
