"""Experiment files -> what the rules ask of them. Reads config/experiments/<name>.yaml and nothing else."""

import hashlib
import json
import os
import signal
import sys
from functools import cache
from pathlib import Path

import psutil

from breakeven import config as settings
from breakeven.errors import ConfigError
from breakeven.progress import LAUNCHES_VARIABLE

# Jobs use the interpreter that runs Snakemake; written here, a moved environment is no "code change".
shell.prefix(f"set -euo pipefail; export PATH={Path(sys.executable).parent}:$PATH; ")

EXPERIMENTS = {path.stem: path for path in sorted(Path("config/experiments").glob("*.yaml"))}
LIBRARY = Path(workflow.basedir, "workflow", "breakeven")
LAUNCHES = {}


def stop(signum, frame):
    """A signal to Snakemake alone stops its jobs too, where it would wait for them: that may be an hour."""
    for job in psutil.Process().children():
        job.send_signal(signum)
    raise KeyboardInterrupt


onstart:
    for signum in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) != signal.SIG_IGN:
            signal.signal(signum, stop)


wildcard_constraints:
    experiment="|".join(EXPERIMENTS) or "none",
    arm="[a-z][a-z0-9_-]*",
    round=r"\d+",
    look=r"\d+",


def told(function, *arguments):
    """A person's error as one message. Not an exception: Snakemake would print a traceback of the rules with it."""
    try:
        return function(*arguments)
    except ConfigError as error:
        sys.exit(f"breakeven: {error}")


# The machine's settings reach the jobs through the environment: as parameters they would measure again when changed.
os.environ[settings.MACHINE_VARIABLE] = json.dumps(config)
told(settings.machine, config)


@cache
def experiment(name):
    """One resolved experiment; only the experiments that a target names are ever read."""
    spec = told(settings.experiment, EXPERIMENTS[name])
    LAUNCHES[name] = [len(spec["arms"]), last_look(spec)]
    os.environ[LAUNCHES_VARIABLE] = json.dumps(LAUNCHES)
    return spec


def last_look(spec):
    return settings.LOOKS[-1] if spec["rounds"] == "auto" else spec["rounds"]


def serve(wildcards):
    """What decides a measurement: a change measures this arm again."""
    return settings.serve_key(experiment(wildcards.experiment), wildcards.arm)


def wanted(wildcards):
    """What the log must show: a change verifies again, and starts no server."""
    return settings.expect_key(experiment(wildcards.experiment), wildcards.arm)


def serve_of_baseline(wildcards):
    spec = experiment(wildcards.experiment)
    return settings.serve_key(spec, spec["baseline"])


def compared(wildcards):
    """What decides which outputs are compared, and with which."""
    return settings.compare_key(experiment(wildcards.experiment))


def of_reference(pattern):
    """The arm that this one is compared with: the one it repeats, else the baseline."""

    def path(wildcards):
        spec = experiment(wildcards.experiment)
        reference = spec["arms"][wildcards.arm]["repeat_of"] or spec["baseline"]
        return pattern.format(experiment=wildcards.experiment, arm=reference)

    return path


def of_baseline(pattern):
    return lambda wildcards: pattern.format(
        experiment=wildcards.experiment,
        arm=experiment(wildcards.experiment)["baseline"],
    )


def per_arm(pattern):
    return lambda wildcards: expand(pattern, arm=experiment(wildcards.experiment)["arms"], allow_missing=True)


def per_launch(pattern):
    """All launches up to a look."""
    return lambda wildcards: expand(
        pattern,
        arm=experiment(wildcards.experiment)["arms"],
        round=range(1, int(wildcards.look) + 1),
        allow_missing=True,
    )


def is_baseline(wildcards):
    return int(wildcards.arm == experiment(wildcards.experiment)["baseline"])


def slot(wildcards):
    """Position of a launch inside its round."""
    order = settings.order(experiment(wildcards.experiment), int(wildcards.round))
    return order.index(wildcards.arm)


def launch_priority(wildcards):
    """Experiments one after the other, inside each the slots in order (0 is the lowest priority)."""
    queue = list(EXPERIMENTS).index(wildcards.experiment)
    arms = len(experiment(wildcards.experiment)["arms"])
    place = (int(wildcards.round) - 1) * arms + slot(wildcards)
    return 1_000_000 - 10_000 * queue - place


def code_hash(*paths, below=LIBRARY):
    """Hash of the code that makes an output: changed code makes it again, touched code does not."""
    files = sorted(
        file
        for path in (below / path for path in paths)
        for file in ([path] if path.is_file() else path.rglob("*"))
        if file.suffix in {".py", ".j2", ".json"}
    )
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
