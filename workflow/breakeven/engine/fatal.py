"""Lines after which a server will not answer, the harmless ones that look alike, and what a silent log means."""

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Any

COMPILE_PATIENCE_S = 1800.0
"""Silence that a compile or a large checkpoint explains; beyond it even they count as silent."""
QUIET_S = 120.0
MOST_QUOTED = 6
LONGEST_QUOTE = 300


@dataclass(frozen=True)
class Fatal:
    """One way in which an engine dies. `reason` names it; without one the matched text does."""

    regex: str
    example: str
    words: str
    reason: str | None = None
    engines: tuple[str, ...] = ("vllm", "sglang", "llamacpp")
    compiled: Any = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", re.compile(self.regex))


_VLLM, _SGLANG, _LLAMA = ("vllm",), ("sglang",), ("llamacpp",)
FATAL = (
    Fatal(
        r"EngineCore encountered a fatal error",
        "core.py:1512] EngineCore encountered a fatal error.",
        "encountered",
        None,
        _VLLM,
    ),
    Fatal(r"EngineCore failed to start", "core.py:700] EngineCore failed to start.", "failed", None, _VLLM),
    Fatal(
        r"Engine core initialization failed",
        "RuntimeError: Engine core initialization failed. See root",
        "initialization",
        None,
        _VLLM,
    ),
    Fatal(
        r"EngineDeadError|Engine process died|Background loop has errored|AsyncLLM output_handler failed",
        "AsyncEngineDeadError: Background loop has errored already.",
        "enginedeaderror died asyncenginedeaderror errored output_handler",
        None,
        _VLLM,
    ),
    Fatal(
        r"EngineCore died unexpectedly|Engine core proc \S+ died unexpectedly",
        "Engine core proc EngineCore_DP0 died unexpectedly",
        "unexpectedly",
        None,
        _VLLM,
    ),
    Fatal(
        r"Worker proc \S+ died unexpectedly|WorkerProc hit an exception|WorkerProc (?:failed to start|"
        r"initialization failed)",
        "multiproc_executor.py:596] WorkerProc hit an exception.",
        "workerproc unexpectedly",
        None,
        _VLLM,
    ),
    Fatal(
        r"Scheduler hit an exception|Received sigquit from a child process|TpModelWorkerClient hit an "
        r"exception",
        "[2025-03-04 10:11:12 TP0] Scheduler hit an exception: Traceback",
        "scheduler sigquit tpmodelworkerclient",
        None,
        _SGLANG,
    ),
    Fatal(
        r"Detokenizer hit an exception|Rank \d+ scheduler died",
        "Rank 1 scheduler died with exit code -9",
        "detokenizer rank",
        None,
        _SGLANG,
    ),
    Fatal(
        r"failed to load model\b|error loading model\b",
        "E srv    load_model: failed to load model, '/srv/m.gguf'",
        "load loading",
        None,
        _LLAMA,
    ),
    Fatal(
        r"exiting due to model loading error",
        "E srv  llama_server: exiting due to model loading error",
        "exiting",
        None,
        _LLAMA,
    ),
    Fatal(
        r"failed to create MTP context|failed to load draft model",
        "E srv    load_model: failed to create MTP context",
        "failed",
        None,
        _LLAMA,
    ),
    Fatal(
        r"failed to (?:create|initialize) (?:the )?context\b",
        "llama_init_from_model: failed to initialize the context: failed to fit",
        "failed",
        None,
        _LLAMA,
    ),
    Fatal(
        r"error while handling argument \"[^\"]*\": .*",
        'error while handling argument "--draft-max": the argument has been removed.',
        "argument",
        None,
        _LLAMA,
    ),
    Fatal(
        r"error: (?:unknown argument|invalid argument): \S+",
        "error: invalid argument: --spec-tpye",
        "argument",
        None,
        _LLAMA,
    ),
    Fatal(
        r"GGML_ASSERT\([^)]*\)? ?failed|GGML_ABORT|ggml_abort|CUDA error: \S.*",
        "ggml.c:12: GGML_ASSERT(n > 0) failed",
        "ggml_assert ggml_abort cuda",
        None,
        _LLAMA,
    ),
    Fatal(
        r"couldn't bind (?:HTTP )?(?:server )?socket|couldn't bind to server socket",
        "E srv start: couldn't bind HTTP server socket, hostname: 127.0.0.1",
        "bind",
        None,
        _LLAMA,
    ),
    Fatal(
        r"ErrorDeviceLost|vk::\w*Error",
        "terminate called: vk::DeviceLostError",
        "errordevicelost vk",
        None,
        _LLAMA,
    ),
    Fatal(
        r"(?:torch\.)?(?:cuda\.)?OutOfMemoryError\b|(?:CUDA|HIP|ROCm) out of memory|cudaMalloc failed: out "
        r"of memory|failed to allocate "
        r"(?:\w+ )?buffer|unable to allocate \w+ buffer|hipErrorOutOfMemory|ErrorOutOfDeviceMemory",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.",
        "outofmemoryerror memory allocate hiperroroutofmemory erroroutofdevicememory",
        "out of memory",
    ),
    Fatal(
        r"No available memory for the cache blocks|larger than the (?:maximum number of tokens|available "
        r"KV cache memory)|"
        r"estimated maximum model length|Not enough memory\. Please try",
        "ValueError: No available memory for the cache blocks. Try increasing gpu_memory_utilization",
        "memory maximum estimated",
        None,
    ),
    Fatal(
        r"Free memory on device .* is less than desired GPU memory utilization",
        "ValueError: Free memory on device (2.0/16.0 GiB) on startup "
        "is less than desired GPU memory utilization (0.9, 14.4 GiB).",
        "desired",
        None,
        _VLLM,
    ),
    Fatal(
        r"NCCL error[^\n]{0,120}|ncclInternalError|ncclSystemError|ncclUnhandledCudaError|RCCL error",
        "RuntimeError: NCCL error: unhandled cuda error",
        "nccl ncclinternalerror ncclsystemerror ncclunhandledcudaerror rccl",
    ),
    Fatal(
        r"HSA_STATUS_ERROR\w*|Memory access fault by GPU node|an illegal memory access was encountered|"
        r"device-side assert triggered|HW Exception by GPU",
        "Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x2.",
        "hsa_status_error fault illegal assert exception triggered",
    ),
    Fatal(r"Address already in use", "OSError: [Errno 98] Address already in use", "address"),
    Fatal(
        r"(?:is not a local folder and is not a valid model identifier|Repository Not Found|No such file "
        r"or directory: '[^']*|does not appear to have a file named)",
        "OSError: /srv/none does not appear to have a file named config.json.",
        "identifier repository directory appear",
    ),
    Fatal(
        r"weights were not initialized from checkpoint",
        "ValueError: Following weights were not initialized from checkpoint: {'a'}",
        "initialized",
        None,
        _VLLM,
    ),
    Fatal(
        r"(?:Segmentation fault|core dumped|Fatal Python error: \w+|terminate called after throwing)",
        "Fatal Python error: Aborted",
        "segmentation dumped fatal terminate",
    ),
    Fatal(
        r"(?:unrecognized arguments|error: argument)[: ].*",
        "vllm: error: unrecognized arguments: --spec-tpye",
        "argument arguments",
        None,
        ("vllm", "sglang"),
    ),
    Fatal(
        r"pydantic_core\._pydantic_core\.ValidationError|ValidationError: \d+ validation error",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig",
        "validationerror validation",
        None,
        _VLLM,
    ),
)
BENIGN = (
    (
        r"failed to measure the memory of the extra model",
        "llama.cpp fits without it",
        "W operator(): failed to measure the memory of the extra model, fitting",
    ),
    (
        r"\[shutdown\]|force killing remaining process|Shutting down|Parent process exited",
        "a stop that was asked for",
        "[shutdown] Executor: waiting for worker exit count=1",
    ),
    (
        r"resource_tracker: There appear to be",
        "left by a normal exit",
        "UserWarning: resource_tracker: There appear to be 1 leaked semaphore objects",
    ),
    (
        r"Failed to import from vllm\._\w+|libtcmalloc is not found|Found ulimit of",
        "missing extras",
        "WARNING Failed to import from vllm._C with ModuleNotFoundError",
    ),
    (
        r"NCCL version|NCCL INFO|ProcessGroupNCCL\S* destroy_process_group",
        "NCCL's own information",
        "NCCL INFO Bootstrap : Using eth0",
    ),
    (
        r"HTTP/1\.[01]\" [234]\d\d",
        "an access line",
        '127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 404 Not Found',
    ),
    (
        r"Engine core proc \S+ died unexpectedly.*after shutdown|cancel_scope|"
        r"asyncio\.exceptions\.CancelledError",
        "a client went away",
        "asyncio.exceptions.CancelledError",
    ),
    (r"W common_|retrying|Retrying", "it tries again", "ncclSystemError, retrying connection"),
)
"""(regex, why it is harmless, example): lines that hold fatal words and mean nothing."""
_BENIGN = re.compile("|".join(regex for regex, _, _ in BENIGN))
_STOP = re.compile(r"\[shutdown\]|INFO: +Shutting down|SIGTERM received|Received (?:SIGTERM|SIGINT)")
STOP_WORDS = frozenset({b"shutdown", b"shutting", b"sigterm", b"sigint"})
LONGEST_LINE = 20_000
_BUSY = re.compile(
    r"[Cc]ompil|Capturing|[Cc]apture cuda graph begin|Loading safetensors|Load weight begin|loading model "
    r"tensors|Dynamo bytecode|"
    r"[Ww]arming up|autotun|Autotun|fitting params|JIT|Building|Downloading"
)
_READY = re.compile(
    r"Application startup complete|fired up and ready to roll|\bmodel loaded\b|listening on http|server is "
    r"listening"
)
_TROUBLE = re.compile(
    r"\bERROR\b|Error\b|Traceback|\bE (?:srv|llama|gguf|common|spec)|[Ff]ailed|[Ee]xception"
)
_CAUSE = re.compile(r"\b\w*(?:Error|Exception): \S.*")
_VALIDATION = re.compile(r"ValidationError: \d+ validation error")
VALIDATION_LINES = 2
"""pydantic's first complaint below its headline: the key, then what is wrong with its value."""
MOST_CAUSES = 3
_BY_WORD: dict[bytes, list[Fatal]] = {}
for _entry in FATAL:
    for _word in _entry.words.split():
        _BY_WORD.setdefault(_word.encode(), []).append(_entry)
FATAL_WORDS = frozenset(_BY_WORD)


def is_stop(line: str) -> bool:
    """Whether a line belongs to a stop that was asked for; what dies after it did not die of itself."""
    return _STOP.search(line) is not None


def fatal_entry(engine: str | None, line: str, words: Set[bytes] | None = None) -> tuple[Fatal, str] | None:
    """Return the kind of death that a line tells of, and the reason; None for any other line.

    `words` are the line's lower-case words where they are known: they narrow the patterns that are tried.
    """
    line = line[:LONGEST_LINE]
    called = FATAL if words is None else [e for word in words & FATAL_WORDS for e in _BY_WORD[word]]
    for entry in called:
        if (engine is None or engine in entry.engines) and (found := entry.compiled.search(line)):
            reason = entry.reason or found[0].strip().rstrip(".")
            return None if _BENIGN.search(line) else (entry, reason)
    return None


def fatal(engine: str | None, line: str) -> str | None:
    """Return why a line means that the server is lost, or None. `engine` None tries every engine's patterns."""
    found = fatal_entry(engine, line)
    return found[1] if found else None


def fatal_lines(engine: str | None, lines: Iterable[str]) -> list[tuple[int, str, str]]:
    """Return (line number from 1, reason, text) of every fatal line before a stop that was asked for."""
    found = []
    for number, line in enumerate(lines, 1):
        if is_stop(line):
            break
        if reason := fatal(engine, line):
            found.append((number, reason, line.strip()))
    return found


def diagnose(log_text: str, alive: bool, silent_s: float, engine: str | None = None) -> str:
    """Say in words what a start that is not ready is doing, and quote the lines that say so.

    Tells apart: crashed (process gone), crashed but alive (a fatal line, the container still runs), still compiling
    or loading (the last line says so and the silence is within reason), and silent for `silent_s` seconds.
    """
    lines = [line for line in re.split(r"[\r\n]+", log_text) if line.strip()]
    deaths = fatal_lines(engine, lines)
    if deaths:
        state = "crashed, but the process is still there" if alive else "crashed"
        causes = _root_causes(lines)
        quoted = _quote([text for _, _, text in deaths] + causes)
        return f"{state}: {deaths[0][1]}{_in_short(causes)}\n{quoted}"
    if not alive:
        return f"ended without a line that says why; its last lines:\n{_quote(lines[-MOST_QUOTED:])}"
    if not lines:
        return f"has printed nothing for {silent_s:.0f} s"
    last = lines[-1]
    recent = lines[-3:]
    if any(_READY.search(line) for line in lines):
        return f"has said that it is ready and been silent for {silent_s:.0f} s:\n{_quote(recent)}"
    if any(_BUSY.search(line) for line in recent) and silent_s < COMPILE_PATIENCE_S:
        return f"still compiling or loading (last line {silent_s:.0f} s ago):\n{_quote([last])}"
    if silent_s < QUIET_S:
        return f"still starting (last line {silent_s:.0f} s ago):\n{_quote([last])}"
    trouble = [line for line in lines if _TROUBLE.search(line) and not _BENIGN.search(line)]
    return f"silent for {silent_s:.0f} s; its last lines:\n{_quote([*trouble[-3:], *recent])}"


def _root_causes(lines: list[str]) -> list[str]:
    """Return the exceptions themselves: the lines that a traceback ends with, and what pydantic says below its own."""
    causes = []
    for place, line in enumerate(lines):
        if _CAUSE.search(line) and not _BENIGN.search(line):
            causes.append(line.strip())
            if _VALIDATION.search(line):
                causes += [below.strip() for below in lines[place + 1 : place + 1 + VALIDATION_LINES]]
    return causes[:MOST_CAUSES]


def _in_short(causes: list[str]) -> str:
    """` (ValueError: ...)`: the first exception, where there is one, with what pydantic says of it."""
    named = [found[0] for cause in causes if (found := _CAUSE.search(cause))]
    if not named:
        return ""
    detail = causes[1 : 1 + VALIDATION_LINES] if _VALIDATION.search(causes[0]) else []
    return f" ({' '.join(_shortened(part) for part in [named[0], *detail])})"


def _quote(lines: list[str]) -> str:
    unique = list(dict.fromkeys(_shortened(line.strip()) for line in lines))
    return "\n".join(f"  > {line}" for line in unique[:MOST_QUOTED])


def _shortened(line: str) -> str:
    """Both ends of a long line: a list of all allowed values is often followed by the one that was found."""
    return line if len(line) <= LONGEST_QUOTE else f"{line[:200]} .. {line[200 - LONGEST_QUOTE :]}"
