"""Does the pipeline find what is known to be true? Its own code against reference servers; needs a checkout.

in   tests/reference_server, tests/truth_report, the demo's model
out  results/truth/<section>.json, reports/truth.md
"""

TRUTH_SECTIONS = [
    *("recovery", "cost", "checks", "outputs", "same", "mi210", "drift", "overhead", "embedded", "harness"),
]
TRUTH_CODE = Path(workflow.basedir, "tests")


rule truth_section:
    input:
        # Its age never counts: the same recipe gives the same file.
        lambda wildcards: (
            ancient(f"{settings.DEMO_MODELS}/{settings.Recipe().file_name}")
            if wildcards.section == "embedded"
            else []
        ),
    output:
        "results/truth/{section}.json",
    wildcard_constraints:
        section="|".join(TRUTH_SECTIONS),
    threads: lambda wildcards: workflow.cores or 1
    resources:
        gpu=1,
    params:
        server=code_hash("reference_server", "truth_report", "bench", below=TRUTH_CODE),
        code=code_hash("analysis", "engine", "measure"),
        tests=str(TRUTH_CODE),
    message:
        "truth: {wildcards.section}"
    shell:
        "PYTHONPATH={params.tests:q}${{PYTHONPATH:+:$PYTHONPATH}} python -m truth_report {wildcards.section} {output}"


rule truth:
    input:
        expand("results/truth/{section}.json", section=TRUTH_SECTIONS),
    output:
        "reports/truth.md",
    params:
        code=code_hash("publish/escape.py", "publish/report/table.py", "templates/truth.md.j2"),
        tests=str(TRUTH_CODE),
    message:
        "the truth report"
    shell:
        "PYTHONPATH={params.tests:q}${{PYTHONPATH:+:$PYTHONPATH}} python -m truth_report page {output} {input}"
