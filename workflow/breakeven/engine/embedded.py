"""llama.cpp's own server inside this Python process, started with llama-server's flags.

`python -m breakeven.engine.embedded --model M --port 8080 --spec-type draft-mtp --spec-draft-n-max 2`
behaves like `llama-server` with the same flags: an experiment reads the same whether an arm runs embedded, as a
binary or in an image. Imports only xllamacpp and the standard library, so that it can be all there is in an image.
A flag that is not in the table is an error: a flag that is silently dropped would measure another arm.
"""

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NoReturn

import xllamacpp

Setter = Callable[[Any, Any], None]

STOP_S = 2
"""Seconds that llama.cpp may take to end; it needs milliseconds."""


def _into(path: str) -> Setter:
    """Setter of a CommonParams attribute given as a dotted path."""
    *parents, name = path.split(".")

    def set_value(params: Any, value: Any) -> None:
        for parent in parents:
            params = getattr(params, parent)
        setattr(params, name, value)

    return set_value


def _member(enum: Any, prefix: str) -> Callable[[str], Any]:
    """Converter from llama-server's spelling to a member of an enum; the error lists what there is."""
    names = {
        name[len(prefix) :].lower().replace("_", "-"): name
        for name in dir(enum)
        if name.startswith(prefix) and not name.endswith("_COUNT")
    }

    def convert(text: str) -> Any:
        key = text.lower().replace("_", "-")
        if key not in names:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(sorted(names))}")
        return getattr(enum, names[key])

    return convert


_speculative_type = _member(xllamacpp.common_speculative_type, "COMMON_SPECULATIVE_TYPE_")
_cache_type = _member(xllamacpp.ggml_type, "GGML_TYPE_")
_split_mode = _member(xllamacpp.llama_split_mode, "LLAMA_SPLIT_MODE_")


def _speculative_types(text: str) -> list[Any]:
    return [_speculative_type(part) for part in text.split(",")]


def _flash_attention(text: str) -> Any:
    kinds = xllamacpp.llama_flash_attn_type
    known = {
        "on": kinds.LLAMA_FLASH_ATTN_TYPE_ENABLED,
        "off": kinds.LLAMA_FLASH_ATTN_TYPE_DISABLED,
        "auto": kinds.LLAMA_FLASH_ATTN_TYPE_AUTO,
    }
    if text not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of on, off, auto")
    return known[text]


def _gpu_layers(text: str) -> int:
    return {"auto": -1, "all": -2}.get(text) or int(text)


def _rates(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def _texts(text: str) -> list[str]:
    return text.split(",")


def _load_mode(mode: str) -> Setter:
    return lambda params, _: _into("load_mode")(
        params, getattr(xllamacpp.llama_load_mode, f"LLAMA_LOAD_MODE_{mode}")
    )


_FLAGS_WITH_VALUE: list[tuple[Sequence[str], Callable[[str], Any], Setter]] = [
    (("-m", "--model"), str, _into("model.path")),
    (("-a", "--alias"), lambda text: {text}, _into("model_alias")),
    (("--host",), lambda text: [text], _into("hostnames")),
    (("--port",), int, _into("port")),
    (("--api-key",), _texts, _into("api_keys")),
    (("-c", "--ctx-size"), int, _into("n_ctx")),
    (("-n", "--predict", "--n-predict"), int, _into("n_predict")),
    (("-b", "--batch-size"), int, _into("n_batch")),
    (("-ub", "--ubatch-size"), int, _into("n_ubatch")),
    (("-np", "--parallel"), int, _into("n_parallel")),
    (("-t", "--threads"), int, _into("cpuparams.n_threads")),
    (("-tb", "--threads-batch"), int, _into("cpuparams_batch.n_threads")),
    (("--poll",), int, _into("cpuparams.poll")),
    (("--threads-http",), int, _into("n_threads_http")),
    (("-ngl", "--gpu-layers", "--n-gpu-layers"), _gpu_layers, _into("n_gpu_layers")),
    (("-sm", "--split-mode"), _split_mode, _into("split_mode")),
    (("-mg", "--main-gpu"), int, _into("main_gpu")),
    (("-fa", "--flash-attn"), _flash_attention, _into("flash_attn_type")),
    (("-ctk", "--cache-type-k"), _cache_type, _into("cache_type_k")),
    (("-ctv", "--cache-type-v"), _cache_type, _into("cache_type_v")),
    (("-cram", "--cache-ram"), int, _into("cache_ram_mib")),
    (("--ctx-checkpoints", "--swa-checkpoints"), int, _into("n_ctx_checkpoints")),
    (("--cache-reuse",), int, _into("n_cache_reuse")),
    (("-sps", "--slot-prompt-similarity"), float, _into("slot_prompt_similarity")),
    (("--rope-freq-base",), float, _into("rope_freq_base")),
    (("--rope-freq-scale",), float, _into("rope_freq_scale")),
    (("--chat-template",), str, _into("chat_template")),
    (("-s", "--seed"), int, _into("sampling.seed")),
    (("--temp", "--temperature"), float, _into("sampling.temp")),
    (("-lv", "--verbosity", "--log-verbosity"), int, _into("verbosity")),
    (("--spec-type",), _speculative_types, _into("speculative.types")),
    (("--spec-synth-rates",), _rates, _into("speculative.synth_rates")),
    (("--spec-synth-len",), float, _into("speculative.synth_len")),
    (("-md", "--spec-draft-model", "--model-draft"), str, _into("speculative.draft.mparams.path")),
    (("--spec-draft-n-max",), int, _into("speculative.draft.n_max")),
    (("--spec-draft-n-min",), int, _into("speculative.draft.n_min")),
    (("--spec-draft-p-min",), float, _into("speculative.draft.p_min")),
    (("--spec-draft-p-split",), float, _into("speculative.draft.p_split")),
    (
        ("-ngld", "--spec-draft-ngl", "--gpu-layers-draft"),
        _gpu_layers,
        _into("speculative.draft.n_gpu_layers"),
    ),
    (
        ("-ctkd", "--spec-draft-type-k", "--cache-type-k-draft"),
        _cache_type,
        _into("speculative.draft.cache_type_k"),
    ),
    (
        ("-ctvd", "--spec-draft-type-v", "--cache-type-v-draft"),
        _cache_type,
        _into("speculative.draft.cache_type_v"),
    ),
    (("-td", "--spec-draft-threads"), int, _into("speculative.draft.cpuparams.n_threads")),
    (("-tbd", "--spec-draft-threads-batch"), int, _into("speculative.draft.cpuparams_batch.n_threads")),
    (("-lcs", "--lookup-cache-static"), str, _into("speculative.ngram_cache.lookup_cache_static")),
    (("-lcd", "--lookup-cache-dynamic"), str, _into("speculative.ngram_cache.lookup_cache_dynamic")),
    (("--spec-ngram-mod-n-match",), int, _into("speculative.ngram_mod.n_match")),
    (("--spec-ngram-mod-n-min",), int, _into("speculative.ngram_mod.n_min")),
    (("--spec-ngram-mod-n-max",), int, _into("speculative.ngram_mod.n_max")),
    *(
        (
            (f"--spec-ngram-{kind}-{flag}",),
            int,
            _into(f"speculative.ngram_{kind.replace('-', '_')}.{flag.replace('-', '_')}"),
        )
        for kind in ("simple", "map-k", "map-k4v")
        for flag in ("size-n", "size-m", "min-hits")
    ),
]
_SWITCHES: list[tuple[Sequence[str], Setter]] = [
    *(
        ((f"--{flag}",), lambda params, value, path=path, on=on: _into(path)(params, on))
        for flag, path, on in [
            ("metrics", "endpoint_metrics", True),
            ("props", "endpoint_props", True),
            ("slots", "endpoint_slots", True),
            ("no-slots", "endpoint_slots", False),
            ("warmup", "warmup", True),
            ("no-warmup", "warmup", False),
            ("cache-prompt", "cache_prompt", True),
            ("no-cache-prompt", "cache_prompt", False),
            ("cont-batching", "cont_batching", True),
            ("no-cont-batching", "cont_batching", False),
            ("kv-unified", "kv_unified", True),
            ("no-kv-unified", "kv_unified", False),
            ("kv-offload", "no_kv_offload", False),
            ("no-kv-offload", "no_kv_offload", True),
            ("swa-full", "swa_full", True),
            ("context-shift", "ctx_shift", True),
            ("no-context-shift", "ctx_shift", False),
            ("jinja", "use_jinja", True),
            ("no-jinja", "use_jinja", False),
            ("ui", "ui", True),
            ("no-ui", "ui", False),
            ("webui", "ui", True),
            ("no-webui", "ui", False),
        ]
    ),
    (("--mlock",), _load_mode("MLOCK")),
    (("--no-mmap",), _load_mode("NONE")),
]


def parse(argv: Sequence[str]) -> Any:
    """`CommonParams` from llama-server's flags.

    Exits with code 1 and a message on standard error at a flag that is unknown or has a bad value, like
    llama-server does.
    """
    parser = argparse.ArgumentParser(prog="breakeven.engine.embedded", allow_abbrev=False)
    params = xllamacpp.CommonParams()

    class Apply(argparse.Action):
        def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
            self.const(params, values)

    def refuse(message: str) -> NoReturn:
        print(f"error: {message}", file=sys.stderr)
        raise SystemExit(1)

    parser.error = refuse  # type: ignore[method-assign]
    for names, convert, setter in _FLAGS_WITH_VALUE:
        parser.add_argument(*names, type=convert, action=Apply, const=setter, required="--model" in names)
    for names, setter in _SWITCHES:
        parser.add_argument(*names, nargs=0, action=Apply, const=setter)
    parser.parse_args(argv)
    return params


def main(argv: Sequence[str]) -> None:
    """Serve until SIGTERM or SIGINT."""
    params = parse(argv)
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    build = xllamacpp.BUILD_INFO
    print(f"xllamacpp {xllamacpp.__version__} ({build['build_target']})", file=sys.stderr, flush=True)
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise SystemExit(f"error: {error}") from error
    print(f"listening on {server.listening_address}", file=sys.stderr, flush=True)
    stopped.wait()
    # A server stopped in its first milliseconds waits for ever for a loop that has not begun: then the alarm ends it.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(STOP_S)


if __name__ == "__main__":
    main(sys.argv[1:])
