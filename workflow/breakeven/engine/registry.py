"""Engines by the name that experiments use. Only this file knows them all; it imports no HTTP client."""

from collections.abc import Mapping
from typing import Any

from breakeven.engine.base import Engine, Speculation
from breakeven.engine.llamacpp import LlamaCpp
from breakeven.engine.vllm import Vllm

ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in (LlamaCpp(), Vllm())}


def speculation_asked(engine: str, args: Mapping[str, Any]) -> Speculation | None:
    """What the flags ask for; None without speculation."""
    return ENGINES[engine].speculation(args)
