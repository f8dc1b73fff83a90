"""A reference server in a process of its own, as tests start it."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from reference_server.faults import NO_FAULTS, Faults
from reference_server.truth import Truth


@contextlib.contextmanager
def reference_process(truth: Truth, *, dialect: str, faults: Faults = NO_FAULTS) -> Iterator[str]:
    """Run `python -m reference_server` on a free port and give its base URL once it listens.

    Raises RuntimeError with what the process printed when it does not come up.
    """
    command = [sys.executable, "-m", "reference_server", "--dialect", dialect, "--port", "0"]
    command += ["--truth", json.dumps(asdict(truth)), "--faults", json.dumps(asdict(faults))]
    folder = Path(__file__).parents[1]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            printed = []
            for line in process.stdout:
                printed.append(line)
                if line.startswith("listening on "):
                    break
            else:
                raise RuntimeError(f"reference server ended at start: {''.join(printed)}")
            yield line.removeprefix("listening on ").strip()
        finally:
            process.terminate()
