"""What the Docker tests wait for."""

import time
from pathlib import Path

import httpx

UNIT = Path(__file__).parent.parent / "unit"


def wait_for(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return value


def answers(spec):
    """Whether something accepts on the spec's port and speaks: Docker's own proxy accepts before the server."""
    try:
        return httpx.get(f"http://{spec.host}:{spec.port}/", timeout=1).status_code == 200
    except httpx.HTTPError:
        return False
