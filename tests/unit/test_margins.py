"""Margins asked of reference servers, whose log probabilities are known: 0.01 at a near-tie, 2 elsewhere."""

from functools import partial

import pandas as pd
import pytest

from breakeven import tables
from breakeven.analysis.evidence import records
from breakeven.analysis.lossless import comparable, compare, paired, to_ask
from breakeven.engine.registry import ENGINES
from breakeven.errors import LaunchError
from breakeven.measure import margins, sweep
from breakeven.measure.client import open_client
from breakeven.measure.workload import plan, read_workload

from reference_server import Faults, Truth
from reference_server.server import reference_server

TIE, CLEAR = 6, 9
TRUTH = Truth(t0_s=0.0005, ttft_s=0.001, near_tie_at=TIE)
CLASSES = {"code": {"count": 2}}
WORKLOAD = read_workload({"pp": 32, "tg": 16, "depths": [0, 64], "reps": 1, "warmup": 1, "prompts": CLASSES})
PLANNED = partial(plan, WORKLOAD, 5)
ARMS = {"base": Faults(), "flips": Faults(diverges_at=TIE), "breaks": Faults(diverges_at=CLEAR)}


def launched(dialect: str, arm: str) -> list[dict]:
    rows = sweep.Rows()
    keys = {"experiment": "x", "arm": arm, "round": 1, "slot": 0}
    with reference_server(TRUTH, dialect=dialect, faults=ARMS[arm]) as url, open_client(url, 5) as http:
        sweep.run(http, ENGINES[dialect], PLANNED(1), keys, n_ctx=None, alive=lambda: True, rows=rows)
    return rows.requests


@pytest.fixture(scope="module", params=["llamacpp", "vllm"])
def measured(request) -> tuple[str, pd.DataFrame, list[dict]]:
    """The dialect, outputs of every arm, and the places where they differ."""
    rows = pd.DataFrame([row for arm in ARMS for row in launched(request.param, arm)])
    outputs = comparable(rows, CLASSES, [])
    return request.param, outputs, places(outputs)


def places(outputs: pd.DataFrame) -> list[dict]:
    return records(to_ask(paired(outputs, "base")).assign(experiment="x"))


def asked(
    dialect: str, wanted: list[dict], truth: Truth = TRUTH, faults: Faults | None = None
) -> pd.DataFrame:
    with (
        reference_server(truth, dialect=dialect, faults=faults or Faults()) as url,
        open_client(url, 5) as http,
    ):
        return pd.DataFrame(list(margins.ask(http, ENGINES[dialect], wanted, PLANNED)))


def test_the_margin_is_that_of_the_place_where_outputs_part(measured, tmp_path):
    dialect, outputs, wanted = measured
    assert len(wanted) == 8
    found = asked(dialect, wanted)
    assert found["reason"].isna().all()
    assert found[found["token"] == TIE]["margin"].to_numpy() == pytest.approx(0.01, abs=1e-6)
    assert found[found["token"] == CLEAR]["margin"].to_numpy() == pytest.approx(2.0, abs=1e-6)
    path = tmp_path / "margins.parquet"
    tables.write(found, path, tables.MARGINS)
    judged = {one.arm: one for one in compare(outputs, "base", (), tables.read(path, tables.MARGINS))}
    assert (judged["flips"].kind, judged["flips"].passed) == ("tie flip", True)
    assert (judged["breaks"].kind, judged["breaks"].passed) == ("diverges", False)


def test_a_token_that_is_not_among_the_likely_ones_is_at_least_so_far_off(measured):
    dialect, _, wanted = measured
    found = asked(dialect, [place | {"arm_id": 1} for place in wanted])
    assert found[found["token"] == CLEAR]["margin"].to_numpy() == pytest.approx(2.0, abs=1e-6)


def test_what_cannot_be_known_has_its_reason(measured):
    dialect, _, wanted = measured
    one = next(place for place in wanted if place["token"] == CLEAR)
    for changed, faults, why in (
        ({"prompt_sha256": "another"}, None, "cannot be made again"),
        ({"arm_id": None}, None, "ended there"),
        ({}, Faults(diverges_at=3), "left its own output"),
        ({}, Faults(healthy_but_dead=True), "did not answer"),
    ):
        (row,) = asked(dialect, [one | changed], faults=faults).to_dict("records")
        assert pd.isna(row["margin"]) and why in row["reason"]


def test_a_server_without_log_probabilities_is_told(measured):
    dialect, _, wanted = measured

    class Silent(type(ENGINES[dialect])):
        def with_logprobs(self, completion, top):
            return completion

    with reference_server(TRUTH, dialect=dialect) as url, open_client(url, 5) as http:
        rows = list(margins.ask(http, Silent(), wanted, PLANNED))
    assert {row["reason"] for row in rows} == {"the server gives no log probabilities"}


def test_a_server_that_is_gone_is_a_launch_error(measured):
    dialect, _, wanted = measured
    with open_client("http://127.0.0.1:9", 1) as http, pytest.raises(LaunchError):
        list(margins.ask(http, ENGINES[dialect], wanted, PLANNED))
