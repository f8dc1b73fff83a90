"""Configuration files -> one resolved experiment, and from it what each stage depends on.

Validation is jsonschema's; an error names the file, the key, the value found and what is allowed. Arms are patches:
a resolved arm holds the whole server it runs, so nothing has to be merged later. What decides a measurement
(`serve_key`) and what only decides a verification (`expect_key`) are two canonical JSON strings: Snakemake compares
them to know what is out of date.
"""

import hashlib
import itertools
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any, cast

import yaml
from jsonschema import Draft202012Validator, ValidationError

from breakeven.analysis import looks
from breakeven.demo import Recipe
from breakeven.engine.registry import speculation_asked
from breakeven.errors import ConfigError

PROTOCOL = 1
"""Version of what a launch does; a change measures everything again."""

LOOKS = tuple(sorted(looks.LOOKS))
"""Rounds after which `rounds: auto` looks at the result."""

MACHINE_FILE = Path("config/config.yaml")

MACHINE_VARIABLE = "BREAKEVEN_MACHINE"
"""Snakemake's `config` as JSON, for the jobs it starts: settings of the machine are no parameters of a rule."""

CONTEXT_FLAGS = ("ctx-size", "max-model-len")
RESERVED = frozenset({"ledger", "truth", "sample", "audit"})
DEMO_MODELS = Path("models")


class _UniqueKeys(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error instead of a silent loss."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", node.start_mark
                )
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """Parsed YAML. Raises ConfigError naming the file and line."""
    try:
        return yaml.load(path.read_text(), Loader=_UniqueKeys)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such file") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {error}") from error


@cache
def _schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(
        (package_files("breakeven") / "schemas" / f"{name}.schema.json").read_text()
    )
    return schema


def validate(document: Any, schema_name: str, where: str) -> None:
    """Check a document; raise ConfigError with every fault: key, value found, what is allowed."""
    errors = sorted(
        Draft202012Validator(_schema(schema_name)).iter_errors(document), key=lambda e: list(e.path)
    )
    if errors:
        raise ConfigError("\n".join(f"{where}: {_say(_deepest(error))}" for error in errors))


def _deepest(error: ValidationError) -> ValidationError:
    """The most telling error under a oneOf: the one that got furthest into the document."""
    while error.context:
        error = max(error.context, key=lambda e: len(e.absolute_path))
    return error


def _say(error: ValidationError) -> str:
    key = ".".join(str(part) for part in error.absolute_path) or "top level"
    schema, expected = cast(Any, error.schema), cast(Any, error.validator_value)
    found = cast(Any, error.instance)
    match error.validator:
        case "additionalProperties":
            known = sorted(schema.get("properties", {}))
            unknown = sorted(set(found) - set(known))
            return f"key {key}: unknown {', '.join(unknown)}; allowed: {', '.join(known)}"
        case "required":
            return f"key {key}: missing {', '.join(name for name in expected if name not in found)}"
        case "enum":
            return f"key {key}: found {found!r}; allowed: {', '.join(map(str, expected))}"
        case "const":
            return f"key {key}: found {found!r}; allowed: {expected}"
    description = schema.get("description")
    return f"key {key}: {error.message}" + (f" ({description})" if description else "")


def _with_defaults(document: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {name: part["default"] for name, part in schema["properties"].items() if "default" in part}
    return defaults | dict(document)


def machine(document: Mapping[str, Any], where: str = "config/config.yaml") -> dict[str, Any]:
    """This machine's settings, validated, defaults filled in."""
    validate(document, "machine", where)
    return _with_defaults(document, _schema("machine"))


def experiment(path: Path) -> dict[str, Any]:
    """One resolved experiment: defaults filled in, matrix expanded, every arm with its whole server.

    Raises ConfigError naming file, key, value and what is allowed.
    """
    document = read_yaml(path)
    if path.stem in RESERVED:
        raise ConfigError(f"{path}: the name {path.stem!r} is reserved; rename the file")
    validate(document, "experiment", str(path))
    resolved = _with_defaults(document, _schema("experiment"))
    resolved["name"] = path.stem
    resolved["workload"] = _with_defaults(
        resolved["workload"], _schema("experiment")["properties"]["workload"]
    )
    arms = dict(resolved["arms"]) | dict(_expand(resolved.pop("matrix", None)))
    for name in (
        resolved["baseline"],
        *(arm["repeat_of"] for arm in arms.values() if arm and "repeat_of" in arm),
    ):
        if name not in arms:
            raise ConfigError(
                f"{path}: found arm {name!r} in baseline or repeat_of; arms are: {', '.join(arms)}"
            )
    resolved["arms"] = {name: _resolve_arm(name, arms, resolved, path) for name in arms}
    resolved["variable"] = (
        [resolved["variable"]] if isinstance(resolved["variable"], str) else resolved["variable"]
    )
    _refuse_nonsense(resolved, path)
    resolved["prompt_files"] = dict(_prompt_files(resolved["workload"]["prompts"], path))
    return resolved


def _prompt_files(classes: Mapping[str, Any], path: Path) -> Iterator[tuple[str, str]]:
    """Hash of every prompt file: another text under the same name is another workload."""
    for name, prompts in classes.items():
        for entry in map(Path, prompts.get("files", [])):
            files = [entry] if entry.is_file() else sorted(p for p in entry.rglob("*") if p.is_file())
            if not files:
                raise ConfigError(
                    f"{path}: workload.prompts.{name}.files names {entry}, where there is no file"
                )
            for file in files:
                yield str(file), hashlib.sha256(file.read_bytes()).hexdigest()


def _expand(matrix: Mapping[str, Any] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    if matrix is None:
        return
    flags = list(matrix["args"])
    for values in itertools.product(*matrix["args"].values()):
        name = "-".join([matrix["prefix"], *(_as_name(value) for value in values)])
        yield name, {"args": matrix.get("common", {}) | dict(zip(flags, values, strict=True))}


def _as_name(value: Any) -> str:
    text = Path(value).stem if isinstance(value, str) else str(value)
    return "".join(c if c.isalnum() else "_" for c in text.lower())


def _resolve_arm(name: str, arms: Mapping[str, Any], spec: Mapping[str, Any], path: Path) -> dict[str, Any]:
    patch = arms[name] or {}
    if "repeat_of" in patch:
        if others := sorted(set(patch) - {"repeat_of"}):
            raise ConfigError(
                f"{path}: arm {name} repeats {patch['repeat_of']} and must not set {', '.join(others)}"
            )
        if "repeat_of" in (arms[patch["repeat_of"]] or {}):
            raise ConfigError(
                f"{path}: arm {name} repeats {patch['repeat_of']}, which is itself a repetition"
            )
        return _resolve_arm(patch["repeat_of"], arms, spec, path) | {"repeat_of": patch["repeat_of"]}
    server = dict(spec["server"])
    model = server.pop("model", None)
    if model == "demo":
        folder = "/models" if spec["runtime"] == "docker" else str(DEMO_MODELS)
        model = f"{folder}/{Recipe().file_name}"
        if spec["runtime"] == "docker":
            server["mounts"] = [*server.get("mounts", []), f"{DEMO_MODELS}:/models:ro"]
    server["args"] = _patched(
        ({"model": model} if model else {}) | server.get("args", {}), patch.get("args", {})
    )
    server["env"] = {k: str(v) for k, v in _patched(server.get("env", {}), patch.get("env", {})).items()}
    for key in ("url", "log_file"):
        if key in patch:
            server[key] = patch[key]
    asked = speculation_asked(spec["engine"], server["args"])
    return {
        "server": server,
        "image": patch.get("image", spec.get("image")),
        "program": spec.get("program"),
        "repeat_of": None,
        "cost_only": patch.get("cost_only", asked.forced if asked else False),
        "gated": patch.get("gated", asked.gated if asked else False),
        "n_spec": asked.n if asked else 0,
        "method": asked.method if asked else None,
        "p_min": asked.p_min if asked else 0.0,
        "free_drafts": asked.free_drafts if asked else False,
        "draft_model": asked.draft_model if asked else None,
        "drafter": f"{asked.method} {asked.draft_model or server['args'].get('model')}" if asked else None,
        "expect": spec.get("expect", {}) | patch.get("expect", {}),
    }


def _patched(common: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in (dict(common) | dict(patch)).items() if value is not None}


def _refuse_nonsense(spec: Mapping[str, Any], path: Path) -> None:
    """What the schema cannot say."""
    runtime = spec["runtime"]
    needs = {"docker": "image", "process": "program"}.get(runtime)
    for name, arm in spec["arms"].items():
        if needs and not arm[needs]:
            raise ConfigError(f"{path}: runtime {runtime} needs the key `{needs}` (arm {name} has none)")
        if runtime == "attach" and "url" not in arm["server"]:
            raise ConfigError(f"{path}: runtime attach needs `url`, in `server` or in arm {name}")
        if runtime != "attach" and "url" in arm["server"]:
            raise ConfigError(f"{path}: arm {name} has a `url`, which only runtime attach takes")
    urls = [
        arm["server"]["url"] for arm in spec["arms"].values() if runtime == "attach" and not arm["repeat_of"]
    ]
    if twice := {url for url in urls if urls.count(url) > 1}:
        raise ConfigError(
            f"{path}: one arm per attached server, but several arms name {', '.join(sorted(twice))}"
        )
    classes = spec["workload"]["prompts"]
    for name, prompts in classes.items():
        if ("count" in prompts) == ("files" in prompts):
            raise ConfigError(
                f"{path}: workload.prompts.{name} needs either `count` (built-in text) or `files`"
            )
    if missing := sorted(set(spec.get("required_classes", [])) - set(classes)):
        raise ConfigError(
            f"{path}: required_classes names {', '.join(missing)}; classes are: {', '.join(classes)}"
        )
    context = spec["arms"][spec["baseline"]]["server"]["args"].get("ctx-size")
    wanted = max(spec["workload"]["depths"]) + spec["workload"]["pp"] + spec["workload"]["tg"]
    if isinstance(context, int) and 0 < context < wanted:
        raise ConfigError(
            f"{path}: depth {max(spec['workload']['depths'])} + pp {spec['workload']['pp']} + tg "
            f"{spec['workload']['tg']} = {wanted} tokens do not fit ctx-size {context}; lower them or raise it"
        )


def on_host(path: str | None, mounts: Sequence[str]) -> Path:
    """Where a path that the server sees lies on this machine, through `source:target` mounts."""
    seen = Path(path or "")
    for mount in mounts:
        source, target = mount.split(":")[:2]
        if seen.is_relative_to(target):
            return Path(source) / seen.relative_to(target)
    return seen


def context_tokens(serve: Mapping[str, Any]) -> int | None:
    """Context limit that the arm's flags state; None when they leave it to the model."""
    args = serve["server"].get("args", {})
    return next((int(args[flag]) for flag in CONTEXT_FLAGS if int(args.get(flag) or 0) > 0), None)


def canonical(value: Any) -> str:
    """JSON that is equal when the values are equal."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def serve_key(spec: Mapping[str, Any], arm: str) -> str:
    """What decides this arm's measurements: a change measures it again."""
    resolved = spec["arms"][arm]
    return canonical(
        {
            "protocol": PROTOCOL,
            "take": spec["take"],
            "engine": spec["engine"],
            "runtime": spec["runtime"],
            **{key: resolved[key] for key in ("program", "image", "server") if resolved[key] is not None},
            "workload": spec["workload"],
            "prompt_files": spec["prompt_files"],
            "seed": spec["seed"],
        }
    )


def compare_key(spec: Mapping[str, Any]) -> str:
    """What decides which outputs are compared: arms by their role, and how each class is sampled."""
    arms = spec["arms"]
    return canonical(
        {
            "experiment": spec["name"],
            "baseline": spec["baseline"],
            "arms": list(arms),
            "twins": [name for name, arm in arms.items() if arm["repeat_of"]],
            "forced": [name for name, arm in arms.items() if arm["cost_only"]],
            "prompts": spec["workload"]["prompts"],
        }
    )


def order(spec: Mapping[str, Any], round: int) -> list[str]:
    """Arms of a round in the order of their launches: a shuffle anew for each round, by hash, so that rounds and arms
    that are added later change no order that was there before (Method 4).
    """

    def drawn(arm: str) -> bytes:
        return hashlib.sha256(f"{spec['name']}/{spec['seed']}/{round}/{arm}".encode()).digest()

    return sorted(spec["arms"], key=drawn)


def expect_key(spec: Mapping[str, Any], arm: str) -> str:
    """What this arm's log must show: a change verifies again and starts no server."""
    resolved = spec["arms"][arm]
    return canonical(
        {
            "engine": spec["engine"],
            "runtime": spec["runtime"],
            "expect": resolved["expect"],
            "n_spec": resolved["n_spec"],
            "method": resolved["method"],
            "gated": resolved["gated"],
            "strict": spec.get("strict", []),
            "variable": spec["variable"],
            "repeat_of": resolved["repeat_of"],
        }
    )
