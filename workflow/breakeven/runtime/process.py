"""A server as a process of this host, in a session of its own, its output in the log file."""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from breakeven.errors import BreakevenError, ConfigError, LaunchError
from breakeven.runtime import Identity, LaunchSpec, Server
from breakeven.runtime.owner import Owner, require_stale
from breakeven.runtime.signals import shield

INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE"),
)
"""Variables a server takes over from the job. Others reach it through `env` and `env_from` alone, as in a
container: one exported in some shell would otherwise change an arm unseen."""

_RECORDED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_BINARY_MAGIC = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ")
_TETHER = Path(__file__).with_name("tether.py")
_KILL_WAIT_S = 5.0


class ProcessServer:
    """A started process; see `breakeven.runtime.Server`."""

    def __init__(self, base_url: str, log: Path, identity: Identity, popen: subprocess.Popen[bytes]):
        self.base_url = base_url
        self.log = log
        self.identity = identity
        self._popen = popen
        self._oom_kills_at_start = _oom_kills()

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._popen.poll() is None

    def exit_reason(self) -> str | None:
        """Exit code or signal in words, None while it runs."""
        code = self._popen.poll()
        if code is None:
            return None
        if code >= 0:
            return f"exited with code {code}"
        reason = f"ended by {_signal_name(-code)}"
        before, after = self._oom_kills_at_start, _oom_kills()
        if -code == signal.SIGKILL and before is not None and after is not None and after > before:
            reason += (
                f"; the kernel killed {after - before} process(es) for lack of memory since the launch (OOM)"
            )
        return reason

    def drain(self) -> None:
        """Nothing to do: the process writes into the log file itself."""


class ProcessRuntime:
    """Starts `spec.program` + `spec.argv`. It has no options."""

    name = "process"

    @contextlib.contextmanager
    def launch(self, spec: LaunchSpec) -> Iterator[Server]:
        """Start the process; on exit SIGTERM its group, SIGKILL what is left after `stop_timeout_s`.

        On Linux the process gets SIGTERM too when the thread that launched it ends: launch from the main
        thread.
        """
        if spec.options:
            raise ConfigError(
                f"arm {spec.arm}: runtime process has no options, found {', '.join(sorted(spec.options))}. "
                "Remove them from `server:`, or set `runtime: docker`."
            )
        command = [_executable(spec), *spec.program[1:], *spec.argv]
        owner = Owner.here(spec.device, spec.experiment, spec.arm)
        environment = _environment(spec) | owner.environment()
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        with shield() as signals:
            popen = _start(command, environment, spec.log)
            try:
                server = ProcessServer(
                    f"http://{spec.host}:{spec.port}", spec.log, _identity(spec, command, popen.pid), popen
                )
                with signals.open():
                    yield server
            finally:
                _stop(popen, owner, spec.stop_timeout_s)


def _start(command: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    tethered = [sys.executable, "-I", "-S", str(_TETHER), str(os.getpid()), *command]
    try:
        with log.open("wb") as output:
            return subprocess.Popen(
                tethered,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise LaunchError(f"could not start {command[0]}: {error}") from error


def _executable(spec: LaunchSpec) -> str:
    if not spec.program:
        raise ConfigError(f"arm {spec.arm}: runtime process needs a program to run; none was given.")
    found = shutil.which(spec.program[0])
    if found is None:
        raise ConfigError(
            f"arm {spec.arm}: program {spec.program[0]} was not found on PATH or is not executable. "
            "Install it, or set its path in config/config.yaml."
        )
    return found


def read_env_from(spec: LaunchSpec) -> dict[str, str]:
    """The values of `env_from`, to be handed to the server and to nothing else."""
    missing = [name for name in spec.env_from if name not in os.environ]
    if missing:
        raise ConfigError(
            f"arm {spec.arm}: env_from names {', '.join(missing)}, which is not set in this environment. "
            f"Export it before the run; its value is never stored."
        )
    return {name: os.environ[name] for name in spec.env_from}


def _environment(spec: LaunchSpec) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return inherited | dict(spec.env) | read_env_from(spec)


def _identity(spec: LaunchSpec, command: Sequence[str], pid: int) -> Identity:
    recorded = {name: os.environ[name] for name in _RECORDED if name in os.environ}
    return Identity(
        runtime=ProcessRuntime.name,
        program=command[0],
        digest=binary_digest(Path(command[0])),
        argv=tuple(command[1:]),
        env=recorded | dict(spec.env),
        pid=pid,
    )


def binary_digest(program: Path) -> str | None:
    """`sha256:...` of an executable file; None for a script, whose bytes say little about what runs."""
    with program.open("rb") as file:
        if not file.read(4).startswith(_BINARY_MAGIC):
            return None
        file.seek(0)
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _stop(popen: subprocess.Popen[bytes], owner: Owner, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    family = _descendants(popen.pid)
    if popen.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(popen.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            popen.wait(timeout_s)
    if popen.poll() is None:
        popen.kill()
        popen.wait(_KILL_WAIT_S)
    family |= {process for process, other in marked(owner.device) if other.launch == owner.launch}
    _end(family, max(0.0, deadline - time.monotonic()))


def _descendants(pid: int) -> set[psutil.Process]:
    try:
        return set(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return set()


def _end(processes: Iterable[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """SIGTERM, wait, SIGKILL, wait; returns what still lives (a process stuck in a driver)."""
    left = _living(processes)
    for send, wait_s in ((psutil.Process.terminate, timeout_s), (psutil.Process.kill, _KILL_WAIT_S)):
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                send(process)
        deadline = time.monotonic() + wait_s
        while (left := _living(left)) and time.monotonic() < deadline:
            time.sleep(0.05)
    return left


def _living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; a zombie holds no memory, device or port, and may wait long for a lazy init."""
    living = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                living.append(process)
    return living


def marked(device: str) -> list[tuple[psutil.Process, Owner]]:
    """Processes of this user that carry the marker variables of `device` (all users' for root)."""
    found = []
    for process in psutil.process_iter():
        try:
            owner = Owner.from_environment(process.environ())
        except (psutil.Error, OSError):
            continue
        if owner is not None and owner.device == device:
            found.append((process, owner))
    return found


def reap(device: str, timeout_s: float) -> list[str]:
    """End the server processes that dead jobs left on `device`, wait for their end, say which they were.

    Call it under the device's lock. Raises DeviceBusyError, before anything is ended, when a living job
    owns one.
    """
    stale = marked(device)
    for process, owner in stale:
        require_stale(owner, f"process {process.pid}")
    left = _end([process for process, _ in stale], timeout_s)
    if left:
        raise BreakevenError(
            f"device {device}: process {', '.join(str(process.pid) for process in left)}, left by an earlier "
            "run, does not end on SIGKILL (stuck in a driver?). End it by hand, or reboot the host."
        )
    return [f"process {process.pid} of {owner}" for process, owner in stale]


def _oom_kills() -> int | None:
    try:
        counters = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        return int(counters["oom_kill"])
    except (OSError, KeyError, ValueError):
        return None


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"
