"""A running reference engine: plans a request from the truth, keeps cache, counters, age and heat."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp
from threading import Lock

from reference_server import vocabulary
from reference_server.cache import BlockCache, NoCache, PrefixCache, SlotCache
from reference_server.faults import Faults
from reference_server.truth import (
    MAX_N,
    Event,
    Step,
    Truth,
    completion,
    events,
    runners_up,
    simulate,
    step_ends_s,
)

REMEMBERED_TOKENS = 16
"""A text is known again by so many tokens at its end: salts stand at its start."""


@dataclass(frozen=True)
class Generation:
    """A generation request, whatever dialect it came in."""

    prompt: Sequence[int]
    tokens: int
    stream: bool = False
    chat: bool = False
    ignore_eos: bool = False
    min_tokens: int = 0
    cache_prompt: bool = True
    include_usage: bool = False
    continuous_usage: bool = False
    return_ids: bool = False
    logprobs: int = 0
    name_ids: bool = False


@dataclass(frozen=True)
class Plan:
    """All that will happen to one request; times are seconds since its arrival."""

    request: Generation
    ids: Sequence[int]
    cached: int
    steps: Sequence[Step]
    ends_s: Sequence[float]
    events: Sequence[Event]
    engine: int
    stopped: bool

    @cached_property
    def runners_up(self) -> Sequence[int]:
        """The second best token at every place of the completion."""
        return runners_up(self.request.prompt, len(self.ids))

    @property
    def drafted(self) -> int:
        """M of the request."""
        return sum(step.drafted for step in self.steps)

    @property
    def accepted(self) -> int:
        """A of the request, surplus included."""
        return sum(step.accepted for step in self.steps)

    def due_s(self, event: Event) -> float:
        """When an event leaves."""
        return self.ends_s[event.step + 1]


@dataclass(frozen=True)
class Sent:
    """When the first and the last token were there, in seconds since the request's arrival: when they really left, or
    when the first was ready, if it was held back."""

    first_s: float
    last_s: float


@dataclass
class Counters:
    """Cumulative counts of one engine since `created` (seconds since 1970)."""

    created: float
    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    steps: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    per_position: list[int] = field(default_factory=list)
    prompt_s: float = 0.0
    decode_s: float = 0.0
    longest: int = 0

    def add_prompt(self, plan: Plan) -> None:
        """Count a finished prefill with its first tokens."""
        self.prompt_tokens += len(plan.request.prompt)
        self.cached_tokens += plan.cached
        self.completion_tokens += len(plan.ids) - sum(step.emitted for step in plan.steps)

    def add_step(self, step: Step) -> None:
        """Count a decode step."""
        self.steps += 1
        self.completion_tokens += step.emitted
        self.drafts += step.drafted > 0
        self.draft_tokens += step.drafted
        self.accepted_tokens += step.accepted
        for position in range(step.accepted):
            self.per_position[position] += 1


class Engine:
    """Truth and faults with a memory. Thread-safe; requests that overlap do not slow one another."""

    def __init__(
        self, truth: Truth, faults: Faults, *, event_per_token: bool, cut_last_draft: bool, block_cache: bool
    ) -> None:
        self.truth, self.faults = truth, faults
        self.launch_factor = truth.launch_factor()
        self.effective = _effective(truth, faults)
        self.counters = [self._fresh_counters() for _ in range(truth.engines)]
        self._event_per_token, self._cut_last_draft = event_per_token, cut_last_draft
        self._born = self._idle_since = time.monotonic()
        self._busy_s = 0.0
        self._seen = 0
        self._finished = 0
        self._failures_left = faults.http_500
        self._answered: set[tuple[int, ...]] = set()
        self._lock = Lock()
        self._cache: PrefixCache = NoCache()
        if truth.prefix_cache and block_cache:
            self._cache = BlockCache(truth.block, drop_last=truth.n > 0 and truth.drop_last_block)
        elif truth.prefix_cache:
            self._cache = SlotCache()

    def refuses(self) -> bool:
        """Whether the next generation request fails with status 500."""
        with self._lock:
            if self._failures_left > 0:
                self._failures_left -= 1
                return True
            return self.faults.healthy_but_dead

    def plan(self, request: Generation, arrived: float) -> Plan:
        """What will happen to a request that arrived at this monotonic time."""
        if self.faults.prompt_limit is not None:
            request = replace(request, prompt=request.prompt[-self.faults.prompt_limit :])
        truth = self.effective
        ids, stopped = self._completion(request)
        with self._lock:
            if self.faults.remembers and tuple(request.prompt[-REMEMBERED_TOKENS:]) in self._answered:
                truth = replace(truth, acceptance=(1.0,) * MAX_N)
            cached = self._cache.match(request.prompt) if request.cache_prompt else 0
            if truth.cooling_s:
                self._busy_s *= exp(-max(0.0, arrived - self._idle_since) / truth.cooling_s)
            busy_s, engine = self._busy_s, self._seen % truth.engines
            cold = self.faults.cold if self._seen < self.faults.cold_requests else 1.0
            self._seen += 1
        steps = simulate(truth, request.prompt, len(ids), cut_last_draft=self._cut_last_draft)
        ends = step_ends_s(
            truth,
            steps,
            prompt_tokens=len(request.prompt),
            cached=cached,
            launch=self.launch_factor * cold,
            age_s=arrived - self._born,
            busy_s=busy_s,
        )
        cut = events(truth, steps, len(ids), event_per_token=self._event_per_token)
        return Plan(
            request, ids, cached, steps, self._with_stall(ends, steps, len(ids)), cut, engine, stopped
        )

    def count(self, plan: Plan, change: Callable[[Counters], None]) -> None:
        """Change the counters of the engine that serves the plan."""
        with self._lock:
            change(self.counters[plan.engine])

    def finish(self, plan: Plan, sent: Sent) -> None:
        """Account for a request that has been answered."""
        with self._lock:
            counters = self.counters[plan.engine]
            counters.requests += 1
            counters.prompt_s += sent.first_s
            counters.decode_s += sent.last_s - sent.first_s
            counters.longest = max(counters.longest, len(plan.request.prompt) + len(plan.ids))
            if self.faults.other_traffic:
                counters.requests += 1
                self._add_foreign(counters, self.faults.other_traffic)
            self._cache.store([*plan.request.prompt, *plan.ids])
            if plan.steps:
                self._answered.add(tuple(plan.request.prompt[-REMEMBERED_TOKENS:]))
            self._busy_s += sent.last_s
            self._idle_since = time.monotonic()
            self._finished += 1
            if self._finished == self.faults.counter_reset_after:
                self.counters = [self._fresh_counters() for _ in range(self.truth.engines)]

    def _add_foreign(self, counters: Counters, tokens: int) -> None:
        """Count somebody else's request of so many completion tokens."""
        steps = simulate(self.effective, (vocabulary.BOS,), tokens, cut_last_draft=self._cut_last_draft)
        counters.prompt_tokens += 1
        counters.completion_tokens += tokens - sum(step.emitted for step in steps)
        for step in steps:
            counters.add_step(step)

    def _fresh_counters(self) -> Counters:
        return Counters(created=time.time(), per_position=[0] * max(self.truth.n, self.effective.n))

    def _completion(self, request: Generation) -> tuple[list[int], bool]:
        """Token ids, and whether the end-of-text token ended them."""
        truth, faults = self.truth, self.faults
        tokens = min(request.tokens, truth.max_context - len(request.prompt))
        stop = None if request.ignore_eos else truth.natural_tokens or None
        if stop is not None:
            stop = max(stop, request.min_tokens)
        if faults.stops_early is not None:
            stop = faults.stops_early
        stopped = stop is not None and stop <= tokens
        if stopped and stop is not None:
            tokens = stop
        ids = completion(
            request.prompt,
            tokens,
            natural_tokens=truth.natural_tokens,
            loop=faults.loops_after,
            words=truth.words,
        )
        if stopped and ids:
            ids[-1] = vocabulary.EOS
        if faults.diverges_at is not None:
            ids[faults.diverges_at :] = runners_up(request.prompt, tokens)[faults.diverges_at :]
        return ids, stopped

    def _with_stall(self, ends: Sequence[float], steps: Sequence[Step], tokens: int) -> Sequence[float]:
        after = self.faults.stalls_after_tokens
        if after is None:
            return ends
        emitted = tokens - sum(step.emitted for step in steps)
        shifted = [ends[0]]
        for end, step in zip(ends[1:], steps, strict=True):
            shifted.append(end + self.faults.stall_s * (emitted >= after))
            emitted += step.emitted
        return shifted


def _effective(truth: Truth, faults: Faults) -> Truth:
    """The truth as faults change it; what the server claims stays `truth`."""
    if faults.effective_n is not None:
        truth = replace(truth, n=faults.effective_n)
    if faults.dead_from_position is not None:
        alive = faults.dead_from_position
        dead = tuple(q if i < alive else 0.0 for i, q in enumerate(truth.acceptance))
        truth = replace(truth, acceptance=dead)
    return truth
