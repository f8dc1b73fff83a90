"""CPU time of auditing a table of 100,000 rows: `python tests/bench/bench_audit.py [ROWS]`.

Rows are seeded: 20,000 tables of five draft lengths, all kinds of acceptance that one number gives.
"""

import gc
import random
import resource
import sys
import time

from breakeven.analysis.audit.groups import audit
from breakeven.analysis.audit.table import parse
from breakeven.publish.audit import as_json, as_markdown

ARMS = 5


def synthetic(rows: int, seed: int = 1) -> str:
    """CSV text with known a and b per table."""
    draw = random.Random(seed)
    lines = [
        "table,source,engine,model,hardware,N,setting,tok_s,baseline_tok_s,acc_kind,acc_value,acc_definition"
    ]
    for number in range(rows // ARMS):
        base, a, b, alpha = (
            draw.uniform(10, 200),
            draw.uniform(1, 1.3),
            draw.uniform(0.02, 1.2),
            draw.uniform(0.3, 0.95),
        )
        for n in range(1, ARMS + 1):
            length = 1 + n * alpha
            kind, value = draw.choice(
                [("ratio", alpha), ("len", length), ("counts", f'"[1000, {round(1000 * n * alpha)}]"')]
            )
            speed = base * length / (a + b * n)
            lines.append(
                f"T{number},a report,vLLM,a model,a card,{n},,{speed:.3f},{base:.3f},{kind},{value},"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print CPU seconds per stage and peak memory."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    text = synthetic(rows)
    gc.disable()  # as the command does
    print(f"{rows} rows, {len(text) / 1e6:.1f} MB")
    begin = time.process_time()
    audit(parse(text, "bench.csv"))
    print(f"parse and audit  {time.process_time() - begin:6.2f} s")
    for name, render in (("Markdown", as_markdown), ("JSON", as_json)):
        begin = time.process_time()
        page = render(text, "bench.csv")
        print(f"all to {name:9s} {time.process_time() - begin:6.2f} s, {len(page) / 1e6:.0f} MB")
    print(f"peak memory      {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:6.2f} GB")


if __name__ == "__main__":
    main()
