"""Two arms differ in the declared variable alone, or the comparison is blocked with a readable difference."""

from typing import Any

import pytest

from breakeven.verify.difference import Difference
from breakeven.verify.flags import parse
from breakeven.verify.one_variable import one_variable

SPEC_1 = '{"method": "mtp", "num_speculative_tokens": 1}'
SPEC_3 = '{"num_speculative_tokens": 3, "method": "mtp"}'


def described(*argv: str, engine: str = "llamacpp", **other: Any) -> dict[str, Any]:
    return {
        "engine": engine,
        "runtime": "docker",
        "program": "local/server:1",
        "digest": "sha256:aa",
        "argv": list(argv),
        "env": {},
        "env_from": [],
        "mounts": [],
        "models": {},
        "options": {},
        **other,
    }


def compared(
    arm: dict[str, Any], baseline: dict[str, Any], *variable: str, **options: Any
) -> dict[str, Difference]:
    return {d.name: d for d in one_variable(arm, baseline, variable, **options)}


@pytest.mark.parametrize(
    ("engine", "one", "other"),
    [
        ("llamacpp", ["-c", "4096"], ["--ctx-size", "4096"]),
        ("llamacpp", ["--ctx-size=4096", "-np", "1"], ["-np", "1", "-c", "4096"]),
        ("llamacpp", ["-md", "d.gguf", "-ngld", "99"], ["--model-draft", "d.gguf", "--spec-draft-ngl", "99"]),
        ("llamacpp", ["--seed", "-1"], ["-s", "-1"]),
        ("llamacpp", ["--port", "1"], ["--port", "2"]),
        ("vllm", ["serve", "/m", "-tp", "2"], ["--model", "/m", "--tensor_parallel_size=2"]),
        ("vllm", ["/m", "--speculative-config", SPEC_1], ["/m", "-sc", SPEC_1.replace(" ", "")]),
    ],
)
def test_one_command_line_in_two_spellings_does_not_differ(
    engine: str, one: list[str], other: list[str]
) -> None:
    assert not compared(described(*one, engine=engine), described(*other, engine=engine))


def test_repeated_flags_and_switches_are_kept() -> None:
    flags = parse("llamacpp", ["-ot", "a=CPU", "-ot", "b=CPU", "--no-warmup", "--metrics"])
    assert flags == {"override-tensor": ["a=CPU", "b=CPU"], "warmup": False, "metrics": True}


def test_the_declared_glob_covers_its_flags_and_nothing_else() -> None:
    arm = described("--spec-type", "draft-mtp", "--spec-draft-n-max", "1", "-ub", "256")
    found = compared(arm, described("-ub", "512"), "spec-*")
    assert {name for name, d in found.items() if d.blocks} == {"ubatch-size"}
    assert found["ubatch-size"].message == "flag ubatch-size: 256 here, 512 in the baseline"
    assert found["spec-type"].meaning == "declared"


def test_a_variable_is_known_under_any_spelling() -> None:
    assert not any(
        d.blocks for d in compared(described("-md", "d.gguf"), described(), "model-draft").values()
    )
    assert not any(d.blocks for d in compared(described("--no-warmup"), described(), "no-warmup").values())
    assert not any(
        d.blocks for d in compared(described("-c", "1"), described("-c", "2"), "--ctx-size").values()
    )


def test_keys_inside_a_json_flag_are_named() -> None:
    arm, base = (
        described("--speculative-config", SPEC_3, engine="vllm"),
        described("-sc", SPEC_1, engine="vllm"),
    )
    (found,) = compared(arm, base).values()
    assert found.blocks
    assert "its num_speculative_tokens: 3 here, 1 in the baseline" in found.message
    assert "its method" not in found.message


def test_a_variable_may_be_one_key_of_a_json_flag() -> None:
    other = '{"method": "eagle", "num_speculative_tokens": 3}'
    base, variable = described("-sc", SPEC_1, engine="vllm"), "speculative-config.num_speculative_tokens"
    arms = described("-sc", SPEC_3, engine="vllm"), described("-sc", other, engine="vllm")
    assert [d.blocks for arm in arms for d in compared(arm, base, variable).values()] == [False, True]


def test_instrumentation_is_exempt() -> None:
    found = compared(described("--metrics"), described(), instrumentation={"metrics": True})
    assert found["metrics"].meaning == "instrumentation"
    assert not found["metrics"].blocks


def test_the_environment_counts() -> None:
    arm, base = described(env={"AITER": "1", "A": "x"}), described(env={"AITER": "0", "A": "x"})
    assert compared(arm, base)["env:AITER"].message == "env env:AITER: 1 here, 0 in the baseline"
    assert compared(arm, base, "env:AITER")["env:AITER"].meaning == "declared"
    assert compared(described(env_from=["TOKEN"]), base)["env:TOKEN"].blocks


def test_a_mount_that_is_missing_or_holds_other_code_blocks() -> None:
    mount = {"source": "patch.py", "target": "/app/patch.py", "mode": "ro", "content": "sha256:11"}
    base = described(mounts=[mount])
    assert compared(described(), base)["mount:/app/patch.py"].blocks
    edited = compared(described(mounts=[mount | {"content": "sha256:22"}]), base)["mount:/app/patch.py"]
    assert edited.blocks
    assert "differs in content" in edited.message


def test_another_image_blocks_unless_declared() -> None:
    arm = described(digest="sha256:bb")
    assert compared(arm, described())["image"].blocks
    assert not compared(arm, described(), "image")["image"].blocks


def test_one_image_under_two_names_is_one_image() -> None:
    assert not compared(described(program="local/server:latest"), described())


def test_other_content_of_the_model_file_blocks_though_its_path_is_the_same() -> None:
    files = [{"model": {"m.gguf": {"bytes": 10, "sha256": digest}}} for digest in ("aa", "bb")]
    assert compared(described("-m", "m.gguf", models=files[0]), described("-m", "m.gguf", models=files[1]))[
        "model"
    ].blocks


def test_what_is_not_known_is_said_to_be() -> None:
    attached = described(argv=None, env=None, mounts=None, models=None)
    found = compared(attached | {"argv": None}, described())
    assert {d.meaning for d in found.values()} == {"unverified"}
    assert found["command line"].message == "command line not compared: not known for this arm"
