"""Tables to verdicts; opens no socket.

in   launches, logs and gates of all arms, rounds 1..look
out  results/<experiment>/{experiment,bytes}.json
     results/<experiment>/look<look>/{differences,cells,prompts,checks}.parquet, gates.json, fit.json,
     verdict.json, findings.json
"""

LOOK = "results/{experiment}/look{look}"


rule resolve:
    output:
        "results/{experiment}/experiment.json",
    params:
        spec=lambda wildcards: settings.canonical(experiment(wildcards.experiment)),
    shell:
        "printf '%s\\n' {params.spec:q} > {output}"


rule differences:
    input:
        per_launch("results/{experiment}/{arm}/{round}/requests.parquet"),
    output:
        f"{LOOK}/differences.parquet",
    params:
        # No hash of the code, and roles in place of the whole experiment: what is made anew here starts a server.
        compared=compared,
    shell:
        "python -m breakeven.stages differences results/{wildcards.experiment} {wildcards.look}"
        " {params.compared:q} {output}"


rule acceptance:
    input:
        experiment="results/{experiment}/experiment.json",
        launches=per_launch("results/{experiment}/{arm}/{round}/launch.json"),
        requests=per_launch("results/{experiment}/{arm}/{round}/requests.parquet"),
        counters=per_launch("results/{experiment}/{arm}/{round}/counters.parquet"),
        logs=per_launch("results/{experiment}/{arm}/{round}/server.log"),
        gates=per_arm("results/{experiment}/{arm}/verify.json"),
        asked=of_baseline("results/{experiment}/{arm}/bring_up.json"),
        traffic="results/{experiment}/bytes.json",
        margins=f"{LOOK}/margins.parquet",
    output:
        cells=f"{LOOK}/cells.parquet",
        prompts=f"{LOOK}/prompts.parquet",
        checks=f"{LOOK}/checks.parquet",
        gates=f"{LOOK}/gates.json",
    params:
        code=code_hash("analysis", "engine", "verify", "stages.py"),
    shell:
        "python -m breakeven.stages acceptance results/{wildcards.experiment} {wildcards.look}"
        " {input.traffic} {input.margins} {output}"


rule fit:
    input:
        experiment="results/{experiment}/experiment.json",
        cells=f"{LOOK}/cells.parquet",
        prompts=f"{LOOK}/prompts.parquet",
        checks=f"{LOOK}/checks.parquet",
        gates=f"{LOOK}/gates.json",
        traffic="results/{experiment}/bytes.json",
    output:
        f"{LOOK}/fit.json",
    params:
        code=code_hash("analysis", "stages.py"),
    shell:
        "python -m breakeven.stages fit {wildcards.look} {input} {output}"


rule traffic:
    input:
        experiment="results/{experiment}/experiment.json",
        verified=of_baseline("results/{experiment}/{arm}/verify.json"),
    output:
        "results/{experiment}/bytes.json",
    params:
        code=code_hash("analysis", "stages.py"),
    shell:
        "python -m breakeven.stages traffic {input} {output}"


checkpoint verdict:
    input:
        experiment="results/{experiment}/experiment.json",
        cells=f"{LOOK}/cells.parquet",
        prompts=f"{LOOK}/prompts.parquet",
        checks=f"{LOOK}/checks.parquet",
        gates=f"{LOOK}/gates.json",
        fit=f"{LOOK}/fit.json",
        traffic="results/{experiment}/bytes.json",
    output:
        f"{LOOK}/verdict.json",
    params:
        code=code_hash("analysis", "stages.py"),
    shell:
        "python -m breakeven.stages verdict {wildcards.look} {input} {output}"


rule findings:
    input:
        f"{LOOK}/verdict.json",
    output:
        f"{LOOK}/findings.json",
    params:
        code=code_hash("publish/ledger/from_verdict.py", "stages.py"),
    shell:
        "python -m breakeven.stages findings results/{wildcards.experiment} {wildcards.look} {output}"
