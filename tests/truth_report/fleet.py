"""Many reference servers in one process of their own: a launch then costs no interpreter start.

Every server has its own port, engine, caches, counters and launch factor; only the process is shared, and one server
is asked at a time. `python -m truth_report.fleet` reads pickled (dialect, truth, faults) from stdin.
"""

import gc
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from reference_server import Faults, Truth
from reference_server.server import ReferenceServer

Wanted = tuple[str, Truth, Faults]
NEVER_S = 3600.0
"""The servers end with their process, so nobody need look whether they shall stop."""


@contextmanager
def fleet(wanted: Sequence[Wanted]) -> Iterator[list[str]]:
    """Base URLs of one server for each (dialect, truth, faults); the process is gone on exit."""
    command = [sys.executable, "-m", "truth_report.fleet"]
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdin and process.stdout
            pickle.dump(list(wanted), process.stdin)
            process.stdin.close()
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def main() -> None:
    """Serve until the process is ended."""
    servers = [
        ReferenceServer(truth, dialect, faults) for dialect, truth, faults in pickle.load(sys.stdin.buffer)
    ]
    threads = [
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": NEVER_S}, daemon=True)
        for server in servers
    ]
    for thread in threads:
        thread.start()
    gc.freeze()
    print(json.dumps([server.url for server in servers]), flush=True)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
