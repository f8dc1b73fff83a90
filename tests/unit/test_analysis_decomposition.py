"""Parts of b from arms whose true costs are known: C = 1 + F + (D + V)*N, drafting free for n-grams."""

from dataclasses import replace

import numpy as np
import pytest

from breakeven.analysis.acceptance import Counts, acceptance
from breakeven.analysis.decomposition import decompose
from breakeven.analysis.experiment import Arm
from breakeven.analysis.line import fit_costs
from breakeven.analysis.steps import contrasts

F, D, V = 0.05, 0.10, 0.03
ROLLBACK = 0.08
STEPS = 1000
NOISE = 0.0005


def line_arm(n: int, **keys) -> Arm:
    return Arm(f"mtp{n}", n, "candidate", drafter="mtp", **keys)


def cost(n: float) -> float:
    return 1 + F + (D + V) * n


def counts(drafted: float, rate: float, share: float | None = 1.0) -> Counts:
    """Of STEPS steps: tokens drafted a step, accepted share, share of steps with drafts (None: not counted)."""
    tokens = round(drafted * STEPS)
    drafts = None if share is None else round(share * STEPS)
    undrafted = None if drafts is None else STEPS - drafts
    accepted = round(rate * tokens)
    return Counts(1, STEPS + accepted, drafts, tokens, accepted, undrafted, STEPS, None)


def parts(costs: dict[Arm, float], of: dict[str, Counts], rounds: int = 4, alpha: float = 0.05, **options):
    """(part, estimate, how) of each reading, from noisy rounds of a baseline and these arms."""
    rng = np.random.default_rng(1)
    y = np.log([1.0, *costs.values()]) + NOISE * rng.standard_normal((rounds, len(costs) + 1))
    found = contrasts(y, ["base", *(arm.arm for arm in costs)])
    counted = {arm.arm: acceptance(of[arm.arm], arm.n_spec, gated=arm.gated) for arm in costs}
    steady = [arm for arm in costs if arm.on_the_line]
    first = steady[0].drafter if steady else None
    fitted = {arm.arm: arm.n_spec or 0 for arm in steady if arm.drafter == first}
    fit = fit_costs(found, fitted, alpha) if fitted else None
    split = decompose(fit, found, list(costs), counted, alpha, steady=steady, **options)
    return [(part.part, part.cost, part.how) for part in split.parts], split.reason


LINE = {line_arm(n): cost(n) for n in (1, 3, 7)}
LINE_COUNTS = {arm.arm: counts(arm.n_spec or 0, 0.6) for arm in LINE}
NGRAM = Arm("ngram", None, "candidate", gated=True, free_drafts=True)


@pytest.mark.parametrize("rounds", [4, 6])
def test_an_ngram_arm_tells_verification_and_what_is_left_is_drafting(rounds):
    share, m = 0.4, 1.6
    costs = LINE | {NGRAM: 1 + share * F + V * m}
    found, _ = parts(costs, LINE_COUNTS | {"ngram": counts(m, 0.5, share)}, rounds)
    (verified, v, how), (draft, d, _) = found
    assert (verified, draft) == ("verified token", "draft pass")
    assert v.value == pytest.approx(V, abs=0.002) and d.value == pytest.approx(D, abs=0.002)
    assert v.low < V < v.high and d.low < D < d.high
    assert "40%" in how


def test_where_drafts_are_not_counted_the_overhead_is_in_it_and_it_says_so():
    share, m = 0.4, 1.6
    costs = LINE | {NGRAM: 1 + share * F + V * m}
    found, _ = parts(costs, LINE_COUNTS | {"ngram": counts(m, 0.5, None)})
    (_, v, how), *_ = found
    assert v.value == pytest.approx(V + share * F / m, abs=0.002)
    assert "at most this" in how


def test_an_ngram_arm_alone_needs_no_line_and_one_that_hardly_drafts_says_nothing():
    found, _ = parts({NGRAM: 1 + V * 2}, {"ngram": counts(2, 0.5, None)})
    assert [part for part, *_ in found] == ["verified token"]
    assert found[0][1].value == pytest.approx(V, abs=0.002)
    found, reason = parts({NGRAM: 1.0}, {"ngram": counts(0.05, 0.5, None)})
    assert found == [] and "no n-gram arm" in reason


def test_forced_arms_tell_the_rollback_at_equal_drafts():
    reject, accept = (Arm(name, 3, "cost_only", drafter="mtp") for name in ("reject", "accept"))
    costs = LINE | {reject: cost(3) + ROLLBACK, accept: cost(2.9)}
    of = LINE_COUNTS | {"reject": counts(3, 0), "accept": counts(2.9, 1)}
    found, _ = parts(costs, of)
    ((part, rollback, how),) = found
    assert part == "rollback" and "reject" in how and "N = 3" in how
    # The line holds the rejecting arm too, so its b is a little off.
    assert rollback.value == pytest.approx(ROLLBACK, abs=0.005)


def test_another_drafter_or_a_half_forced_arm_is_no_pair():
    reject = Arm("reject", 3, "cost_only", drafter="mtp")
    other = Arm("accept", 3, "cost_only", drafter="head2")
    of = LINE_COUNTS | {"reject": counts(3, 0), "accept": counts(3, 1)}
    assert parts(LINE | {reject: cost(3) + ROLLBACK, other: cost(3)}, of)[0] == []
    half = replace(other, drafter="mtp")
    of |= {"accept": counts(3, 0.5)}
    assert parts(LINE | {reject: cost(3) + ROLLBACK, half: cost(3)}, of)[0] == []


def test_heads_of_different_size_tell_bytes_from_latency():
    t0_s, gb_s, latency = 0.02, 100.0, 0.04
    sizes = {"small": 40e6, "large": 200e6}

    def head(name: str, n: int) -> Arm:
        return Arm(f"{name}{n}", n, "candidate", drafter=name, draft_bytes=sizes[name])

    def of_bytes(n_bytes: float) -> float:
        return n_bytes / (gb_s * 1e9) / t0_s

    costs = {
        head(name, n): 1 + F + (latency + of_bytes(sizes[name]) + V) * n for name in sizes for n in (1, 3)
    }
    found, _ = parts(costs, {arm.arm: counts(arm.n_spec or 0, 0.6) for arm in costs}, t0_s=t0_s)
    (grown, share, how), (rest, left, _) = found
    assert (grown, rest) == ("bytes of the draft", "b without those bytes")
    assert share.value == pytest.approx(of_bytes(200e6), abs=0.003)
    assert left.value == pytest.approx(latency + V, abs=0.003)
    assert "40 to 200 MB" in how
    speed = float(how.split("as if read at ")[1].split(" GB/s")[0])
    assert speed == pytest.approx(gb_s, rel=0.05)


def test_two_heads_at_one_length_tell_the_bytes_alone():
    heads = {Arm(f"h{mb}", 3, "candidate", drafter=f"h{mb}", draft_bytes=mb * 1e6): mb for mb in (50, 100)}
    costs = {arm: 1.2 + 0.002 * mb * 3 for arm, mb in heads.items()}
    of = {arm.arm: counts(2.9 + mb / 1e4, 0.6) for arm, mb in heads.items()}
    ((part, share, _),), _ = parts(costs, of)
    assert part == "bytes of the draft" and share.value == pytest.approx(0.2, rel=0.05)


def test_one_size_or_one_length_a_size_tells_nothing_of_bytes():
    same = {replace(arm, draft_bytes=1e6): cost for arm, cost in LINE.items()}
    assert parts(same, LINE_COUNTS)[0] == []
    two = {Arm(f"h{i}", 1 + i, "candidate", drafter="h", draft_bytes=1e6 * (1 + i)): 1.2 for i in range(2)}
    assert parts(two, {arm.arm: counts(arm.n_spec or 0, 0.6) for arm in two})[0] == []


def test_the_engines_own_timer_has_no_interval_and_leaves_the_rest():
    timed = {replace(arm, drafting_s=D * 0.02): cost for arm, cost in LINE.items()}
    (draft, d, _), (verified, v, _) = parts(timed, LINE_COUNTS, t0_s=0.02)[0]
    assert (draft, verified) == ("draft pass", "verified token")
    assert d.value == pytest.approx(D) and d.low is None
    assert v.value == pytest.approx(V, abs=0.002) and v.low is not None
