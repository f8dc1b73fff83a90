"""Which version of the engine ran: its log's word first, then its answers', then the packages it came in."""

from collections.abc import Iterator, Mapping
from typing import Any

SAID_AT = ("/props", "build_info"), ("/version", "version"), ("/server_info", "version")
"""Where servers state their version: path of the answer, key in it."""

NO_VERSION = "unknown"
"""In a build's own text: compiled without its commit."""


def engine_version(facts: Mapping[str, Any], bring_up: Mapping[str, Any]) -> str | None:
    """`facts`: name -> value of a launch's log; `bring_up`: the launch's record. None where nothing tells."""
    return next(_told(facts, bring_up), None)


def _told(facts: Mapping[str, Any], bring_up: Mapping[str, Any]) -> Iterator[str]:
    evidence = bring_up.get("evidence") or {}
    answers = (evidence[path].get(key) for path, key in SAID_AT if isinstance(evidence.get(path), Mapping))
    for said in (facts.get("version"), facts.get("build"), *answers):
        if said and NO_VERSION not in str(said):
            yield str(said)
    packages = (bring_up.get("described") or {}).get("packages") or {}
    if packages:
        yield ", ".join(f"{name} {version}" for name, version in packages.items())
