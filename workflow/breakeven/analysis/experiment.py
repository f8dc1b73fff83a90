"""What the analysis needs to know of an experiment: its arms and their roles, its question, its rules of decision."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from breakeven.analysis.looks import Look, look
from breakeven.errors import ConfigError

MARGIN = 0.02
"""Relative difference in time below which two arms are a tie (Method 4)."""

Role = Literal["baseline", "repeat", "candidate", "cost_only"]


@dataclass(frozen=True)
class Arm:
    """One arm: `n_spec` draft tokens a step (most, when gated); `repeat` is the baseline under a second name.

    `drafter`: what drafts, equal where arms share it. `draft_bytes`: bytes that one draft pass reads. `drafting_s`:
    seconds per draft token by the engine's own timer.
    """

    arm: str
    n_spec: int | None
    role: Role
    gated: bool = False
    free_drafts: bool = False
    drafter: str | None = None
    draft_bytes: float | None = None
    drafting_s: float | None = None

    @property
    def on_the_line(self) -> bool:
        """Whether every step drafts n_spec tokens with a drafter that costs time, so that C(N) applies."""
        return (
            self.role in ("candidate", "cost_only")
            and bool(self.n_spec)
            and not (self.gated or self.free_drafts)
        )


@dataclass(frozen=True)
class Mix:
    """A request as people send it: prompt and output tokens."""

    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Plan:
    """An experiment's rules of decision at one look."""

    name: str
    question: str
    baseline: str
    arms: tuple[Arm, ...]
    look: Look
    margin: float = MARGIN
    mixes: tuple[Mix, ...] = ()
    classes_required: tuple[str, ...] = ()
    experts: tuple[int, int] | None = None
    b_from_bytes: float | None = None
    recorded_tok_s: float | None = None

    @property
    def twins(self) -> tuple[str, ...]:
        """The baseline's second names."""
        return tuple(arm.arm for arm in self.arms if arm.role == "repeat")

    @property
    def candidates(self) -> tuple[Arm, ...]:
        """The arms that get a verdict."""
        return tuple(arm for arm in self.arms if arm.role == "candidate")

    def compared(self, present: Collection[str]) -> list[str]:
        """The arms to compare among those present, the baseline first whether present or not."""
        others = [arm.arm for arm in self.arms if arm.role in ("candidate", "cost_only")]
        return [self.baseline, *(name for name in (*self.twins, *others) if name in present)]

    def required(self, prompt_class: str) -> bool:
        """Whether a class counts for promotion; all do when none is named."""
        return not self.classes_required or prompt_class in self.classes_required


def read_experiment(experiment: Mapping[str, Any], rounds: int | None = None) -> Plan:
    """Read an experiment: name, question, baseline, arms {arm: {n_spec, repeat_of, cost_only, gated}}, margin, rounds,
    mixes [{prompt, output}], classes_required; optional moe {experts, active}, b_from_bytes, recorded_tok_s (the
    baseline on record), and by arm free_drafts (n-gram), drafter, draft_bytes and drafting_s as in `Arm`.

    `rounds`: those of this look. Raises ConfigError naming the key.
    """
    where = f"experiment {experiment.get('name')}"
    for key in ("name", "baseline", "arms"):
        if not experiment.get(key):
            raise ConfigError(f"{where}: {key} is missing")
    baseline, arms = experiment["baseline"], experiment["arms"]
    if baseline not in arms:
        raise ConfigError(f"{where}: baseline {baseline} is not one of the arms {sorted(arms)}")
    margin = float(experiment.get("margin") or MARGIN)
    if not 0 < margin < 1:
        raise ConfigError(f"{where}: margin is {margin}; a share between 0 and 1 is wanted, such as {MARGIN}")
    mixes = tuple(Mix(int(mix["prompt"]), int(mix["output"])) for mix in experiment.get("mixes") or ())
    if any(mix.prompt_tokens < 0 or mix.output_tokens < 1 for mix in mixes):
        raise ConfigError(f"{where}: mixes need a prompt of 0 tokens or more and an output of 1 or more")
    moe = experiment.get("moe")
    return Plan(
        name=experiment["name"],
        question=experiment.get("question") or "",
        baseline=baseline,
        arms=tuple(_arm(name, keys or {}, baseline, where) for name, keys in arms.items()),
        look=look(experiment.get("rounds") or "auto", rounds),
        margin=margin,
        mixes=mixes,
        classes_required=_texts(experiment.get("classes_required") or experiment.get("required_classes")),
        experts=(int(moe["experts"]), int(moe["active"])) if moe else None,
        b_from_bytes=experiment.get("b_from_bytes"),
        recorded_tok_s=experiment.get("recorded_tok_s"),
    )


def _texts(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(values or ())


def _arm(name: str, keys: Mapping[str, Any], baseline: str, where: str) -> Arm:
    twin = keys.get("repeat_of")
    if twin and twin != baseline:
        raise ConfigError(f"{where}: arm {name} repeats {twin}; only the baseline {baseline} can be repeated")
    role: Role = (
        "baseline"
        if name == baseline
        else "repeat"
        if twin
        else "cost_only"
        if keys.get("cost_only")
        else "candidate"
    )
    return Arm(
        arm=name,
        n_spec=keys.get("n_spec") or None,
        role=role,
        gated=bool(keys.get("gated")),
        free_drafts=bool(keys.get("free_drafts")),
        drafter=keys.get("drafter"),
        draft_bytes=keys.get("draft_bytes"),
        drafting_s=keys.get("drafting_s"),
    )
