"""Verdicts to pages; computes nothing.

in   results/<experiment>/look<look>/*, config/ledger/*
out  reports/<experiment>.md, reports/ledger/<experiment>.md, reports/ledger.md, reports/ledger.jsonl
"""


def final_look(wildcards):
    """The last look: fixed rounds are one look, `auto` goes on until it is decided."""
    rounds = experiment(wildcards.experiment)["rounds"]
    for look in settings.LOOKS if rounds == "auto" else [rounds]:
        path = f"results/{wildcards.experiment}/look{look}/verdict.json"
        if rounds == "auto":
            checkpoints.verdict.get(experiment=wildcards.experiment, look=look)
            if json.loads(Path(path).read_text())["decided"]:
                break
    return path


rule report:
    input:
        verdict=final_look,
        
    output:
        "reports/{experiment}.md",
    params:
        code=code_hash("publish", "templates"),
    shell:
        "python -m breakeven.publish.report {wildcards.experiment} {input.verdict} {output}"
