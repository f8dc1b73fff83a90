"""The known truth of a reference server, and the pure simulation of what it does with a request.

Times are seconds, costs are baseline steps. The completion of a prompt depends on the prompt alone, never on
an arm's settings: every arm is lossless unless the fault `diverges_at` says otherwise.
"""

import hashlib
import struct
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, sqrt
from operator import mul
from random import Random

from reference_server.vocabulary import EOS, FIRST_WORD, WORDS

LOGPROB_MARGIN, NEAR_TIE_MARGIN = 2.0, 0.01
GOLDEN = (sqrt(5) - 1) / 2
MAX_N = 16


@dataclass(frozen=True)
class Truth:
    """What a correct measurement must recover."""

    n: int = 0
    """draft tokens verified per step; 0 is a baseline"""
    a: float = 1.05
    """step cost at N = 0 of the line a + b*N, in baseline steps (a baseline step itself costs 1)"""
    b: float = 0.14
    """cost of one drafted token, in baseline steps"""
    costs: tuple[float, ...] = ()
    """C(1), C(2), ... in baseline steps; replaces the line when given"""
    acceptance: tuple[float, ...] = (0.85,) * MAX_N
    """conditional acceptance q of draft position 1, 2, ..."""
    even_draws: bool = False
    """spread acceptance evenly over the steps (golden-ratio sequence) in place of independent draws"""
    gate: float = 1.0
    """share of steps that draft at all"""
    undrafted_cost: float = 1.0
    """cost of a step that the gate left undrafted, in baseline steps"""
    cheap_cut_steps: bool = False
    """a draft cut short at the token limit costs C(its own length) instead of C(n) (llama.cpp only)"""
    t0_s: float = 0.004
    """baseline step at an empty context"""
    t0_per_context_token_s: float = 0.0
    """growth of the baseline step per prompt token; constant inside a request"""
    ttft_s: float = 0.004
    """fixed part of the time to first token; a server in Python is late for one below 2 ms in all"""
    pp_per_s: float = 50_000.0
    """prefill rate in computed tokens per second, at an empty cache"""
    prefill_per_cached_token_s: float = 0.0
    """extra prefill time of each computed token per token already in the cache"""
    ttft_draft_cost: float = 0.0
    """baseline steps per drafted token that the first draft adds to the time to first token"""
    seed: int = 1
    """of the acceptance draws and of launch noise"""

    prefix_cache: bool = True
    """whether prompts are cached at all"""
    block: int = 16
    """prefix cache block in tokens (vLLM)"""
    drop_last_block: bool = True
    """under speculation the last matched block is computed again (vLLM)"""
    prompt_tokens_details: bool = False
    """report usage.prompt_tokens_details.cached_tokens, as --enable-prompt-tokens-details does (vLLM)"""
    engines: int = 1
    """data-parallel engines, one set of counters each (vLLM); requests go round them"""
    max_context: int = 262_144
    """tokens of prompt and completion together"""
    natural_tokens: int = 0
    """place of the end-of-text token in every completion; 0 for none"""
    words: int = WORDS
    """different words that completions are made of; a text repeats its words, noise has new ones"""
    near_tie_at: int | None = None
    """place in every completion (0-based) where the two best tokens are all but equally likely"""

    tokens_per_event: int = 0
    """regroup the tokens after the first event so, across steps; 0 is the dialect's own way"""
    first_event_tokens: int = 1
    """tokens that leave with the first token, all from prefill"""
    buffered_events: int = 1
    """events held back and flushed together"""
    buffer_first_event: bool = False
    """whether the first token event is held back too"""
    reasoning_tokens: int = 0
    """leading tokens of a chat completion that are sent as reasoning"""
    role_at_once: bool = False
    """send the empty role chunk of a chat when the request arrives, not with the first token"""
    usage_first: bool = False
    """send a usage-only chunk when the request arrives (vLLM, when usage is asked for)"""
    keepalive_s: float = 0.0
    """send a comment line whenever the stream has been silent for so long; 0 for never"""

    drift_per_s: float = 0.0
    """relative growth of every time per second since the server started"""
    heat_per_s: float = 0.0
    """relative growth of every time per second of work done"""
    cooling_s: float = 0.0
    """time constant with which an idle server cools; 0 for never"""
    launch_noise_sd: float = 0.0
    """sd of the log of one factor on every time, drawn once per process"""
    launch: int | None = None
    """number that the launch factor is drawn with, beside the seed; None takes fresh entropy"""

    def __post_init__(self) -> None:
        if not 0 <= self.n <= MAX_N:
            raise ValueError(f"n is {self.n}, wanted 0..{MAX_N}")
        if len(self.acceptance) < self.n:
            raise ValueError(f"acceptance has {len(self.acceptance)} positions, n is {self.n}: name them all")
        if self.costs and len(self.costs) < self.n:
            raise ValueError(f"costs has {len(self.costs)} entries, n is {self.n}: name C(1) to C(n)")
        if not all(0 <= q <= 1 for q in (*self.acceptance, self.gate)):
            raise ValueError(f"acceptance {self.acceptance} and gate {self.gate} must lie in 0..1")
        for name in ("t0_s", "pp_per_s", "block", "engines", "first_event_tokens", "buffered_events"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}, wanted above 0")
        if not 0 < self.words <= WORDS:
            raise ValueError(f"words is {self.words}, wanted 1..{WORDS}")

    @property
    def survival(self) -> tuple[float, ...]:
        """S_1..S_n: chance that the first i draft tokens are all accepted (Method 2)."""
        return tuple(accumulate(self.acceptance[: self.n], mul))

    def logprob_margin(self, place: int) -> float:
        """Log probability of the best token minus that of the second best."""
        return NEAR_TIE_MARGIN if place == self.near_tie_at else LOGPROB_MARGIN

    @property
    def acceptance_length(self) -> float:
        """Expected tokens of a drafted step, bonus token included: 1 + sum of S_i (Method 2)."""
        return 1 + sum(self.survival)

    def cost(self, drafted: int) -> float:
        """C(drafted) in baseline steps; C(0) is 1 (Method 3)."""
        if drafted == 0:
            return 1.0
        return self.costs[drafted - 1] if self.costs else self.a + self.b * drafted

    def baseline_step_s(self, prompt_tokens: int) -> float:
        """t0 at a depth, before drift, heat and launch noise."""
        return self.t0_s + self.t0_per_context_token_s * prompt_tokens

    def time_to_first_token_s(self, prompt_tokens: int, cached: int) -> float:
        """TTFT before drift, heat and launch noise."""
        per_token = 1 / self.pp_per_s + self.prefill_per_cached_token_s * cached
        drafting = self.ttft_draft_cost * self.n * self.baseline_step_s(prompt_tokens)
        return self.ttft_s + (prompt_tokens - cached) * per_token + drafting

    def launch_factor(self) -> float:
        """Factor on every time of this process: exp(sd * z), z drawn with the seed and the launch number."""
        launch = self.launch if self.launch is not None else Random().getrandbits(64)
        return exp(self.launch_noise_sd * Random(f"{self.seed}/{launch}").gauss(0, 1))


@dataclass(frozen=True)
class Step:
    """One decode step. `accepted` is what the engine counts; `emitted` is what the client gets."""

    drafted: int
    accepted: int
    emitted: int
    cost: float


@dataclass(frozen=True)
class Event:
    """Completion tokens [start, stop) of a stream event, which leaves when `step` is over; -1 is prefill."""

    start: int
    stop: int
    step: int


def conditional(survival: Sequence[float]) -> tuple[float, ...]:
    """q_i = S_i / S_(i-1), with S_0 = 1 and 0 after a position that is never reached (Method 2)."""
    pairs = zip(survival, (1.0, *survival), strict=False)
    return tuple(s / before if before else 0.0 for s, before in pairs)


def completion(
    prompt: Sequence[int], tokens: int, *, natural_tokens: int = 0, loop: int = 0, words: int = WORDS
) -> list[int]:
    """Token ids of the completion: a fixed function of the prompt, a longer one starts with a shorter one.

    `natural_tokens` puts the end-of-text token there; `loop` repeats the first so many tokens for ever; `words` is
    the number of different words.
    """
    length = min(tokens, loop) if loop else tokens
    raw = struct.unpack(f"<{length}I", hashlib.shake_256(b"completion" + _key(prompt)).digest(4 * length))
    ids = [FIRST_WORD + value % words for value in raw]
    if loop and ids:
        ids = [ids[i % length] for i in range(tokens)]
    if 0 < natural_tokens <= tokens:
        ids[natural_tokens - 1] = EOS
    return ids


def runners_up(prompt: Sequence[int], tokens: int) -> list[int]:
    """Token ids that come second at every place of the completion."""
    return completion((*prompt, EOS), tokens)


def simulate(truth: Truth, prompt: Sequence[int], tokens: int, *, cut_last_draft: bool) -> tuple[Step, ...]:
    """Decode steps that produce completion tokens after those of the first event, `tokens` in all.

    `cut_last_draft` is llama.cpp's way: no token is drafted past the limit. Without it (vLLM) the last step
    may accept more than it can emit, and the surplus is counted as accepted.
    """
    first = min(truth.first_event_tokens, tokens)
    survival = [-s for s in truth.survival]
    draws = _draws(truth, prompt, tokens)
    steps, emitted = [], first
    while emitted < tokens:
        left = tokens - emitted
        u, v = draws[emitted] if not truth.even_draws else (_even(draws[0][0], len(steps)), draws[emitted][1])
        tried = truth.n > 0 and v < truth.gate
        drafted = min(truth.n, left - 1) if cut_last_draft and tried else truth.n * tried
        accepted = min(drafted, bisect_left(survival, -u))
        if truth.n and not tried:
            cost = truth.undrafted_cost
        else:
            cost = truth.cost(drafted if truth.cheap_cut_steps else truth.n)
        steps.append(Step(drafted, accepted, min(accepted + 1, left), cost))
        emitted += steps[-1].emitted
    return tuple(steps)


def step_ends_s(
    truth: Truth,
    steps: Sequence[Step],
    *,
    prompt_tokens: int,
    cached: int,
    launch: float,
    age_s: float,
    busy_s: float,
) -> tuple[float, ...]:
    """End of prefill and of every step, in seconds since the request: len(steps) + 1 values.

    `age_s` and `busy_s` are the server's life and work when the request arrives, `launch` its launch factor.
    """
    t0 = truth.baseline_step_s(prompt_tokens)
    now, ends = 0.0, []
    for planned in (truth.time_to_first_token_s(prompt_tokens, cached), *(t0 * step.cost for step in steps)):
        slow = (1 + truth.drift_per_s * (age_s + now)) * (1 + truth.heat_per_s * (busy_s + now))
        now += planned * launch * slow
        ends.append(now)
    return tuple(ends)


def events(truth: Truth, steps: Sequence[Step], tokens: int, *, event_per_token: bool) -> tuple[Event, ...]:
    """How the tokens are cut into stream events and after which step each event leaves.

    `event_per_token` is llama.cpp's way, otherwise (vLLM) an event is a step.
    """
    first = min(truth.first_event_tokens, tokens)
    token_step = [-1] * first
    for index, step in enumerate(steps):
        token_step += [index] * step.emitted
    if truth.tokens_per_event or event_per_token:
        edges = [*range(first, tokens, truth.tokens_per_event or 1), tokens]
    else:
        edges = list(accumulate((step.emitted for step in steps), initial=first))
    spans = zip([0, *edges], edges, strict=False)
    cut = [Event(start, stop, token_step[stop - 1]) for start, stop in spans if stop > start]
    held = cut if truth.buffer_first_event else cut[1:]
    flushed = [] if truth.buffer_first_event else cut[:1]
    for at in range(0, len(held), truth.buffered_events):
        group = held[at : at + truth.buffered_events]
        flushed += [Event(event.start, event.stop, group[-1].step) for event in group]
    return tuple(flushed)


def mi210(n: int, *, scale: float = 1.0) -> Truth:
    """The published MI210 case read as steps/s: 36.13 t/s baseline, C(N) = 1.0549 + 0.1396 N, N = 0..3.

    An event counter reads 30.27 / 27.04 / 24.53 where 57.1 / 69.8 / 76.0 tokens/s are true. `scale`
    multiplies every time, so rates are divided by it. Cache blocks are 784 tokens; under speculation 800,
    and the last one is dropped.
    """
    survival = {
        0: (),
        1: (1084 / 1224,),
        2: (0.864, 1412 / 893 - 0.864),
        3: (0.870, 0.682, 1571 / 749 - 0.870 - 0.682),
    }[n]
    return Truth(
        n=n,
        a=1.0549,
        b=0.1396,
        acceptance=conditional(survival),
        even_draws=True,
        t0_s=scale / 36.13,
        ttft_s=0.0,
        pp_per_s=1720 / scale,
        block=800 if n else 784,
        prompt_tokens_details=True,
    )


def _key(prompt: Sequence[int]) -> bytes:
    return hashlib.sha256(struct.pack(f"<{len(prompt)}I", *prompt)).digest()


def _draws(truth: Truth, prompt: Sequence[int], tokens: int) -> list[tuple[float, float]]:
    """Two uniforms per completion place, of acceptance and of the gate; the same in every arm of a seed."""
    count = 2 * max(tokens, 1)
    raw = hashlib.shake_256(b"draws" + str(truth.seed).encode() + _key(prompt)).digest(4 * count)
    values = [value / 2**32 for value in struct.unpack(f"<{count}I", raw)]
    return list(zip(values[::2], values[1::2], strict=True))


def _even(offset: float, step: int) -> float:
    return (offset + step * GOLDEN) % 1.0
