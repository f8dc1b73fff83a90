"""The HTTP/1.1 server: plays an engine's plans at absolute times, so that lateness never adds up."""

import contextlib
import ctypes
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from typing import Any

from reference_server.dialects import BadRequestError, Dialect, Reply, Writer, llamacpp, vllm
from reference_server.engine import Engine, Plan, Sent
from reference_server.faults import NO_FAULTS, Faults
from reference_server.truth import Truth

DIALECTS: dict[str, Dialect] = {"vllm": vllm, "llamacpp": llamacpp}
PR_SET_TIMERSLACK = 29
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
SPIN_S = 0.0002
"""A sleep ends up to 0.1 ms late even with a timer slack of 1 ns; the rest of a wait is a yielding loop."""


class ReferenceServer(ThreadingHTTPServer):
    """Serves one truth in one dialect until `die` or `shutdown`."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        truth: Truth,
        dialect: str,
        faults: Faults = NO_FAULTS,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        log: Callable[[str], None] | None = None,
        on_death: Callable[[], None] | None = None,
    ) -> None:
        if dialect not in DIALECTS:
            raise ValueError(f"dialect is {dialect!r}, wanted one of {sorted(DIALECTS)}")
        self.dialect = DIALECTS[dialect]
        if truth.engines > 1 and not self.dialect.block_cache:
            raise ValueError(f"engines is {truth.engines}, but {dialect} has one set of counters")
        self.engine = Engine(
            truth,
            faults,
            event_per_token=self.dialect.event_per_token,
            cut_last_draft=self.dialect.cut_last_draft,
            block_cache=self.dialect.block_cache,
        )
        self.ready_at = 0.0
        self.log = log or (lambda line: None)
        self._on_death = on_death or (lambda: threading.Thread(target=self.stop).start())
        self._open: set[socket.socket] = set()
        super().__init__((host, port), Handler)
        self.url = f"http://{host}:{self.server_address[1]}"

    def die(self) -> None:
        """Go away at once, as a crashed process does."""
        self._on_death()

    def stop(self) -> None:
        """Stop listening and cut every connection."""
        self.shutdown()
        self.server_close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def opened(self, connection: socket.socket) -> None:
        """Remember a connection, to cut it when the server stops."""
        self._open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        """Forget a connection."""
        self._open.discard(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error; anything else is printed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ReferenceServer

    def setup(self) -> None:
        super().setup()
        if LIBC:
            LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
        self.server.opened(self.connection)

    def finish(self) -> None:
        self.server.closed(self.connection)
        super().finish()

    def parse_request(self) -> bool:
        self.arrived = time.monotonic()
        return super().parse_request()

    def log_message(self, format: str, *args: Any) -> None:
        self.server.log(f"INFO:     {self.client_address[0]}:{self.client_address[1]} - {format % args}")

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        engine, dialect = self.server.engine, self.server.dialect
        if path == "/reference/truth":
            known = {"truth": asdict(engine.truth), "faults": asdict(engine.faults)}
            self._reply(Reply.of({**known, "launch_factor": engine.launch_factor}))
        elif time.monotonic() < self.server.ready_at:
            self._reply(dialect.error("Loading model", 503))
        else:
            self._reply(dialect.get(engine, path) or dialect.error("Not Found", 404))

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        engine, dialect = self.server.engine, self.server.dialect
        if time.monotonic() < self.server.ready_at:
            self._reply(dialect.error("Loading model", 503))
            return
        try:
            body = json.loads(raw)
            request = dialect.generation(engine, path, body)
        except BadRequestError as refused:
            self._reply(dialect.error(str(refused), refused.status))
            return
        except (ValueError, TypeError, AttributeError, KeyError) as broken:
            self._reply(dialect.error(f"request body cannot be used: {broken!r}", 400))
            return
        if request is None:
            self._reply(dialect.post(engine, path, body) or dialect.error("Not Found", 404))
        elif engine.refuses():
            self._reply(dialect.error("EngineCore encountered an issue.", 500))
        else:
            plan = engine.plan(request, self.arrived)
            writer = dialect.writer(engine, plan)
            (self._stream if request.stream else self._answer)(plan, writer)

    def _reply(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def _answer(self, plan: Plan, writer: Writer) -> None:
        """The whole completion at once, when its last step is over."""
        engine = self.server.engine
        wait_until(self.arrived + plan.ends_s[-1])
        engine.count(plan, lambda counters: counters.add_prompt(plan))
        for step in plan.steps:
            engine.count(plan, lambda counters, step=step: counters.add_step(step))
        self._finish(plan, sent := Sent(plan.ends_s[0], plan.ends_s[-1]))
        self._reply(Reply.of(writer.whole(sent)))

    def _stream(self, plan: Plan, writer: Writer) -> None:
        """One HTTP chunk an event; the events that leave after one step go out in one write."""
        faults = self.server.engine.faults
        self._last_sent = self.arrived
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._send(writer.opening())
        counted, first_s, last_s = -2, 0.0, 0.0
        numbered = enumerate(plan.events)
        for step, group in groupby(numbered, key=lambda pair: pair[1].step):
            burst = list(group)
            payload = [part for index, _ in burst for part in writer.event(index)]
            sent_tokens = burst[-1][1].stop
            self._wait(self.arrived + plan.due_s(burst[0][1]))
            if faults.truncates_after_tokens is not None and sent_tokens > faults.truncates_after_tokens:
                self._send([payload[0][: len(payload[0]) // 2]])
                self._hang_up()
                return
            last_s = time.monotonic() - self.arrived
            self._send(payload)
            first_s = first_s or (last_s if step < 0 else plan.ends_s[0])
            self._count(plan, counted, step)
            counted = step
            if faults.dies_after_tokens is not None and sent_tokens >= faults.dies_after_tokens:
                self._hang_up()
                self.server.die()
                return
        sent = Sent(first_s, last_s)
        self._finish(plan, sent)
        self._send([] if faults.ends_without_done else writer.closing(sent))
        self.wfile.write(b"0\r\n\r\n")

    def _count(self, plan: Plan, counted: int, step: int) -> None:
        """Count the prefill (-1) and the steps after `counted` up to `step`."""
        if counted < -1:
            self.server.engine.count(plan, lambda counters: counters.add_prompt(plan))
        for done in plan.steps[max(counted + 1, 0) : step + 1]:
            self.server.engine.count(plan, lambda counters, done=done: counters.add_step(done))

    def _finish(self, plan: Plan, sent: Sent) -> None:
        self.server.engine.finish(plan, sent)
        for line in self.server.dialect.request_log(self.server.engine, plan, sent):
            self.server.log(line)

    def _send(self, parts: Sequence[bytes]) -> None:
        if parts:
            self.wfile.write(b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts))
            self._last_sent = time.monotonic()

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _wait(self, due: float) -> None:
        """Wait for a monotonic time; a silent stream gets comment lines meanwhile."""
        every = self.server.engine.truth.keepalive_s
        while every and (ping := self._last_sent + every) < due:
            wait_until(ping)
            self._send([b": ping\n\n"])
        wait_until(due)


def wait_until(due: float) -> None:
    """Return as soon as the monotonic clock reaches `due` (seconds)."""
    while (left := due - time.monotonic()) > 0:
        time.sleep(max(left - SPIN_S, 0))


@contextlib.contextmanager
def reference_server(truth: Truth, *, dialect: str, faults: Faults = NO_FAULTS) -> Iterator[str]:
    """Run a server in threads of this process and give its base URL; nothing of it is left afterwards.

    Client and server share one interpreter lock here. Where microseconds count use `reference_process`.
    """
    server = ReferenceServer(truth, dialect, faults)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.stop()
        thread.join()
