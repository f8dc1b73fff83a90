"""Experiment files: what is resolved, what makes a measurement out of date, what is refused and in which words."""

import json
from pathlib import Path

import pytest
import yaml

from breakeven import config
from breakeven.errors import ConfigError
from breakeven.publish.config_reference import reference

MINIMAL = {
    "engine": "llamacpp",
    "runtime": "process",
    "program": "embedded",
    "server": {"model": "/m/a.gguf", "args": {"ctx-size": 4096, "threads": 1}},
    "baseline": "base",
    "variable": "spec-*",
    "arms": {
        "base": {},
        "again": {"repeat_of": "base"},
        "mtp2": {"args": {"spec-type": "draft-mtp", "spec-draft-n-max": 2, "threads": None}},
    },
    "workload": {"pp": 128, "tg": 64, "depths": [0, 512]},
}


def written(tmp_path: Path, **changes: object) -> Path:
    path = tmp_path / "trial.yaml"
    path.write_text(yaml.safe_dump(MINIMAL | changes, sort_keys=False))
    return path


def test_arms_are_patches_on_the_common_server(tmp_path):
    spec = config.experiment(written(tmp_path))
    assert spec["arms"]["mtp2"]["server"]["args"] == {
        "model": "/m/a.gguf",
        "ctx-size": 4096,
        "spec-type": "draft-mtp",
        "spec-draft-n-max": 2,
    }
    assert spec["arms"]["mtp2"]["n_spec"] == 2
    assert spec["arms"]["base"]["n_spec"] == 0


def test_a_twin_has_the_same_parameters_as_the_arm_it_repeats(tmp_path):
    spec = config.experiment(written(tmp_path))
    assert config.serve_key(spec, "again") == config.serve_key(spec, "base")
    assert spec["arms"]["again"]["repeat_of"] == "base"


def test_another_arm_an_expectation_or_the_margin_measures_nothing_again(tmp_path):
    before = config.experiment(written(tmp_path))
    arms = MINIMAL["arms"] | {"mtp2": {"args": {"spec-type": "draft-mtp", "spec-draft-n-max": 3}}}
    after = config.experiment(written(tmp_path, arms=arms, expect={"n_ctx": 4096}, margin=0.1, rounds=5))
    assert config.serve_key(before, "base") == config.serve_key(after, "base")
    assert config.serve_key(before, "mtp2") != config.serve_key(after, "mtp2")
    assert config.expect_key(before, "base") != config.expect_key(after, "base")


@pytest.mark.parametrize("change", [{"take": 2}, {"seed": 7}, {"workload": MINIMAL["workload"] | {"tg": 32}}])
def test_take_seed_and_workload_measure_again(tmp_path, change):
    before, after = config.experiment(written(tmp_path)), config.experiment(written(tmp_path, **change))
    assert config.serve_key(before, "base") != config.serve_key(after, "base")


def test_a_matrix_expands_into_readable_names(tmp_path):
    matrix = {
        "prefix": "gate",
        "common": {"spec-type": "draft-mtp"},
        "args": {"spec-draft-p-min": [0.5, 0.75], "spec-draft-n-max": [2]},
    }
    spec = config.experiment(written(tmp_path, matrix=matrix))
    assert {"gate-0_5-2", "gate-0_75-2"} <= set(spec["arms"])
    assert spec["arms"]["gate-0_5-2"]["gated"]
    assert spec["arms"]["gate-0_5-2"]["server"]["args"]["spec-draft-p-min"] == 0.5


def test_the_demo_model_is_mounted_where_a_container_sees_it(tmp_path):
    server = {"model": "demo", "args": {}}
    spec = config.experiment(written(tmp_path, runtime="docker", image="x:y", server=server))
    resolved = spec["arms"]["base"]["server"]
    assert resolved["args"]["model"].startswith("/models/tiny-qwen35-")
    assert resolved["mounts"] == ["models:/models:ro"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"engine": "tgi"}, ["engine", "'tgi'", "llamacpp, vllm"]),
        ({"rounds": 0}, ["rounds", "0"]),
        ({"colour": 1}, ["unknown colour", "allowed:", "workload"]),
        ({"server": {"modell": "x"}}, ["server", "unknown modell", "allowed:", "model"]),
        ({"baseline": "raw"}, ["'raw'", "base, again, mtp2"]),
        ({"arms": {"base": {}, "ledger": {}}}, ["ledger"]),
        ({"arms": {"base": {}, "x": {"repeat_of": "y"}}}, ["'y'", "arms are"]),
        ({"arms": {"base": {}, "x": {"repeat_of": "base", "args": {}}}}, ["x", "must not set args"]),
        ({"program": None}, ["program"]),
        ({"runtime": "docker"}, ["docker", "image"]),
        ({"runtime": "attach"}, ["attach", "url"]),
        ({"workload": MINIMAL["workload"] | {"depths": [4000]}}, ["4000", "ctx-size 4096", "4192"]),
        ({"workload": MINIMAL["workload"] | {"prompts": {"code": {}}}}, ["prompts.code", "count", "files"]),
        ({"required_classes": ["json"]}, ["json", "natural"]),
        ({"expect": {"kernel": {"regexp": "x"}}}, ["expect.kernel", "regexp"]),
    ],
)
def test_a_bad_value_is_refused_with_file_key_value_and_what_is_allowed(tmp_path, change, said):
    with pytest.raises(ConfigError) as refused:
        config.experiment(written(tmp_path, **change))
    message = str(refused.value)
    assert "trial.yaml" in message
    for words in said:
        assert words in message


def test_a_key_that_stands_twice_is_refused_instead_of_lost(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text("arms:\n  mtp1: {}\n  mtp1: {}\n")
    with pytest.raises(ConfigError, match="'mtp1' stands twice"):
        config.experiment(path)


@pytest.mark.parametrize("name", sorted(config.RESERVED))
def test_reserved_names_are_refused(tmp_path, name):
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(MINIMAL))
    with pytest.raises(ConfigError, match="reserved"):
        config.experiment(path)


def test_machine_settings_have_defaults_and_refuse_unknown_keys():
    assert config.machine({"experiment": "mtp_ab"})["stop_timeout_s"] == 30
    with pytest.raises(ConfigError, match=r"unknown prot.*allowed: .*port"):
        config.machine({"experiment": "mtp_ab", "prot": 1})


def test_every_key_of_the_schemas_is_described():
    def keys(node: object, path: str):
        if isinstance(node, dict):
            for name, child in node.get("properties", {}).items():
                yield f"{path}.{name}", child
            for name, child in node.items():
                yield from keys(child, f"{path}.{name}")
        elif isinstance(node, list):
            for child in node:
                yield from keys(child, path)

    for file in ("experiment", "machine"):
        schema = json.loads((Path(config.__file__).parent / "schemas" / f"{file}.schema.json").read_text())
        undescribed = [
            path for path, key in keys(schema, file) if "description" not in key and "$ref" not in key
        ]
        assert not undescribed


@pytest.mark.parametrize("path", sorted(Path("config/experiments").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_experiments_are_valid(path):
    assert config.experiment(path)["name"] == path.stem


def test_the_reference_of_keys_is_current():
    assert Path("config/README.md").read_text() == reference(), (
        "run: python -m breakeven.publish.config_reference > config/README.md"
    )


def test_rounds_are_shuffled_anew_and_a_later_arm_changes_no_order(tmp_path):
    before = config.experiment(written(tmp_path))
    more = MINIMAL["arms"] | {"mtp3": {"args": {"spec-type": "draft-mtp", "spec-draft-n-max": 3}}}
    after = config.experiment(written(tmp_path, arms=more))
    orders = [tuple(config.order(before, number)) for number in range(1, 13)]
    assert len(set(orders)) > 1
    for number, order in enumerate(orders, 1):
        assert [arm for arm in config.order(after, number) if arm != "mtp3"] == list(order)
    assert config.order(before, 1) != config.order(before | {"seed": 2}, 1) or config.order(
        before, 2
    ) != config.order(before | {"seed": 2}, 2)


def test_a_staged_search_knows_each_arms_gate_and_whether_its_drafts_are_free(tmp_path):
    arms = MINIMAL["arms"] | {
        "gated": {"args": {"spec-type": "draft-mtp", "spec-draft-p-min": 0.6}},
        "ngram": {"args": {"spec-type": "ngram-mod"}},
    }
    spec = config.experiment(written(tmp_path, arms=arms, search={"p_min": [0.5, 0.6], "n_max": [2, 3]}))
    assert spec["arms"]["gated"]["p_min"] == 0.6
    assert spec["arms"]["ngram"]["free_drafts"]
    assert not spec["arms"]["mtp2"]["free_drafts"]
    assert spec["search"]["n_max"] == [2, 3]
