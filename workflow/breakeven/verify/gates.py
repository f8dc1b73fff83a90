"""Expectations on the facts of one log: is this arm the arm it claims to be (Method 6)?

Some gates hold for every arm (`DEFAULTS`), the experiment's `expect` adds its own; an expectation on a fact takes the
place of the default gates on that fact. A required fact that is absent fails: silence is no proof. Two cases are
open instead (`passed` is None): a server that somebody else started (runtime attach), whose log may be missing or
cut, and an equality with the baseline about which neither log says anything.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from breakeven.engine.facts import Fact, Facts
from breakeven.verify import expectation as expected
from breakeven.verify.consequences import consequence_of
from breakeven.verify.expectation import BLOCK, WARN, shown
from breakeven.verify.run_facts import matches
from breakeven.verify.speculation import drafts_every_step, has_drafter, methods

SAY_MORE: Mapping[str, str] = {
    "llamacpp": "below `--verbosity 4` llama.cpp does not print its configuration, and some builds never print this",
    "vllm": "keep the log from its first line and VLLM_LOGGING_LEVEL at INFO or DEBUG; some versions never print this",
    "sglang": "keep the log from its first line and `--log-level` at info; some versions never print this",
}
"""What makes an engine say more about itself."""


@dataclass(frozen=True)
class Gate:
    """One expectation and what became of it.

    `passed` is None when it could not be decided and need not be (unverified); `reason` says in words what was
    found, what was wanted, the log line with its number, and what to do. Only a `block` gate that failed makes the
    arm invalid.
    """

    name: str
    fact: str
    wanted: str
    found: Any
    passed: bool | None
    severity: str
    reason: str

    @property
    def blocks(self) -> bool:
        """Whether the arm must not be measured because of this gate."""
        return self.passed is False and self.severity == BLOCK

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class Arm:
    """All that the gates look at. `wanted` is a parsed `expect_key`; `baseline` is None for the baseline itself."""

    facts: Facts
    wanted: Mapping[str, Any]
    baseline: Facts | None
    evidence: Mapping[str, Any]
    smoke: Mapping[str, Any]

    @property
    def method(self) -> str:
        """The method that the flags ask for; empty without speculation."""
        return self.wanted.get("method") or ""

    @property
    def attached(self) -> bool:
        """Whether somebody else started the server."""
        return bool(self.wanted.get("runtime") == "attach")

    def where(self, name: str) -> str:
        """Where the log says a fact, to be put behind a sentence."""
        return quoted(self.facts.facts.get(name))

    def absent(self, name: str, fact: str, wanted: str, severity: str = BLOCK) -> Gate:
        """A required fact that the log does not say."""
        unknown = f"unknown: the log does not say {fact} (wanted: {wanted})"
        if self.attached:
            return Gate(
                name, fact, wanted, None, None, WARN, f"{unknown}; unverified, as the server is attached to"
            )
        advice = SAY_MORE.get(str(self.wanted.get("engine")), "make the server log its configuration")
        return Gate(name, fact, wanted, None, False, severity, f"{unknown}; {advice}")

    def judged(self, name: str, fact: str, wanted: str, passed: bool, severity: str = BLOCK) -> Gate:
        """A fact that the log states."""
        found = self.facts.get(fact)
        says = f"found {shown(found)}" + ("" if passed else f", wanted {wanted}")
        return Gate(name, fact, wanted, found, passed, severity, f"{fact}: {says}{self.where(fact)}")


def quoted(fact: Fact | None) -> str:
    """` (line 12: "...")`, or nothing when the source is not known."""
    if fact is None or fact.line_number is None:
        return ""
    return f' (line {fact.line_number}: "{fact.source_line.strip()}")'


def evaluate(
    facts: Facts,
    wanted: Mapping[str, Any],
    baseline: Facts | None,
    evidence: Mapping[str, Any],
    smoke: Mapping[str, Any] | None = None,
    declared: Collection[str] = (),
) -> tuple[Gate, ...]:
    """Every gate of one arm, defaults first.

    `evidence` holds the server's JSON answers by path, `smoke` the counts of its first request. `declared` are
    globs of facts that the experiment's variable sets by itself: no default gate asks them to equal the baseline's.
    Raises ConfigError at an expectation that is no expectation.
    """
    arm = Arm(facts, wanted, baseline, evidence, smoke or {})
    own = wanted.get("expect", {})
    defaults = [
        gate
        for default in DEFAULTS
        for gate in default(arm)
        if gate.fact not in own and not (gate.name in COMPARING and matches(gate.fact, declared))
    ]
    return (*defaults, *(_expected(arm, name, rules) for name, rules in own.items()))


def passed(gates: Iterable[Gate]) -> bool:
    """Whether the arm may be measured."""
    return not any(gate.blocks for gate in gates)


def _expected(arm: Arm, fact: str, expectation: Any) -> Gate:
    """One expectation of the experiment."""
    rules = expected.as_rules(expectation)
    severity = rules.get("severity", BLOCK)
    found, baseline = arm.facts.get(fact), (arm.baseline or arm.facts).get(fact)
    wanted = expected.in_words(rules, baseline)
    if "equals" in rules and rules["equals"] is None:
        return arm.judged("expected", fact, wanted, found is None, severity)
    if found is None:
        return arm.absent("expected", fact, wanted, severity)
    return arm.judged("expected", fact, wanted, expected.holds(rules, found, baseline), severity)


def _speculation_active(arm: Arm) -> Iterator[Gate]:
    """Speculation is on exactly where it is asked for: by the log and by what the server's slots answer.

    A server may load a drafter and never draft, and its settings still claim speculation: the settings are not asked.
    """
    name, fact, asked = "speculation active", "spec_active", bool(arm.method)
    wanted = f"active, as {arm.method} is asked" if asked else "inactive, as none is asked"
    slots = _slots(arm.evidence)
    logged = arm.facts.get(fact)
    if asked and not drafts_every_step(arm.method, arm.facts) and arm.facts.get("spec_initialized"):
        logged = logged or None  # nothing drafted so far is no proof
    stated = [active for active in (logged, *slots) if active is not None]
    if not stated and not asked and arm.smoke.get("draft_tokens") == 0:
        stated = [False]
    if not stated:
        yield arm.absent(name, fact, wanted)
        return
    right = all(bool(active) is asked for active in stated)
    said = f"the log says {_on_off(logged)}{arm.where(fact)}"
    if slots:
        said += f", /slots says {', '.join(map(_on_off, slots))}"
    reason = f"wanted {wanted}; {said}"
    if asked and not right:
        reason += _why(arm.facts)
    found = right is asked  # what was stated, or what was stated against it
    yield Gate(name, fact, wanted, found, right, BLOCK, reason)


def _slots(evidence: Mapping[str, Any]) -> list[bool]:
    answer = evidence.get("/slots")
    slots = answer if isinstance(answer, list) else []
    return [slot["speculative"] for slot in slots if isinstance(slot, Mapping) and "speculative" in slot]


def _on_off(active: Any) -> str:
    return "nothing" if active is None else "active" if active else "inactive"


def _why(facts: Facts) -> str:
    told = [
        f"{f.message} (line {', '.join(map(str, f.lines))})" for f in facts.findings if f.severity == "error"
    ]
    return f"; the log tells why: {'; '.join(told)}" if told else ""


def _smoke_drafted(arm: Arm) -> Iterator[Gate]:
    """The first request drafted exactly where a drafter is asked for. llama.cpp tells a number only if it drafted."""
    name, fact, drafted = "first request drafted", "draft_tokens", arm.smoke.get("draft_tokens")
    if not arm.method:
        if drafted:
            reason = f"the first request drafted {drafted} tokens, wanted none: no speculation is asked"
            yield Gate(name, fact, "none", drafted, False, BLOCK, reason)
        return
    wanted = "at least 1"
    if drafted:
        yield Gate(name, fact, wanted, drafted, True, BLOCK, f"the first request drafted {drafted} tokens")
    elif not arm.smoke or (drafted is None and arm.wanted.get("engine") != "llamacpp"):
        yield Gate(name, fact, wanted, None, None, WARN, "this server does not count drafts")
    elif not drafts_every_step(arm.method, arm.facts):
        reason = f"the first request drafted nothing, which {arm.method} may do on a short text"
        yield Gate(name, fact, wanted, drafted, None, WARN, reason)
    else:
        reason = (
            f"the first request drafted nothing, though {arm.method} is asked and drafts in every step: "
            "the arm is not speculating"
        )
        yield Gate(name, fact, wanted, drafted, False, BLOCK, reason)


def _n_as_asked(arm: Arm) -> Iterator[Gate]:
    n = arm.wanted.get("n_spec")
    if arm.method and n:
        yield _resolved(arm, "draft length as asked", "spec_n", str(n), lambda found: expected.same(found, n))


def _method_as_asked(arm: Arm) -> Iterator[Gate]:
    asked = methods(arm.method)
    if asked and asked != {"unknown"}:
        yield _resolved(
            arm, "method as asked", "spec_method", arm.method, lambda found: methods(_joined(found)) == asked
        )


def _drafter_loaded(arm: Arm) -> Iterator[Gate]:
    if arm.method and has_drafter(arm.method):
        yield _resolved(
            arm, "drafter loaded", "drafter_loaded", "true", lambda found: expected.same(found, True)
        )


def _joined(found: Any) -> str:
    return ",".join(map(str, expected.parts(found)))


def _resolved(arm: Arm, name: str, fact: str, wanted: str, right: Callable[[Any], bool]) -> Gate:
    found = arm.facts.get(fact)
    return arm.absent(name, fact, wanted) if found is None else arm.judged(name, fact, wanted, right(found))


EQUAL_TO_BASELINE = ("kernel*", "*_kernel", "*_kernels", "moe_backend", "attention_backend")
"""Facts by which a silent fallback shows: the same in every arm unless declared or a known consequence."""


def _equal_to_baseline(arm: Arm) -> Iterator[Gate]:
    """A table by layer kind may name further kinds where a drafter brings its own layers."""
    if arm.baseline is None:
        return
    stated = (*arm.facts, *arm.baseline)
    names = {name for name in stated if matches(name, EQUAL_TO_BASELINE) and consequence_of(name) is None}
    for fact in sorted(names | {"kernel", "attention_backend"}):
        name, found, baseline = "equal to the baseline", arm.facts.get(fact), arm.baseline.get(fact)
        wanted = f"as the baseline: {shown(baseline)}"
        if found is None and baseline is None:
            reason = f"{fact}: not stated by either log"
            yield Gate(name, fact, wanted, None, None, WARN, reason)
        elif found is None:
            yield arm.absent(name, fact, wanted)
        else:
            adds = expected.only_adds(found, baseline) and has_drafter(arm.method)
            yield arm.judged(name, fact, wanted, adds or expected.same(found, baseline))


def _weights_initialised(arm: Arm) -> Iterator[Gate]:
    name, fact = "no uninitialised weights", "weights_uninitialized"
    found = arm.facts.get(fact)
    if found:
        yield arm.judged(name, fact, "none", False)
    elif not arm.facts.facts:
        yield arm.absent(name, fact, "none")
    else:
        reason = "the log names none (an engine may skip this check on quantised models: then only acceptance tells)"
        yield Gate(name, fact, "none", found, True, BLOCK, reason)


def _layers_offloaded(arm: Arm) -> Iterator[Gate]:
    """All layers are on the device when all of the baseline's are: a spill to the host halves the speed in silence."""
    name, fact = "all layers offloaded", "layers_offloaded"
    if arm.baseline is None:
        return
    found, baseline = arm.facts.get(fact), arm.baseline.get(fact)
    if baseline is not None and not _all_of(baseline):
        return
    wanted = f"all, as in the baseline: {shown(baseline)}"
    if found is not None:
        yield arm.judged(name, fact, wanted, _all_of(found), BLOCK if baseline is not None else WARN)
    elif baseline is not None:
        yield arm.absent(name, fact, wanted)
    elif arm.wanted.get("engine") == "llamacpp":  # no other engine prints it
        yield Gate(name, fact, wanted, None, None, WARN, f"{fact}: not stated by either log")


def _all_of(value: Any) -> bool:
    return isinstance(value, Sequence) and len(value) == 2 and expected.same(value[0], value[1])


def _graphs_complete(arm: Arm) -> Iterator[Gate]:
    """Every bar of a graph capture that the log shows reached its end."""
    for fact in arm.facts.facts.values():
        if "graphs" in fact.name and not fact.complete:
            reason = f"{fact.name}: the capture's progress bar does not reach its end{quoted(fact)}"
            yield Gate("graph capture complete", fact.name, "complete", fact.value, False, BLOCK, reason)


NOTHING_DRAFTED = ("drafter_loaded_never_drafted", "spec_never_drafted")
"""Findings that only tell that the first requests had no draft, which a gated method may leave out."""


def _no_errors(arm: Arm) -> Iterator[Gate]:
    patient = bool(arm.method) and not drafts_every_step(arm.method, arm.facts)
    for finding in arm.facts.findings:
        if finding.severity == "error" and not (patient and finding.kind in NOTHING_DRAFTED):
            lines = f" (line {', '.join(map(str, finding.lines))})" if finding.lines else ""
            reason = f"{finding.message}{lines}"
            yield Gate("no error in the log", finding.kind, "none", finding.message, False, BLOCK, reason)


COMPARING = ("equal to the baseline", "all layers offloaded")
DEFAULTS: Sequence[Callable[[Arm], Iterator[Gate]]] = (
    _speculation_active,
    _smoke_drafted,
    _n_as_asked,
    _method_as_asked,
    _drafter_loaded,
    _equal_to_baseline,
    _weights_initialised,
    _layers_offloaded,
    _graphs_complete,
    _no_errors,
)
"""On for every arm."""
