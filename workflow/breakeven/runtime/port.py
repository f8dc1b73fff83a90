"""Whether a port can be served on, and who has it when it cannot."""

import socket
import time

import psutil

from breakeven.runtime.owner import DeviceBusyError


def holder(port: int) -> str | None:
    """Name and pid of the process listening on a TCP port, None when it cannot be seen (another user's).

    The command line is left out on purpose: it may hold a key.
    """
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:  # macOS shows nothing without root
        return None
    for connection in connections:
        local = connection.laddr
        if connection.status == psutil.CONN_LISTEN and local and local.port == port and connection.pid:
            try:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
            except psutil.Error:
                return f"pid {connection.pid}"
    return None


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen on host:port now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def require_free(host: str, port: int, wait_s: float = 1.0) -> None:
    """Raise DeviceBusyError naming the owner when host:port is still taken after `wait_s` seconds."""
    deadline = time.monotonic() + wait_s
    while not is_free(host, port):
        if time.monotonic() >= deadline:
            who = holder(port) or "a process that this user cannot see"
            raise DeviceBusyError(
                f"port {port} on {host} is in use by {who}. "
                "Stop it, or set another port in config/config.yaml."
            )
        time.sleep(0.1)
