"""Figures: from what is known only, with words for those who cannot see them, and their data beside them."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from breakeven.publish.report import charts, figure_data
from breakeven.publish.report.figures import Figure, figures, write
from breakeven.publish.report.run import Run, read_run
from reported_runs import BASE, CLOSE, WON, TrueArm, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("won")
    return read_run(write_run(home, WON, depths=(0, 8192), classes=("code", "prose"), gpu=True))


@pytest.fixture(scope="module")
def drawn(run: Run) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures(run)[0]}


def test_all_figures_are_drawn_when_everything_is_known(run: Run, drawn: dict[str, Figure]):
    assert list(drawn) == ["speedup", "step_cost", "tokens_by_depth", "acceptance", "samples"]
    assert figures(run)[1] == []


def test_every_figure_has_caption_and_alt_text_of_its_own(drawn: dict[str, Figure]):
    for words in ({f.caption for f in drawn.values()}, {f.alt for f in drawn.values()}):
        assert len(words) == len(drawn) and all(len(text) > 40 for text in words)


def test_figures_show_the_numbers_of_the_verdict(run: Run, drawn: dict[str, Figure]):
    frame = drawn["speedup"].data
    own = frame[(frame["arm"] == "mtp2") & (frame["series"] == figure_data.MEASURED)]
    ratios = [
        arm["ratio"]["value"] for cell in run.verdict["cells"] for arm in cell["arms"] if arm["arm"] == "mtp2"
    ]
    assert own["value"].tolist() == ratios


def test_limit_line_is_n_plus_1(drawn: dict[str, Figure]):
    frame = drawn["step_cost"].data
    limit = frame[frame["series"] == figure_data.LIMIT]
    assert (limit["value"] == limit["drafted"] + 1).all()


def test_files_are_whole_and_data_can_be_read_again(drawn: dict[str, Figure], tmp_path: Path):
    write(drawn["samples"], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "samples.parquet",
        "samples.png",
        "samples.svg",
    ]
    assert (tmp_path / "samples.png").read_bytes().startswith(b"\x89PNG")
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "samples.parquet"), drawn["samples"].data, check_dtype=False
    )


def test_temperature_and_clock_are_drawn_where_known_and_named_where_not(
    drawn: dict[str, Figure], tmp_path: Path
):
    assert {figure_data.TEMPERATURE, figure_data.CLOCK} < set(drawn["samples"].data["series"])
    without = read_run(write_run(tmp_path, CLOSE, n_prompts=3))
    samples = next(figure for figure in figures(without)[0] if figure.name == "samples")
    assert "Not recorded on this machine: temperature (°C), clock (MHz)" in samples.caption


def test_a_figure_without_data_is_left_out_and_said_to_be(tmp_path: Path):
    nothing = read_run(write_run(tmp_path, CLOSE, died={"mtp1": ("exit code 1", [])}, n_prompts=3))
    found, missing = figures(nothing)
    assert [figure.name for figure in found] == ["tokens_by_depth", "samples"]
    assert missing == ["speed-up by draft length", "step cost by draft length", "acceptance by position"]


def test_arms_of_one_draft_length_stand_beside_each_other(tmp_path: Path):
    arms = BASE | {"mtp1": TrueArm(1.2, (0.8,)), "eagle1": TrueArm(1.3, (0.9,))}
    frame = figure_data.speedups(read_run(write_run(tmp_path, arms, n_prompts=3)))
    assert '"field": "arm"' in json.dumps(charts.speedup(frame)["layer"][2]["encoding"]["x"])


def test_an_interval_that_says_nothing_does_not_press_the_rest_flat():
    frame = pd.DataFrame({"value": [1.0, 1.2], "high": [1.1, 90.0]})
    assert charts.top(frame) == pytest.approx(1.6 * 1.2)


def test_nothing_in_a_figure_is_fetched(drawn: dict[str, Figure]):
    def addresses(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [a for key, item in value.items() if key != "$schema" for a in addresses(item)]
        if isinstance(value, list):
            return [a for item in value for a in addresses(item)]
        return [value] if isinstance(value, str) and "://" in value else []

    assert not [a for figure in drawn.values() for a in addresses(dict(figure.spec))]
