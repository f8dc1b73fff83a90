"""`python -m reference_server --dialect vllm --port 8000 --n 3`: a reference server as a process.

Every field of Truth is a flag (`--t0-s 0.004`, `--acceptance 0.9,0.8`), every field of Faults one with
`--fault-` before it (`--fault-http-500 2`). Flags of the real engines that decide the truth are understood,
all others are named in the log and ignored, so that an arm's own command line can start it.
"""

import argparse
import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from reference_server.faults import Faults
from reference_server.server import DIALECTS, ReferenceServer
from reference_server.truth import Truth, conditional, mi210


def parse(argv: Sequence[str]) -> tuple[argparse.Namespace, Truth, Faults, list[str]]:
    """Options, truth, faults, and the arguments that mean nothing here."""
    parser = argparse.ArgumentParser(prog="reference_server", description=__doc__, allow_abbrev=False)
    parser.add_argument("--dialect", choices=sorted(DIALECTS), required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--startup-s", type=float, default=0.0, help="time to load")
    parser.add_argument("--log-line", action="append", default=[], help="also in the startup log")
    parser.add_argument("--launch-count", type=Path, help="file that counts launches and numbers this one")
    parser.add_argument("--mi210", type=int, choices=range(4), metavar="N", help="the MI210 case at N")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the times of --mi210")
    parser.add_argument("--truth", type=json.loads, default={}, help="JSON object of Truth fields")
    parser.add_argument("--faults", type=json.loads, default={}, help="JSON object of Faults fields")
    _add_fields(parser, Truth, "--")
    _add_fields(parser, Faults, "--fault-")
    engines_own = parser.add_argument_group("flags of the real engines")
    engines_own.add_argument("--speculative-config", type=json.loads, help="vLLM")
    engines_own.add_argument("--spec-type", help="llama.cpp: anything but none drafts")
    engines_own.add_argument("--spec-draft-n-max", type=int, default=3, help="llama.cpp: n, when it drafts")
    engines_own.add_argument("--spec-synth-rates", type=_floats, help="llama.cpp: survival per position")
    engines_own.add_argument("--enable-prompt-tokens-details", action="store_true")
    engines_own.add_argument("--no-enable-prefix-caching", action="store_true")
    engines_own.add_argument("--block-size", type=int)
    engines_own.add_argument("--max-model-len", "--ctx-size", type=int, help="llama.cpp: also -c")
    options, ignored = parser.parse_known_args(["--ctx-size" if word == "-c" else word for word in argv])
    truth = mi210(options.mi210, scale=options.scale) if options.mi210 is not None else Truth()
    said = {**_engine_flags(options), **_tuples(options.truth), **_given(options, Truth, "")}
    truth = replace(truth, **said)
    if options.launch_count:
        truth = replace(truth, launch=_count_launch(options.launch_count))
    faults = Faults(**{**options.faults, **_given(options, Faults, "fault_")})
    return options, truth, faults, ignored


def main(argv: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT."""
    options, truth, faults, ignored = parse(argv)
    loads = options.dialect == "vllm" and options.startup_s
    if loads:
        time.sleep(options.startup_s)
    server = ReferenceServer(
        truth,
        options.dialect,
        faults,
        host=options.host,
        port=options.port,
        log=lambda line: print(line, file=sys.stderr, flush=True),
        on_death=_die,
    )
    server.ready_at = 0.0 if loads else time.monotonic() + options.startup_s
    for line in [*options.log_line, *server.dialect.startup_log(server.engine, server.url)]:
        server.log(line)
    server.log(f"reference truth: {json.dumps(asdict(truth))}")
    server.log(f"reference launch factor: {server.engine.launch_factor}")
    if ignored:
        server.log(f"reference: arguments without meaning here: {ignored}")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    gc.freeze()
    print(f"listening on {server.url}", flush=True)
    stop.wait()
    server.stop()
    return 0


def _add_fields(parser: argparse.ArgumentParser, kind: type, prefix: str) -> None:
    group = parser.add_argument_group(kind.__name__)
    for name, hint in get_type_hints(kind).items():
        flag = prefix + name.replace("_", "-")
        dest = (prefix + name).replace("-", "_").lstrip("_")
        if hint is bool:
            how: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
        else:
            how = {"type": _floats if hint == tuple[float, ...] else (get_args(hint) or (hint,))[0]}
        group.add_argument(flag, dest=dest, default=argparse.SUPPRESS, **how)


def _given(options: argparse.Namespace, kind: type, prefix: str) -> dict[str, Any]:
    """Fields that the command line names."""
    said = vars(options)
    return {field.name: said[prefix + field.name] for field in fields(kind) if prefix + field.name in said}


def _engine_flags(options: argparse.Namespace) -> dict[str, Any]:
    out: dict[str, Any] = {}
    config = options.speculative_config or {}
    if config:
        out["n"] = config["num_speculative_tokens"]
    if options.spec_type not in (None, "none"):
        out["n"] = options.spec_draft_n_max
    if forced := config.get("synthetic_acceptance_rates") or options.spec_synth_rates:
        out["acceptance"] = conditional(forced)
    if options.enable_prompt_tokens_details:
        out["prompt_tokens_details"] = True
    if options.no_enable_prefix_caching:
        out["prefix_cache"] = False
    if options.block_size:
        out["block"] = options.block_size
    if options.max_model_len:
        out["max_context"] = options.max_model_len
    return out


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _floats(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(",") if part)


def _count_launch(path: Path) -> int:
    launch = int(path.read_text()) + 1 if path.exists() else 1
    path.write_text(str(launch))
    return launch


def _die() -> None:
    print("reference: died as asked", file=sys.stderr, flush=True)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
