"""The report as one Markdown page."""

import re
from collections.abc import Sequence
from dataclasses import replace

from breakeven.publish.escape import Markdown, environment, markdown_text
from breakeven.publish.report import answer, arms, drafts, limits, noise, provenance, speeds
from breakeven.publish.report.figures import Figure
from breakeven.publish.report.numbers import level
from breakeven.publish.report.run import Run
from breakeven.publish.report.table import aligned

TEMPLATE = "report.md.j2"
NOTHING_KNOWN = "Nothing on record: measure again when server, model or hardware change."


def markdown(
    run: Run,
    figures: Sequence[Figure] = (),
    missing_figures: Sequence[str] = (),
    prior_art: Sequence[str] = (),
) -> str:
    """The page. `figures` are shown where they belong; `missing_figures` are titles of those left out.

    `prior_art`: sentences on closed ledger entries of the same lead.
    """
    positions, positions_words = drafts.positions_table(run)
    fits, fit_words = drafts.fit_table(run)
    structure, first = arms.structure(run), answer.answer(run)
    page = environment().get_template(TEMPLATE)
    text = page.render(
        run=run,
        name=run.name,
        experiment=run.experiment,
        verdict=run.verdict,
        level=level(run.alpha),
        answer=first,
        questions=_questions(first),
        summary=answer.summary_table(run),
        arms=arms.arms_table(run),
        failures=arms.failures(run),
        structure=structure and replace(structure, added=(), same=()),
        common=arms.common_table(structure),
        gates=arms.gates_table(run),
        checks=arms.checks_table(run),
        passed_checks=arms.passed_checks_table(run),
        decode=speeds.decode_tables(run),
        wins=speeds.wins(run),
        mixes=speeds.mixes_table(run),
        prefill=speeds.prefill_table(run),
        prefill_words=speeds.prefill_words(run),
        exchange=speeds.exchange_table(run),
        acceptance=drafts.acceptance_table(run),
        counts=drafts.counts_table(run),
        positions=positions,
        positions_words=positions_words,
        costs=drafts.cost_table(run),
        fits=fits,
        fit_words=fit_words,
        parts=drafts.parts_table(run),
        decision=drafts.decision_table(run),
        needed=drafts.needed(run),
        bytes_table=drafts.bytes_table(run),
        lossless=drafts.lossless_table(run),
        noise=noise.noise_table(run),
        drift=noise.drift_words(run),
        overhead=noise.overhead_table(run),
        facts=provenance.facts_table(run),
        engine_version=provenance.version_of_engine(run),
        engine_definitions=provenance.engine_definitions(run),
        command_lines=provenance.command_lines(run),
        software=provenance.software_table(run),
        limitations=limits.limitations(run, missing_figures),
        ruled_out=limits.ruled_out(run),
        figures={figure.name: figure for figure in figures},
        prior_art=list(prior_art),
    )
    return aligned(re.sub(r"\n{3,}", "\n\n", text).strip()) + "\n"


def _questions(first: answer.Answer) -> Markdown:
    """The four questions as a list, with a list below where the answer is more than one sentence."""
    asked = {
        "By how much?": first.how_much,
        "How sure?": first.how_sure,
        "Why?": first.why,
        "What would change it?": first.change or (NOTHING_KNOWN,),
    }
    made = []
    for question, sentences in asked.items():
        said = [markdown_text(text) for text in sentences]
        if len(said) == 1:
            made.append(f"- **{question}** {said[0]}")
        else:
            made += [f"- **{question}**", *(f"  - {text}" for text in said)]
    return Markdown("\n".join(made))
