"""Tables that others published, read again under the right definitions; starts nothing.

in   config/audits/<audit>.csv
out  reports/audit/<audit>.md
"""


rule audit:
    input:
        "config/audits/{audit}.csv",
    output:
        "reports/audit/{audit}.md",
    wildcard_constraints:
        audit="[A-Za-z0-9_-]+",
    params:
        code=code_hash("analysis", "publish/audit.py", "publish/escape.py", "templates/audit.md.j2"),
    message:
        "audit {wildcards.audit}"
    shell:
        "python -m breakeven.publish.audit {input} {output}"
