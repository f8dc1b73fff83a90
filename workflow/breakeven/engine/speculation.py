"""Is speculation asked for, resolved, loaded, and really active? One answer for every engine, or none.

`spec_asked` is what was requested, `spec_initialized` what start-up says, `spec_active` what really happens: counted
drafts decide, a start-up that went through is enough while nothing contradicts it, and None means that the log cannot
tell. Contradictions are findings.
"""

from collections.abc import Mapping
from typing import Any

from breakeven.engine.facts import Finding
from breakeven.engine.patterns import literal

FULL_LOG_VERBOSITY = 4
"""llama.cpp prints whether speculation was initialised from this verbosity on."""


ORIGINS = (
    "spec_failure",
    "spec_initialized",
    "spec_types",
    "spec_method",
    "draft_model",
    "drafter_loaded",
    "non_default_args",
)
"""Facts whose line tells best where a speculation fact comes from, the best first."""


def speculation(engine: str, known: Mapping[str, Any], drafted: int | None) -> dict[str, Any]:
    """Return the speculation facts that follow from a log's other facts and its counted draft tokens.

    From a log that says nothing follows nothing, not even that something is unknown.
    """
    if not known and drafted is None:
        return {}
    rules = {"vllm": _vllm, "llamacpp": _llamacpp, "sglang": _sglang}
    return rules[engine](known, drafted)


def _vllm(known: Mapping[str, Any], drafted: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    requested = _requested(known)
    resolved = known.get("spec_resolved", "unsaid")
    if requested is not _UNSAID:
        found["requested_spec"] = requested
        found["spec_asked"] = requested is not None
    elif resolved != "unsaid":
        found["spec_asked"] = resolved is not None
    if resolved == "unsaid":
        if requested is not _UNSAID and requested is not None:
            found["resolved_spec"] = None
    elif resolved is None:
        found |= {"spec_method": None, "spec_n": None, "resolved_spec": None, "spec_initialized": False}
        found["drafter_loaded"] = bool(known.get("drafter_loaded"))
    else:
        spec = {
            "method": known.get("spec_method"),
            "model": known.get("spec_model"),
            "n": known.get("spec_n"),
        }
        found["resolved_spec"] = spec
        loaded = known.get("ready") or (known.get("drafter_loaded") and "error" not in known)
        found["spec_initialized"] = True if loaded else None
    found["spec_active"] = _vllm_active(resolved, found.get("spec_initialized"), known, drafted)
    return found


def _vllm_active(
    resolved: Any, initialized: bool | None, known: Mapping[str, Any], drafted: int | None
) -> bool | None:
    if drafted:
        return None if resolved is None else True
    if resolved is None:
        return False
    if resolved == "unsaid":
        return None
    return None if known.get("busy_windows") or "error" in known else initialized


_UNSAID: Any = object()


def _requested(known: Mapping[str, Any]) -> Any:
    """Return the speculative config asked for, None when the arguments have none, _UNSAID without arguments."""
    arguments = known.get("non_default_args")
    if isinstance(arguments, dict):
        return arguments.get("speculative_config")
    if "requested_spec_text" in known:
        return literal(str(known["requested_spec_text"]))
    if "v0_args" in known:
        model = known.get("requested_spec_model")
        return {"model": model, "num_speculative_tokens": known.get("requested_spec_n")} if model else None
    return _UNSAID


def _llamacpp(known: Mapping[str, Any], drafted: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    types = known.get("spec_types") or []
    started = known.get("spec_initialized")
    failure = known.get("spec_failure")
    if types:
        found |= {"spec_impl": types[0], "spec_method": "+".join(types)}
    if types or failure or known.get("drafter_loaded"):
        found["spec_asked"] = True
    elif known.get("spec_none"):
        found["spec_asked"] = False
    if (n := known.get("spec_n_clamped", known.get("n_max"))) is not None:
        found |= {"spec_n": n, "n_max": n}
    whole = bool(known.get("ready")) and (known.get("verbosity") or 0) >= FULL_LOG_VERBOSITY
    if started is None and whole:
        started = False
    if failure:
        started = False
    if started is not None:
        found["spec_initialized"] = started
    found["spec_active"] = _llamacpp_active(types, started, drafted)
    if known.get("drafter_loaded"):
        found["draft_loaded"] = True
    elif whole:
        found["drafter_loaded"] = False
    return found


def _llamacpp_active(types: list[str], started: bool | None, drafted: int | None) -> bool | None:
    if drafted is not None:
        return drafted > 0
    if started is not None:
        return started
    return True if types else None


def _sglang(known: Mapping[str, Any], drafted: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    method = known.get("spec_method", "unsaid")
    if method != "unsaid":
        found["spec_asked"] = method is not None
        verified: int | None = known.get("num_draft_tokens")
        found["spec_n"] = verified - 1 if verified and method else None
    if len(known.get("architectures") or []) > 1:
        found["drafter_loaded"] = True
    if method is None:
        found["spec_initialized"] = False
    elif method != "unsaid" and known.get("ready"):
        found["spec_initialized"] = True
    if drafted is not None:
        found["spec_active"] = None if drafted and method is None else drafted > 0
    else:
        found["spec_active"] = found.get("spec_initialized")
    return found


def contradictions(engine: str, known: Mapping[str, Any], drafted: int | None) -> list[Finding]:
    """Return what in a log speaks against itself about speculation."""
    found: list[Finding] = []

    def say(kind: str, message: str) -> None:
        found.append(Finding(kind, "error", message))

    off = known.get("spec_initialized") is False
    if engine != "llamacpp" and drafted and off:
        say(
            "spec_metrics_without_spec",
            "the configuration has no speculation and statistics show drafts: which is true?",
        )
    if known.get("drafter_loaded") and off and engine == "llamacpp" and not known.get("spec_failure"):
        say(
            "drafter_loaded_spec_off",
            "a drafter is loaded and speculation is not initialised: it will never draft",
        )
    if engine == "llamacpp" and known.get("drafter_loaded") and not off and drafted == 0:
        say(
            "drafter_loaded_never_drafted",
            "a drafter is loaded and requests were served without a single draft",
        )
    if (
        engine == "llamacpp"
        and known.get("spec_types")
        and not off
        and drafted == 0
        and not known.get("drafter_loaded")
    ):
        found.append(
            Finding("spec_never_drafted", "warn", "speculation is initialised and no request had a draft")
        )
    asked, resolved = known.get("spec_asked"), known.get("spec_initialized")
    if engine == "vllm" and asked and resolved is False:
        say("spec_asked_not_resolved", "speculation was asked for and the engine's configuration has none")
    if engine == "vllm" and known.get("spec_initialized") and known.get("busy_windows") and not drafted:
        found.append(
            Finding("spec_never_drafted", "warn", "tokens were generated and no statistics show a draft")
        )
    requested = known.get("requested_spec")
    wanted = requested.get("num_speculative_tokens") if isinstance(requested, dict) else None
    n = known.get("spec_n")
    if engine == "vllm" and isinstance(wanted, int) and isinstance(n, int) and wanted != n:
        say("draft_length_differs", f"{wanted} speculative tokens were asked for, {n} are configured")
    k = known.get("k")
    if engine == "vllm" and isinstance(k, int) and isinstance(n, int) and k != n:
        say("draft_length_differs", f"{n} speculative tokens are configured, statistics show {k}")
    return found
