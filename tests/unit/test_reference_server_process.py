"""The reference server as a process: flags, log, end."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reference_server.plain_client import connected, llamacpp

SPECULATION = {
    "vllm": '--max-model-len 4096 --speculative-config {"method":"mtp","num_speculative_tokens":2} --enforce-eager',
    "llamacpp": "-m /m -c 4096 --spec-type draft-mtp --spec-draft-n-max 2 -lv 4",
}
LOGGED = {"vllm": "num_spec_tokens=2", "llamacpp": "speculative decoding context initialized"}


@contextlib.contextmanager
def started(*flags: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The process, its base URL, and all that it printed before."""
    command = [sys.executable, "-m", "reference_server", *flags]
    folder = Path(__file__).parents[1]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        printed = ""
        try:
            for line in process.stdout or ():
                printed += line
                if line.startswith("listening on "):
                    break
            assert "listening on " in printed, printed
            yield process, printed.split()[-1], printed
        finally:
            process.kill()


@pytest.mark.parametrize("dialect", ["vllm", "llamacpp"])
def test_an_arms_own_flags_start_it_and_sigterm_ends_it_at_once(dialect: str) -> None:
    flags = [*SPECULATION[dialect].split(), "--t0-s", "0.001", "--acceptance", "0.9,0.5", "--no-even-draws"]
    flags += ["--log-line", "Selected XKernel for YMethod"]
    with started("--dialect", dialect, *flags) as (process, url, printed), connected(url) as client:
        known = client.get("/reference/truth").json()["truth"]
        assert LOGGED[dialect] in printed and "Selected XKernel for YMethod" in printed
        assert (known["n"], known["t0_s"], known["max_context"]) == (2, 0.001, 4096)
        assert known["acceptance"] == [0.9, 0.5] and known["even_draws"] is False
        asked = time.monotonic()
        process.terminate()
        assert process.wait(timeout=5) == 0
        assert time.monotonic() - asked < 0.5


def test_forced_acceptance_is_read_as_survival() -> None:
    flags = ["--spec-type", "draft-mtp", "--spec-synth-rates", "0.9,0.6,0.3"]
    with started("--dialect", "llamacpp", *flags) as (_, url, _), connected(url) as client:
        acceptance = client.get("/reference/truth").json()["truth"]["acceptance"]
    assert acceptance == pytest.approx([0.9, 2 / 3, 0.5])


def test_a_loading_process_is_unavailable_and_a_dying_one_is_gone() -> None:
    flags = ["--fault-dies-after-tokens", "5", "--startup-s", "0.3"]
    with started("--dialect", "llamacpp", *flags) as (process, url, _), connected(url) as client:
        assert client.get("/health").status_code == 503
        time.sleep(0.35)
        assert client.get("/health").status_code == 200
        assert llamacpp(client).error is not None
        assert process.wait(timeout=5) == 1


def test_launch_noise_can_be_repeated_by_counting_launches(tmp_path: Path) -> None:
    factors = []
    for folder in ("one", "two"):
        for _ in range(2):
            flags = ["--launch-noise-sd", "0.1", "--launch-count", str(tmp_path / folder)]
            with started("--dialect", "vllm", *flags) as (_, url, _), connected(url) as client:
                factors.append(client.get("/reference/truth").json()["launch_factor"])
    assert factors[0] != factors[1] and factors[:2] == factors[2:]
