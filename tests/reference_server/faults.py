"""What a reference server can be made to do wrong. Token counts are completion tokens of one request."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Faults:
    """Every fault is off by default; `None` or 0 is off."""

    dies_after_tokens: int | None = None
    """the whole server goes away inside a stream"""
    stalls_after_tokens: int | None = None
    """the stream stands still for `stall_s` and goes on"""
    stall_s: float = 1.0
    """length of a stall"""
    http_500: int = 0
    """so many generation requests fail with status 500 before one succeeds"""
    healthy_but_dead: bool = False
    """/health says 200 and every generation request fails"""
    truncates_after_tokens: int | None = None
    """the stream ends in the middle of an event and the connection closes"""
    ends_without_done: bool = False
    """the stream ends properly, but its final event, usage and [DONE] are missing"""
    wrong_usage: int = 0
    """tokens added to every completion token count that is reported"""
    wrong_timings: float = 1.0
    """factor on the server's own timings (llama.cpp)"""
    counter_reset_after: int = 0
    """counters start again from 0 once, after so many generation requests"""
    other_traffic: int = 0
    """tokens of a foreign request that every request's counters carry besides"""
    no_spec_counters: bool = False
    """speculation counters are not exported, as in older builds"""
    no_token_ids: bool = False
    """token ids are not returned, as in older builds"""
    stops_early: int | None = None
    """the completion ends after so many tokens, whatever ignore_eos says"""
    effective_n: int | None = None
    """the draft length really used; the configuration still claims the one asked for"""
    dead_from_position: int | None = None
    """draft positions from this one on (0-based) are never accepted"""
    diverges_at: int | None = None
    """completion tokens from this one on (0-based) differ from every other arm's"""
    loops_after: int = 0
    """the completion repeats its first so many tokens for ever"""
    prompt_limit: int | None = None
    """longer prompts are cut to their last so many tokens, without a word"""
    cold_requests: int = 0
    """so many generation requests are slower than the later ones, as while kernels are compiled"""
    cold: float = 2.0
    """factor on every time of a cold request"""
    remembers: bool = False
    """the drafter knows the answer to a text that was answered before, and all its drafts are accepted"""


NO_FAULTS = Faults()
