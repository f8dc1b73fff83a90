"""What an experiment will cost and what stands in its way, before anything is started.

The estimate comes from launches that are on record; without any, time and disk are unknown and said to be so.
Obstacles are everything that can be known now to refuse the run: context, port, image, program, model, devices.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from breakeven import config
from breakeven.config import context_tokens
from breakeven.engine.llamacpp import DRAFT_MODEL_FLAGS
from breakeven.errors import BreakevenError
from breakeven.launch import LOCALHOST, program
from breakeven.measure.workload import Workload, check_context, plan, read_workload
from breakeven.progress import durations_s
from breakeven.runtime import port


@dataclass(frozen=True)
class Estimate:
    """Launches and requests of a run, and what they take; None where no earlier launch tells."""

    launches_planned: int
    launches_done: int
    requests_per_launch: int
    prompt_tokens_per_launch: int
    completion_tokens_per_launch: int
    seconds_left: float | None
    bytes_left: int | None
    basis: str


def requests_of(workload: Workload, seed: int) -> tuple[int, int, int]:
    """Requests, prompt tokens and completion tokens of one launch; prompts taken whole count as 0 tokens."""
    planned = plan(workload, seed, round=1)
    prompt = sum(request.depth + (request.planned_new_tokens or 0) for request in planned)
    return len(planned), prompt, sum(request.asked_tokens for request in planned)


def estimate(spec: Mapping[str, Any], results: Path) -> Estimate:
    """Count what is planned and what is there; extrapolate from the experiment's own launches."""
    rounds = config.LOOKS[-1] if spec["rounds"] == "auto" else spec["rounds"]
    planned = len(spec["arms"]) * (rounds + 1)
    requests, prompt, completion = requests_of(read_workload(spec["workload"], Path()), spec["seed"])
    own = results / spec["name"]
    done = [*own.glob("*/bring_up.json"), *own.glob("*/*/launch.json")]
    durations = durations_s(done)
    sizes = [_bytes(path.parent) for path in own.glob("*/*/launch.json")]
    left = max(planned - len(done), 0)
    basis = (
        f"{len(done)} launches of this experiment" if done else "no launch on record: unknown until one is"
    )
    return Estimate(
        launches_planned=planned,
        launches_done=len(done),
        requests_per_launch=requests,
        prompt_tokens_per_launch=prompt,
        completion_tokens_per_launch=completion,
        seconds_left=median(durations) * left if durations else None,
        bytes_left=int(median(sizes) * left) if sizes else None,
        basis=basis,
    )


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())


def obstacles(spec: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Everything that is known now to refuse the run, each in words with what to do."""
    checks = (_context, _port, _programs, _images, _models, _mounts, _devices, _secrets, _disk)
    return list(dict.fromkeys(said for check in checks for said in check(spec, settings)))


def _said(call: Callable[[], object], prefix: str = "") -> Iterator[str]:
    try:
        call()
    except BreakevenError as error:
        yield f"{prefix}{error}"


def _context(spec: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    requests = plan(read_workload(spec["workload"], Path()), spec["seed"], round=1)
    for name, arm in spec["arms"].items():
        n_ctx = context_tokens(arm)
        if n_ctx is not None:
            yield from _said(lambda n=n_ctx: check_context(requests, n), f"arm {name}: ")  # type: ignore[misc]


def _port(spec: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    if spec["runtime"] != "attach":
        yield from _said(lambda: port.require_free(LOCALHOST, settings["port"], wait_s=0.0))


def _programs(spec: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    if spec["runtime"] == "process":
        for arm in spec["arms"].values():
            yield from _said(lambda a=arm: program(a["program"], settings["binaries"]))  # type: ignore[misc]


def _images(spec: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    if spec["runtime"] != "docker":
        return
    from breakeven.runtime.docker import connect, find_image

    for arm in spec["arms"].values():
        if not arm["server"].get("pull"):
            yield from _said(
                lambda a=arm: find_image(connect(settings.get("docker_host")), a["image"], pull=False)  # type: ignore[misc]
            )


def _models(spec: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    """Files that a process would look for; vLLM also takes names that are no files."""
    if spec["runtime"] != "process":
        return
    for name, arm in spec["arms"].items():
        for flag in ("model", *DRAFT_MODEL_FLAGS):
            path = Path(arm["server"]["args"].get(flag, ""))
            is_file = spec["engine"] == "llamacpp" or path.is_absolute()
            if is_file and path.name and path.parent != config.DEMO_MODELS and not path.exists():
                yield f"arm {name}: --{flag} {path} does not exist"


def _mounts(spec: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    for mount in spec["server"].get("mounts", []):
        source = Path(mount.split(":", 1)[0])
        if source != config.DEMO_MODELS and not source.exists():
            yield f"{source} does not exist on this machine (server.mounts)"


def _devices(spec: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    for device in spec["server"].get("devices", []):
        node = Path(device.split(":")[0])
        if not node.exists():
            yield f"device {node} does not exist on this machine (server.devices)"


def _secrets(spec: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    for name in spec["server"].get("env_from", []):
        if name not in os.environ:
            yield f"environment variable {name} is named in server.env_from but is not set in this shell"


def _disk(spec: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    needed = estimate(spec, Path("results")).bytes_left
    free = shutil.disk_usage(Path()).free
    if needed is not None and needed > free:
        yield f"about {needed / 1e9:.1f} GB are still to be written, {free / 1e9:.1f} GB are free here"
