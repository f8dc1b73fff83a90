"""Work spread over processes: in order, with its errors, and gone with the process that asked."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from breakeven.errors import BreakevenError
from breakeven.workers import workers

ASKS = """
import sys, time
from breakeven.workers import workers
if __name__ == "__main__":
    with workers(2) as across:
        print(*across(abs, [-1, -2]), flush=True)
        time.sleep(60)
"""


def torn(number: int) -> int:
    if number:
        raise BreakevenError(f"table {number} is torn")
    return os.getpid()


def test_one_task_starts_no_process():
    with workers(1) as across:
        assert list(across(torn, [0])) == [os.getpid()]


def test_results_come_in_order_from_other_processes_and_errors_come_whole():
    with workers(3) as across:
        assert os.getpid() not in list(across(torn, [0, 0, 0]))
        assert list(across(abs, range(-9, 0))) == list(range(9, 0, -1))
        with pytest.raises(BreakevenError, match="table 2 is torn"):
            list(across(torn, [0, 2, 0]))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux to end them")
def test_killed_with_their_parent(tmp_path):
    script = tmp_path / "asks.py"
    script.write_text(ASKS)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline().split() == ["1", "2"]
        started = psutil.Process(process.pid).children(recursive=True)
        assert len(started) >= 2
        process.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(started, timeout=20)
    assert not alive
