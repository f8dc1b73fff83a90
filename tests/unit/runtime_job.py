"""A job around one server, to be interrupted from outside: `runtime_job.py RUNTIME SPEC.json [raise]`.

Prints `up` once the server answers, then waits, or raises as a measurement that fails would.
"""

import json
import socket
import sys
import time
from pathlib import Path

from breakeven.runtime import LaunchSpec, session
from breakeven.runtime.signals import interruptible


def wait_until_up(host, port):
    while True:
        try:
            return socket.create_connection((host, port), 1).close()
        except OSError:
            time.sleep(0.02)


def main(runtime, spec_path, *mode):
    fields = json.loads(Path(spec_path).read_text())
    spec = LaunchSpec(**fields | {"log": Path(fields["log"])})
    with interruptible(), session.serve(session.named(runtime), spec, lock_wait_s=0.5) as server:
        wait_until_up(spec.host, spec.port)
        print("up", server.identity.container or server.identity.pid, flush=True)
        if mode:
            raise RuntimeError("the measurement failed")
        time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
