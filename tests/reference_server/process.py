"""A reference server in a process of its own, as tests start it."""

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from reference_server.faults import NO_FAULTS, Faults
from reference_server.truth import Truth


@contextlib.contextmanager
def reference_process(truth: Truth, *, dialect: str, faults: Faults = NO_FAULTS) -> Iterator[str]:
    """Run `python -m reference_server` on a free port and give its base URL once it listens.

    Raises RuntimeError with the process's log when it does not come up.
    """
    command = [sys.executable, "-m", "reference_server", "--dialect", dialect, "--port", "0"]
    command += ["--truth", json.dumps(asdict(truth)), "--faults", json.dumps(asdict(faults))]
    folder = Path(__file__).parents[1]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            said = process.stdout.readline() if process.stdout else ""
            if not said.startswith("listening on "):
                process.wait()
                log.seek(0)
                raise RuntimeError(f"reference server ended at start: {log.read()}")
            yield said.removeprefix("listening on ").strip()
        finally:
            process.terminate()
