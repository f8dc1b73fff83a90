"""Do two arms differ in the declared variable alone: flags, environment, mounts, image, binary, model files, options.

Pure: it compares what `breakeven.verify.identity.describe` has collected.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from breakeven.verify.difference import Difference, Meaning
from breakeven.verify.expectation import same, shown
from breakeven.verify.flags import canonical, parse, spellings

RUN_FLAGS = ("host", "port")
"""Where a launch listens says nothing about the arm."""


def one_variable(
    arm: Mapping[str, Any],
    baseline: Mapping[str, Any],
    variable: Collection[str],
    instrumentation: Collection[str] = (),
) -> tuple[Difference, ...]:
    """Everything in which an arm is not its baseline.

    `variable` are flags or globs of them (a key inside a JSON flag as `flag.key`), `env:NAME`, `mount:TARGET`,
    `option:KEY`, `image`, `binary`; `instrumentation` are flags that the pipeline adds. A part that one description
    does not know is unverified.
    """
    engine = arm.get("engine") or ""
    patterns = [_pattern(engine, entry) for entry in variable]
    exempt = {canonical(engine, flag) for flag in instrumentation}
    return (
        *_flags(engine, arm.get("argv"), baseline.get("argv"), patterns, exempt),
        *_named("env", "env:", arm.get("env"), baseline.get("env"), patterns),
        *_env_from(arm.get("env_from", ()), baseline.get("env_from", ()), patterns),
        *_named("mount", "mount:", _by_target(arm), _by_target(baseline), patterns),
        *_program(arm, baseline, patterns),
        *_named("model", "", arm.get("models"), baseline.get("models"), patterns),
        *_named("option", "option:", arm.get("options"), baseline.get("options"), patterns),
    )


def declared_names(differences: Collection[Difference]) -> tuple[str, ...]:
    """The flags, `env:NAME`, `image` or `binary` of the variable that really differ."""
    return tuple(d.name for d in differences if d.meaning == "declared")


def _pattern(engine: str, entry: str) -> str:
    if ":" in entry:
        return entry
    flag, dot, key = entry.partition(".")
    return f"{canonical(engine, flag)}{dot}{key}"


def _covered(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _judged(about: str, name: str, one: Any, other: Any, declared: bool, detail: str = "") -> Difference:
    meaning: Meaning = "declared" if declared else "contamination"
    text = f"{about} {name}: {_there(one)} here, {_there(other)} in the baseline{detail}"
    return Difference(about, name, one, other, meaning, text, "" if declared else "not the declared variable")


def _there(value: Any) -> str:
    return "not there" if value is None else shown(value)


def _unknown(about: str, name: str, one: Any, other: Any) -> Difference:
    text = f"{name} not compared: not known for {'this arm' if one is None else 'the baseline'}"
    return Difference(about, name, one, other, "unverified", text)


def _flags(
    engine: str,
    arm: Sequence[str] | None,
    baseline: Sequence[str] | None,
    patterns: Sequence[str],
    exempt: Collection[str],
) -> Iterator[Difference]:
    if arm is None or baseline is None:
        yield _unknown("flag", "command line", arm, baseline)
        return
    here, there = parse(engine, arm), parse(engine, baseline)
    for name in sorted((here.keys() | there.keys()) - set(RUN_FLAGS)):
        one, other = here.get(name), there.get(name)
        if same(one, other):
            continue
        keys = _inside(one, other)
        declared = (
            any(_covered(spelled, patterns) for spelled in spellings(engine, name))
            or (False in (one, other) and _covered(f"no-{name}", patterns))
            or (bool(keys) and all(_covered(f"{name}.{key}", patterns) for key in keys))
        )
        detail = "".join(
            f"; its {key}: {_there(sides[0])} here, {_there(sides[1])} in the baseline"
            for key, sides in keys.items()
        )
        found = _judged("flag", name, one, other, declared, detail)
        if name in exempt:
            found = Difference(
                "flag", name, one, other, "instrumentation", f"{found.message}; instrumentation"
            )
        yield found


def _inside(one: Any, other: Any) -> dict[str, tuple[Any, Any]]:
    """Keys in which two JSON objects differ."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return {}
    keys = sorted(one.keys() | other.keys())
    return {key: (one.get(key), other.get(key)) for key in keys if not same(one.get(key), other.get(key))}


def _named(
    about: str,
    prefix: str,
    arm: Mapping[str, Any] | None,
    baseline: Mapping[str, Any] | None,
    patterns: Sequence[str],
) -> Iterator[Difference]:
    """Parts that have names: variables, mounts, model files, options."""
    if arm is None or baseline is None:
        if (arm is None) != (baseline is None):
            yield _unknown(about, about, arm, baseline)
        return
    for key in sorted(arm.keys() | baseline.keys()):
        one, other = arm.get(key), baseline.get(key)
        if not same(one, other):
            keys = _inside(one, other)
            detail = f"; differs in {', '.join(keys)}" if keys else ""
            yield _judged(about, f"{prefix}{key}", one, other, _covered(f"{prefix}{key}", patterns), detail)


def _env_from(
    arm: Collection[str], baseline: Collection[str], patterns: Sequence[str]
) -> Iterator[Difference]:
    for name in sorted(set(arm) ^ set(baseline)):
        one, other = ("handed on" if name in side else None for side in (arm, baseline))
        yield _judged("env", f"env:{name}", one, other, _covered(f"env:{name}", patterns))


def _by_target(arm: Mapping[str, Any]) -> dict[str, Any] | None:
    mounts = arm.get("mounts")
    return None if mounts is None else {mount["target"]: mount for mount in mounts}


def _program(
    arm: Mapping[str, Any], baseline: Mapping[str, Any], patterns: Sequence[str]
) -> Iterator[Difference]:
    """The digest decides; names are compared where a digest is not known. `leading` is what stands before the flags."""
    name = "image" if "docker" in (arm.get("runtime"), baseline.get("runtime")) else "binary"
    one, other = arm.get("digest"), baseline.get("digest")
    if one is None or other is None:
        one, other = arm.get("program"), baseline.get("program")
    if one != other and None in (one, other):
        yield _unknown(name, name, one, other)
    elif one != other:
        yield _judged(name, name, one, other, _covered(name, patterns))
    for part in ("packages", "leading"):
        one, other = arm.get(part), baseline.get(part)
        if one is not None and other is not None and not same(one, other):
            yield _judged(name, part, one, other, _covered(name, patterns))
