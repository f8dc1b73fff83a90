"""A command line understood: flags under one name, whatever they were spelled like."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ALIASES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "llamacpp": {
        "model": ("m",),
        "ctx-size": ("c",),
        "predict": ("n", "n-predict"),
        "batch-size": ("b",),
        "ubatch-size": ("ub",),
        "parallel": ("np",),
        "threads": ("t",),
        "threads-batch": ("tb",),
        "gpu-layers": ("ngl", "n-gpu-layers"),
        "flash-attn": ("fa",),
        "cache-type-k": ("ctk",),
        "cache-type-v": ("ctv",),
        "cache-ram": ("cram",),
        "ctx-checkpoints": ("swa-checkpoints",),
        "split-mode": ("sm",),
        "main-gpu": ("mg",),
        "tensor-split": ("ts",),
        "override-tensor": ("ot",),
        "device": ("dev",),
        "cpu-moe": ("cmoe",),
        "n-cpu-moe": ("ncmoe",),
        "seed": ("s",),
        "temp": ("temperature",),
        "alias": ("a",),
        "slot-prompt-similarity": ("sps",),
        "verbosity": ("lv", "log-verbosity"),
        "verbose": ("v", "log-verbose"),
        "hf-repo": ("hf", "hfr"),
        "hf-file": ("hff",),
        "model-url": ("mu",),
        "mmproj": ("mm",),
        "kv-unified": ("kvu",),
        "cont-batching": ("cb",),
        "kv-offload": ("kvo",),
        "context-shift": (),
        "spec-draft-model": ("md", "model-draft"),
        "spec-draft-hf": ("hfd", "hf-repo-draft"),
        "spec-draft-ngl": ("ngld", "gpu-layers-draft", "n-gpu-layers-draft"),
        "spec-draft-device": ("devd", "device-draft"),
        "spec-draft-type-k": ("ctkd", "cache-type-k-draft"),
        "spec-draft-type-v": ("ctvd", "cache-type-v-draft"),
        "spec-draft-threads": ("td", "threads-draft"),
        "spec-draft-threads-batch": ("tbd", "threads-batch-draft"),
        "spec-draft-n-max": ("draft", "draft-n", "draft-max"),
        "spec-draft-n-min": ("draft-min", "draft-n-min"),
        "spec-draft-p-min": ("draft-p-min",),
        "spec-draft-p-split": ("draft-p-split",),
        "lookup-cache-static": ("lcs",),
        "lookup-cache-dynamic": ("lcd",),
    },
    "vllm": {
        "tensor-parallel-size": ("tp",),
        "pipeline-parallel-size": ("pp",),
        "data-parallel-size": ("dp",),
        "quantization": ("q",),
        "speculative-config": ("sc",),
        "compilation-config": ("cc", "O"),
        "attention-config": ("ac",),
        "model": ("model-tag",),
    },
}
"""Per engine: the long name -> its other spellings. A drafter's flags are all called spec-*, as newest builds do."""

_FLAG = re.compile(r"--?[A-Za-z]")
_SUBCOMMANDS = ("serve", "vllm")


def canonical(engine: str, spelled: str) -> str:
    """The long name of a flag, without dashes in front and with dashes inside."""
    bare = spelled.lstrip("-").replace("_", "-")
    table = ALIASES.get(engine, {})
    return next((name for name, others in table.items() if bare in others), bare)


def spellings(engine: str, name: str) -> tuple[str, ...]:
    """A flag's long name and all others."""
    return (name, *ALIASES.get(engine, {}).get(name, ()))


def parse(engine: str, argv: Sequence[str]) -> dict[str, Any]:
    """Flags by long name. A flag alone is true, `--no-x` is x = false, a repeated flag is a list, JSON is data.

    What stands before the first flag is the model (vLLM). Values are texts otherwise: whether `--a b` is a flag with
    a value or a switch and a word cannot be seen, and makes no difference to a comparison.
    """
    found: dict[str, list[Any]] = {}
    for name, value in _pairs(engine, argv):
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _pairs(engine: str, argv: Sequence[str]) -> Iterator[tuple[str, Any]]:
    tokens = list(argv)
    while tokens and not _FLAG.match(tokens[0]):
        if (word := tokens.pop(0)) not in _SUBCOMMANDS:
            yield "model", word
    while tokens:
        name, equals, value = tokens.pop(0).partition("=")
        values = [value] if equals else []
        while tokens and not _FLAG.match(tokens[0]):
            values.append(tokens.pop(0))
        flag = canonical(engine, name)
        if not values and flag.startswith("no-"):
            yield canonical(engine, flag.removeprefix("no-")), False
        elif not values:
            yield flag, True
        else:
            yield flag, _value(values[0] if len(values) == 1 else " ".join(values))


def _value(text: str) -> Any:
    if text.startswith(("{", "[")):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text
