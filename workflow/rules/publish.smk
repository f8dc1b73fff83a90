"""Verdicts to pages; computes nothing.

in   results/<experiment>/look<look>/{verdict,findings}.json and what they rest on, config/ledger/*
out  reports/<experiment>.md, reports/<experiment>.html, reports/figures/<experiment>/*
     reports/ledger/<experiment>.md, results/<experiment>/ledger.json
     reports/ledger.md, reports/ledger.jsonl: all experiments, written anew with every entry
"""


report: "../report/workflow.rst"


rule report:
    input:
        verdict=final_look,
        findings=final_findings,
        ledger="reports/ledger/{experiment}.md",
    output:
        report(
            "reports/{experiment}.md",
            caption="../report/markdown.rst",
            category="Report",
            labels={"experiment": "{experiment}", "form": "Markdown"},
        ),
        report(
            "reports/{experiment}.html",
            caption="../report/page.rst",
            category="Report",
            labels={"experiment": "{experiment}", "form": "page"},
        ),
        report(
            directory("reports/figures/{experiment}"),
            patterns=["{figure}.svg"],
            caption="../report/figure.rst",
            category="Figures",
            labels={"experiment": "{experiment}", "figure": "{figure}"},
        ),
    params:
        code=code_hash("publish/report", "publish/escape.py", "templates"),
    message:
        "report {wildcards.experiment}"
    shell:
        "python -m breakeven.publish.report {wildcards.experiment} {input.verdict} {output}"


rule ledger_entry:
    input:
        hand_written,
        findings=final_findings,
    output:
        page=report(
            "reports/ledger/{experiment}.md",
            caption="../report/ledger.rst",
            category="Ledger",
            labels={"experiment": "{experiment}"},
        ),
        entries="results/{experiment}/ledger.json",
    # The index holds all experiments: two entries at once would each write it without the other.
    threads: lambda wildcards: workflow.cores or 1
    params:
        code=code_hash("publish/ledger", "publish/escape.py", "templates", "schemas"),
    message:
        "file the findings of {wildcards.experiment} in the ledger"
    # Entries of other experiments are found here and are no input: prior art must never start a server.
    shell:
        """
        shopt -s nullglob
        previous=()
        for entries in results/*/ledger.json; do previous+=(--previous "$entries"); done
        python -m breakeven.publish.ledger entry {input.findings} {output} "${{previous[@]}}"
        python -m breakeven.publish.ledger index reports/ledger.md reports/ledger.jsonl results/*/ledger.json
        """


rule structure:
    input:
        "results/{experiment}/experiment.json",
        per_arm("results/{experiment}/{arm}/verify.json"),
        per_arm("results/{experiment}/{arm}/bring_up.json"),
    output:
        "reports/{experiment}.structure.md",
    params:
        code=code_hash("publish/structure.py", "publish/escape.py", "verify", "templates/structure.md.j2"),
    message:
        "what differs between the arms of {wildcards.experiment}"
    shell:
        "python -m breakeven.publish.structure results/{wildcards.experiment} {output}"
