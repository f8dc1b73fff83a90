"""A server that is not ready: crashed, crashed but alive, still compiling, or silent; and the printed table."""

import io
import json
import sys
from pathlib import Path

import pytest

from breakeven.engine.facts import Facts
from breakeven.engine.facts_table import facts_command
from breakeven.engine.fatal import diagnose, fatal
from breakeven.errors import BreakevenError

START = "INFO 03-04 10:11:12 [model.py:733] Resolved architecture: Qwen3ForCausalLM\n"
DEAD = (
    START + "(EngineCore pid=9) ERROR 03-04 10:12:12 [core.py:1] EngineCore encountered a fatal error.\n"
    "(EngineCore pid=9) ERROR 03-04 10:12:12 [core.py:1] TypeError: 'function' object is not subscriptable\n"
)
LOGS = Path(__file__).parent / "fixtures" / "logs"


def test_a_dead_engine_behind_a_live_process_is_told_with_its_cause() -> None:
    told = diagnose(DEAD, alive=True, silent_s=5.0, engine="vllm")
    assert told.startswith("crashed, but the process is still there: EngineCore encountered a fatal error")
    assert "(TypeError: 'function' object is not subscriptable)" in told.splitlines()[0]


def test_a_warning_that_names_an_exception_is_no_cause() -> None:
    warned = (
        "(APIServer pid=1) WARNING 03-04 10:11:12 [system_utils.py:255] Found ulimit of 20000 and failed to "
        "automatically increase with error X. This can cause fd limit errors like `OSError: [Errno 24] Too many open "
        "files`\n"
    )
    told = diagnose(warned + DEAD, alive=False, silent_s=0.0, engine="vllm")
    assert "ulimit" not in told and "'function' object is not subscriptable" in told


def test_a_refused_setting_is_told_with_its_key_and_the_value_that_was_found() -> None:
    allowed = ", ".join(f"'method_{number}'" for number in range(60))
    log = (
        START + "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n"
        f"method\n  Input should be {allowed} [type=literal_error, input_value='mpt', input_type=str]\n"
        "    For further information visit https://errors.pydantic.dev/2.14/v/literal_error\n"
    )
    told = diagnose(log, alive=False, silent_s=0.0, engine="vllm")
    assert "> method\n" in told and "Input should be 'method_0'" in told and "input_value='mpt'" in told


def test_a_dead_process_is_crashed() -> None:
    assert diagnose(DEAD, alive=False, silent_s=5.0).startswith("crashed: EngineCore encountered")
    assert diagnose(START, alive=False, silent_s=5.0).startswith("ended without a line that says why")


@pytest.mark.parametrize(
    "line",
    [
        "INFO 03-04 10:11:12 [backends.py:1] Compiling a graph for dynamic shape takes 10.1 s",
        "Capturing CUDA graphs (decode, FULL):  17%|# | 14/83 [00:01<00:05, 13.73it/s]",
        "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:10<00:10, 9.9s/it]",
    ],
)
def test_a_long_compile_is_no_silence(line: str) -> None:
    assert diagnose(START + line, alive=True, silent_s=300.0).startswith(
        "still compiling or loading (last line 300 s ago)"
    )
    assert diagnose(START + line, alive=True, silent_s=3000.0).startswith("silent for 3000 s")


def test_silence_is_told_with_the_last_line() -> None:
    told = diagnose(START, alive=True, silent_s=600.0)
    assert told.startswith("silent for 600 s") and "Resolved architecture" in told
    assert diagnose("", alive=True, silent_s=9.0) == "has printed nothing for 9 s"


@pytest.mark.parametrize(
    ("engine", "line"),
    [
        (
            "vllm",
            "W operator(): failed to measure the memory of the extra model, fitting without it: failed to "
            "load model",
        ),
        (
            "llamacpp",
            "W operator(): failed to measure the memory of the extra model, fitting without it: failed to "
            "load model",
        ),
        ("vllm", 'INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 404 Not Found'),
        (
            "llamacpp",
            "E srv load_model: failed to initialize speculative decoding context: draft-simple requires a "
            "draft context",
        ),
    ],
)
def test_harmless_lines_are_not_fatal(engine: str, line: str) -> None:
    assert fatal(engine, line) is None


def test_the_command_prints_json_that_is_the_facts(capsys: pytest.CaptureFixture[str]) -> None:
    facts_command(str(LOGS / "llamacpp-b11549-mtp3.log"), as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {"engine", "facts", "sources", "findings", "statistics"}
    assert printed["facts"]["spec_n"] == 3 and printed["sources"]["n_ctx"]["line"] > 1
    assert Facts.from_json(printed).get("arch") == "qwen35"


def test_the_command_prints_a_table_and_the_findings(capsys: pytest.CaptureFixture[str]) -> None:
    facts_command(str(LOGS / "llamacpp-b11549-vocab.log"))
    printed = capsys.readouterr().out
    assert "spec_active" in printed and "error: spec_failed" in printed


def test_the_command_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(START.encode())))
    facts_command("-", as_json=True)
    assert json.loads(capsys.readouterr().out)["facts"]["architectures"] == ["Qwen3ForCausalLM"]


def test_a_file_that_is_not_there_or_says_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BreakevenError, match="cannot be read"):
        facts_command(str(tmp_path / "none.log"))
    (tmp_path / "other.log").write_text("hello\n")
    with pytest.raises(BreakevenError, match=r"no line of vLLM, llama.cpp or SGLang"):
        facts_command(str(tmp_path / "other.log"))


def test_something_else_is_not_read_back_as_facts() -> None:
    with pytest.raises(BreakevenError, match="not the facts of a log"):
        Facts.from_json('{"engine": "vllm"}')
