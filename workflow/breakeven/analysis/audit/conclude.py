"""What an audited table supports, in sentences that say no more than its figures do."""

from collections.abc import Iterator

from breakeven.analysis.audit.groups import Group, SameN, TableAudit

ONE_COST = 0.05
"""Spread of step costs at one N, relative to the smallest, up to which they read as one cost."""


def conclusions(table: TableAudit) -> tuple[str, ...]:
    """One sentence or two per finding, the most general first."""
    found = [sentence for group in table.groups for sentence in _group(group, len(table.groups) > 1)]
    found += [_same_n(same) for same in table.same_n]
    found += _prefill(table)
    arms = [arm for group in table.groups for arm in group.arms]
    refused = sum(arm.status == "refused" for arm in arms)
    if refused:
        found.append(f"{refused} of {len(arms)} rows give no step cost; the reasons stand with the rows.")
    if any(arm.speedup is not None for arm in arms):
        found.append(
            "One printed figure per arm carries no interval: differences within the noise of server launches cannot "
            "be judged from this table."
        )
    return tuple(found)


def _group(group: Group, several: bool) -> Iterator[str]:
    where = f"{group.setting}: " if several and group.setting else ""
    if group.fit is not None:
        line, error = group.fit.line, group.fit.worst_speed_error
        fits = (
            "two draft lengths, so the line is not tested"
            if error is None
            else f"speeds recomputed from it are within {error:.1%}"
        )
        yield f"{where}as printed, a = {line.a:.3f} and b = {line.b:.3f}; {fits}."
        if group.fit.impossible_everywhere:
            yield f"{where}on that line no draft length pays at any acceptance."
    if group.best_measured is not None:
        yield f"{where}{_best(group)}"
    if group.readings is not None and group.readings.suspicious:
        yield f"{where}{group.readings.conclusion}"
    for status in dict.fromkeys(claim.status for claim in group.claims):
        claims = [claim for claim in group.claims if claim.status == status]
        named = ", ".join(
            f"{claim.quantity} {claim.claimed}" + ("" if claim.n is None else f" at N={claim.n}")
            for claim in claims
        )
        yield f"{where}claims {status}: {named}."


def _best(group: Group) -> str:
    speedups = [arm.speedup for arm in group.arms if arm.speedup is not None]
    if group.best_measured == 0:
        return f"as printed, no arm beats the baseline; the best reaches {max(speedups):.3f} of it."
    return f"as printed, N={group.best_measured} is the fastest, {max(speedups):.3f} times the baseline."


def _same_n(same: SameN) -> str:
    (low, high), (rate_low, rate_high) = same.cost, same.breakeven_rate
    needs = f"break-even at {rate_low:.1%} to {rate_high:.1%} of drafts accepted"
    if rate_low > 1:
        needs = "no acceptance breaks even"
    if high <= low * (1 + ONE_COST):
        mean = "" if rate_low > 1 else f", {same.breakeven_rate_of_mean:.1%} at the mean cost"
        return f"N={same.n}: {same.arms} arms agree on one step cost, {low:.3f} to {high:.3f}; {needs}{mean}."
    return f"N={same.n}: step costs of {same.arms} arms run from {low:.3f} to {high:.3f}; {needs}."


def _prefill(table: TableAudit) -> Iterator[str]:
    for setting in dict.fromkeys(prefill.row.setting for prefill in table.prefill):
        arms = [prefill for prefill in table.prefill if prefill.row.setting == setting]
        ratios = [arm.ratio for arm in arms if arm.ratio is not None]
        predicted = [arm.predicted for arm in arms if arm.predicted is not None]
        if ratios:
            words = f"{setting}: prefill runs at {min(ratios):.3f} to {max(ratios):.3f} times the baseline"
            if predicted:
                words += (
                    f"; a lost cache block alone predicts {min(predicted):.3f}, so how many tokens were computed must "
                    "be known before this is called slower"
                )
            yield f"{words}."
