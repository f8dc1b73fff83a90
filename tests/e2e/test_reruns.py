"""What a change measures again, and what it leaves alone: by the times of the files."""

import time

import pyarrow.parquet as pq
import pytest

from small_project import REPORT, SMALL, Project, drafting

pytestmark = pytest.mark.slow

VERDICT = "results/small/look1/verdict.json"
LAUNCHED = ("results/small/*/bring_up.*", "results/small/*/[0-9]*/*")


def changed(before: dict[str, int], after: dict[str, int]) -> set[str]:
    return {path for path, at in after.items() if before.get(path) != at}


def arms_of(paths: set[str]) -> set[str]:
    return {path.split("/")[2] for path in paths}


def test_an_up_to_date_report_has_nothing_to_do(project: Project):
    began = time.monotonic()
    done = project.run(REPORT)
    took = time.monotonic() - began
    assert "Nothing to be done" in done.stdout + done.stderr
    print(f"an up to date report is seen to be so in {took:.2f} s")


def test_one_arm_is_measured_again_and_no_other_is_touched(project: Project):
    before, report = project.times(*LAUNCHED), project.times(REPORT)
    project.run(REPORT, "-R", "results/small/mtp1/bring_up.json")
    own = {path for path in before if "/mtp1/" in path}
    assert changed(before, project.times(*LAUNCHED)) == own
    assert changed(report, project.times(REPORT))


def test_other_args_measure_that_arm_again_and_no_other(project: Project):
    before = project.times(*LAUNCHED)
    project.experiment(arms=SMALL["arms"] | {"mtp2": drafting(3)})
    project.run(*project.launches())
    assert arms_of(changed(before, project.times(*LAUNCHED))) == {"mtp2"}
    assert project.json("results/small/mtp2/verify.json")["facts"]["facts"]["spec_n"] == 3


def test_another_expectation_starts_no_server(project: Project):
    before, verified = project.times(*LAUNCHED), project.times("results/small/*/verify.json")
    project.experiment(expect={"n_ctx": 1024})
    project.run(VERDICT)
    assert not changed(before, project.times(*LAUNCHED))
    assert changed(verified, project.times("results/small/*/verify.json")) == set(verified)


def test_where_no_output_differs_no_server_is_asked_for_margins(project: Project):
    look = project.folder / VERDICT
    assert (look.parent / "margins.parquet").exists()
    assert (look.parent / "margins.log").read_text() == ""


@pytest.mark.parametrize(
    ("part", "made"),
    [("analysis/cost.py", VERDICT), ("templates/report.md.j2", REPORT)],
    ids=["fit", "template"],
)
def test_another_fit_or_template_starts_no_server(project: Project, part: str, made: str):
    before, old = project.times(*LAUNCHED), project.times(made)
    file = project.folder / "workflow/breakeven" / part
    file.write_text(file.read_text() + "\n")
    project.run(made)
    assert not changed(before, project.times(*LAUNCHED))
    assert changed(old, project.times(made))


def test_a_file_that_is_only_touched_starts_nothing(project: Project):
    for folder in ("workflow", "models", "config"):
        for path in (project.folder / folder).rglob("*"):
            path.touch()
    done = project.run(REPORT)
    assert "Nothing to be done" in done.stdout + done.stderr


def test_a_new_round_measures_only_that_round(project: Project):
    before = project.times(*LAUNCHED)
    project.experiment(rounds=2)
    project.run(*project.launches(round=1), *project.launches(round=2))
    new = changed(before, project.times(*LAUNCHED))
    assert {path.split("/")[3] for path in new} == {"2"}
    assert arms_of(new) == set(SMALL["arms"])


def test_a_new_arm_measures_only_that_arm(project: Project):
    """Refused by a wrong expectation at first: with the right one it is measured, and again nothing else is."""
    before = project.times(*LAUNCHED)
    project.experiment(arms=SMALL["arms"] | {"mtp3": drafting(3) | {"expect": {"spec_n": 9}}})
    project.run(*project.launches(*SMALL["arms"], "mtp3"))
    refused = project.json("results/small/mtp3/1/launch.json")
    assert refused["status"] == "refused"
    assert "spec_n" in refused["reason"]
    brought_up = project.times("results/small/mtp3/bring_up.json")
    project.experiment(arms=SMALL["arms"] | {"mtp3": drafting(3)})
    project.run(*project.launches(*SMALL["arms"], "mtp3"))
    assert project.json("results/small/mtp3/1/launch.json")["status"] == "measured"
    assert project.times("results/small/mtp3/bring_up.json") == brought_up
    assert arms_of(changed(before, project.times(*LAUNCHED))) == {"mtp3"}


def test_a_half_written_table_never_counts_as_done(project: Project):
    table = project.folder / "results/small/mtp1/1/requests.parquet"
    table.with_name(f".{table.name}.0.part").write_bytes(table.read_bytes()[:100])
    table.unlink()
    before = project.times("results/small/*/1/launch.json")
    project.run(*project.launches(), str(table.relative_to(project.folder)))
    assert len(pq.read_table(table))
    assert arms_of(changed(before, project.times("results/small/*/1/launch.json"))) == {"mtp1"}
