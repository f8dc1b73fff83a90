"""Exec a command that is sent SIGTERM when the process that started it dies.

Run by its path, `python -I -S tether.py PARENT_PID COMMAND ...`: it must start in milliseconds and
import nothing of the package.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent(parent_pid: int) -> None:
    """Ask Linux to end this process with SIGTERM when its parent ends; a parent already gone counts.

    Elsewhere nothing happens: a server left behind is then ended by the next launch on its device.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGTERM)


def main(parent_pid: int, command: list[str]) -> None:
    """Become `command`."""
    die_with_parent(parent_pid)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
