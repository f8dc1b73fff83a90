"""What a change measures again, and what it leaves alone: by the times of the files."""

import time

import pytest
from conftest import SMALL  # type: ignore[import-not-found]

pytestmark = pytest.mark.slow

MEASURED = "results/small/*/[0-9]*/*"
LAUNCHED = "results/small/*/bring_up.json"


def changed(before: dict[str, int], after: dict[str, int]) -> set[str]:
    return {path for path in after if before.get(path) != after[path]}


def arms_of(paths: set[str]) -> set[str]:
    return {path.split("/")[2] for path in paths}


def test_an_up_to_date_report_has_nothing_to_do(project):
    began = time.monotonic()
    done = project.run("reports/small.md")
    took = time.monotonic() - began
    assert "Nothing to be done" in done.stdout + done.stderr
    print(f"up to date in {took:.2f} s")


def test_one_arm_is_measured_again_and_no_other_is_touched(project):
    before = project.times(MEASURED) | project.times(LAUNCHED)
    report = project.times("reports/small.md")
    project.run("reports/small.md", "-R", "results/small/mtp1/bring_up.json")
    again = changed(before, project.times(MEASURED) | project.times(LAUNCHED))
    assert arms_of(again) == {"mtp1"}
    assert len({path for path in again if path.endswith("launch.json")}) == SMALL["rounds"]
    assert changed(report, project.times("reports/small.md"))


def test_other_args_measure_that_arm_again_and_no_other(project):
    before = project.times(MEASURED) | project.times(LAUNCHED)
    arms = SMALL["arms"] | {"mtp2": {"args": {"spec-type": "draft-mtp", "spec-draft-n-max": 3}}}
    project.experiment(arms=arms)
    project.run("reports/small.md")
    assert arms_of(changed(before, project.times(MEASURED) | project.times(LAUNCHED))) == {"mtp2"}
    assert project.json("results/small/mtp2/verify.json")["facts"]["facts"]["spec_n"] == 3


def test_another_expectation_starts_no_server(project):
    before = project.times(MEASURED) | project.times(LAUNCHED)
    verified = project.times("results/small/*/verify.json")
    project.experiment(expect={"n_ctx": 1024})
    project.run("reports/small.md")
    assert not changed(before, project.times(MEASURED) | project.times(LAUNCHED))
    assert len(changed(verified, project.times("results/small/*/verify.json"))) == len(SMALL["arms"])


@pytest.mark.parametrize("part", ["analysis/cost.py", "templates/report.md.j2"])
def test_another_fit_or_template_starts_no_server(project, part):
    before = project.times(MEASURED) | project.times(LAUNCHED)
    report = project.times("reports/small.md")
    file = project.folder / "workflow/breakeven" / part
    file.write_text(file.read_text() + "\n")
    project.run("reports/small.md")
    assert not changed(before, project.times(MEASURED) | project.times(LAUNCHED))
    assert changed(report, project.times("reports/small.md"))


def test_a_new_round_measures_only_that_round(project):
    before = project.times(MEASURED)
    project.experiment(rounds=3)
    project.run("reports/small.md")
    new = changed(before, project.times(MEASURED))
    assert {path.split("/")[3] for path in new} == {"3"}


def test_an_arm_that_the_gate_refused_is_measured_once_the_expectation_is_corrected(project):
    arms = SMALL["arms"] | {
        "mtp3": {"args": {"spec-type": "draft-mtp", "spec-draft-n-max": 3}, "expect": {"spec_n": 9}}
    }
    project.experiment(arms=arms)
    project.run("reports/small.md")
    assert project.json("results/small/mtp3/1/launch.json")["status"] == "refused"
    before = project.times(MEASURED)
    arms["mtp3"].pop("expect")
    project.experiment(arms=arms)
    project.run("reports/small.md")
    assert project.json("results/small/mtp3/1/launch.json")["status"] == "measured"
    assert arms_of(changed(before, project.times(MEASURED))) == {"mtp3"}


def test_a_half_written_table_never_counts_as_done(project):
    table = project.folder / "results/small/mtp1/1/requests.parquet"
    table.with_name(f".{table.name}.0.part").write_bytes(table.read_bytes()[:100])
    table.unlink()
    before = project.times(MEASURED)
    project.run("reports/small.md")
    assert table.exists()
    assert arms_of(changed(before, project.times(MEASURED))) == {"mtp1"}
