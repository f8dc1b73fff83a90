"""A ledger of 10,000 entries is read, merged, checked, searched and written in seconds.

Measured on two shared x86-64 cores: read 3.3 s (schema), merge 0.3 s, check 0.1 s,
search 0.3 s, index page and JSONL 1.2 s.
"""

import random
import time

import pytest

from breakeven.publish.ledger.build import Notes, build
from breakeven.publish.ledger.check import check
from breakeven.publish.ledger.entry import CLOSED, IN_FAVOUR, Entry, Reopen, ledger_jsonl
from breakeven.publish.ledger.inputs import read_entries
from breakeven.publish.ledger.pages import index_page
from breakeven.publish.ledger.search import search

COUNT = 10_000


def entries():
    """200 leads on 3 x 5 x 4 settings; dates over four years, so that later results overturn earlier ones."""
    draw = random.Random(1)
    verdicts = [*sorted(CLOSED), *sorted(IN_FAVOUR), "noise", "blocked", "diagnosis", "open-defect"]
    for number in range(COUNT):
        verdict = draw.choice(verdicts)
        yield Entry(
            f"exp{number}-arm-decode", f"lead-{draw.randrange(200)}", verdict, "measured",
            date=f"20{draw.randrange(22, 26)}-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}",
            experiment=f"exp{number}", engine=draw.choice(["vllm", "llamacpp", "sglang"]),
            model=f"model {draw.randrange(5)}", hardware=f"device {draw.randrange(4)}", metric="tg256 @ d0",
            factor=1.5, interval=(1.4, 1.6), level=0.95, quantities={"a": 1.05, "b": 0.14},
            reason="the drafter costs more than it saves on prompts of this class",
            sentence="Speculation was measured and this is what came out of it.",
            reopen=(Reopen("b < 0.89 at N = 1", "b", "<", 0.89, 1),) if verdict in CLOSED else (),
        )  # fmt: skip


@pytest.mark.timeout(120)
def test_ten_thousand_entries_in_seconds(tmp_path, capsys):
    path = tmp_path / "ledger.jsonl"
    path.write_text(ledger_jsonl(entries()), encoding="utf-8")
    took = {}

    def timed(name, work):
        start = time.perf_counter()
        result = work()
        took[name] = time.perf_counter() - start
        return result

    read = timed("read", lambda: read_entries(path))
    ledger = timed("merge", lambda: build(None, Notes(), [], read))
    problems = timed("check", lambda: check(ledger))
    found = timed("search", lambda: search("lead 17 drafter vllm", ledger))
    timed("write", lambda: (index_page(ledger), ledger_jsonl(ledger)))
    with capsys.disabled():
        print(f"\n{COUNT} entries:", ", ".join(f"{name} {seconds:.2f} s" for name, seconds in took.items()))

    assert sum(entry.superseded_by is not None for entry in ledger) > COUNT / 10
    assert all("one verdict in force" in problem.allowed for problem in problems)  # opposites of one day
    assert len(found) == COUNT
    assert sum(took.values()) < 60
