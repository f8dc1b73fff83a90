"""Launches on record that are not as they should be: the analysis says so and goes on with the others."""

from breakeven import tables
from small_project import REPORT


def test_a_launch_whose_counters_fell_is_set_aside_and_named(project):
    path = project.folder / "results/small/mtp1/1/counters.parquet"
    counters = tables.read(path, tables.COUNTERS)
    drafts = counters.index[counters["counter"] == "draft_tokens"]
    counters.loc[drafts[-1], "after"] = counters.loc[drafts[-1], "before"] - 1
    tables.write(counters, path, tables.COUNTERS)
    project.run(REPORT)
    checks = tables.read(project.folder / "results/small/look1/checks.parquet", tables.CHECKS)
    failed = checks[(checks["check"] == "counters_only_rise") & (checks["passed"] == False)]  # noqa: E712
    assert list(failed["arm"]) == ["mtp1"]
    cells = tables.read(project.folder / "results/small/look1/cells.parquet")
    assert set(cells["arm"]) == {"base", "mtp2"}
    assert "counters_only_rise" in project.report()
