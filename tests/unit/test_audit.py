"""Published tables re-read: definitions, both readings of a speed, refusals, and errors that name the cell."""

import csv
import io
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from typer.testing import CliRunner

from breakeven.analysis.audit.arm import Arm
from breakeven.analysis.audit.claims import Claim
from breakeven.analysis.audit.groups import Group, TableAudit, audit
from breakeven.analysis.audit.kinds import KINDS
from breakeven.analysis.audit.table import COLUMNS, REQUIRED, parse
from breakeven.analysis.prefix_cache import computed_tokens
from breakeven.errors import BreakevenError, ConfigError
from breakeven.publish.audit import as_json, as_markdown, main

AUDITS = Path(__file__).parents[2] / "config" / "audits"


def table(*rows: dict[str, object]) -> str:
    """CSV text of rows; what a row does not say is a plain, ungated arm of one table."""
    names = list(dict.fromkeys([*REQUIRED, *(name for row in rows for name in row)]))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    plain = {"table": "T", "N": 3, "tok_s": 100, "baseline_tok_s": 80, "acc_kind": "ratio", "acc_value": 0.6}
    writer.writerows(plain | row for row in rows)
    return out.getvalue()


def audited(*rows: dict[str, object]) -> TableAudit:
    (found,) = audit(parse(table(*rows), "t.csv"))
    return found


def only_arm(**row: object) -> Arm:
    return audited(row).groups[0].arms[0]


def codes(arm: Arm) -> list[str]:
    return [refusal.code for refusal in arm.refusals]


def seed(name: str, setting: str) -> Group:
    tables = audit(parse((AUDITS / f"{name}.csv").read_text(), f"{name}.csv"))
    return next(group for found in tables for group in found.groups if group.setting == setting)


def claims(group: Group) -> dict[tuple[str, int | None], Claim]:
    return {(claim.quantity, claim.n): claim for claim in group.claims}


@pytest.mark.parametrize(
    ("setting", "printed", "steps", "speedups"),
    [
        ("d0", (1.1090, 1.1558), (1.0549, 0.1396), [1.5798, 1.9318, 2.1030]),
        ("d8192", (0.7418, 1.4860), (0.9498, 0.2424), [1.5542, 1.8538, 1.8241]),
        ("d32768", (0.6851, 1.6176), (0.9463, 0.2817), [1.5336, 1.7132, 1.7276]),
    ],
)
def test_o4_o5_mi210_under_both_readings(
    setting: str, printed: tuple[float, float], steps: tuple[float, float], speedups: list[float]
) -> None:
    readings = seed("mi210", setting).readings
    assert readings is not None and readings.tokens.line is not None and readings.steps.line is not None
    assert (readings.tokens.line.a, readings.tokens.line.b) == pytest.approx(printed, abs=5e-4)
    assert (readings.steps.line.a, readings.steps.line.b) == pytest.approx(steps, abs=5e-4)
    assert list(readings.steps.speedup) == pytest.approx(speedups, abs=5e-4)
    assert readings.favoured == "steps/s"
    assert "would settle it" in readings.conclusion


def test_mi210_claims_are_withdrawn_not_refuted() -> None:
    found = claims(seed("mi210", "d0"))
    assert found["b", None].status == found["verdict", 1].status == "withdrawn"
    assert "0.1396 if they are steps/s" in found["b", None].reason


def test_o2_mi210_counters_are_conserved() -> None:
    first = seed("mi210", "d0").counts[0]
    assert (first.emitted, first.low, first.high, first.conserved) == (2308, 2302, 2312, True)


def test_counters_of_other_requests_are_seen() -> None:
    pooled = {"drafts": 1224, "accepted": 1084, "requests": 10, "completion_tokens": 1000}
    assert not audited({"N": 1} | pooled).groups[0].counts[0].conserved


def test_o17_prefix_block_drop_predicts_the_prefill_ratio() -> None:
    assert computed_tokens(8192, 2048, 784) == 2400
    assert computed_tokens(8192, 2048, 800, dropped_blocks=1) == 3040
    prefill = audit(parse((AUDITS / "mi210.csv").read_text(), "mi210.csv"))[1].prefill
    assert prefill[0].predicted == pytest.approx(0.7895, abs=1e-4)
    assert prefill[0].ratio == pytest.approx(0.773, abs=5e-4)
    assert prefill[3].predicted == pytest.approx(0.739, abs=5e-4)


def test_o8_o9_mi50_is_corrected() -> None:
    (content, *_) = audit(parse((AUDITS / "mi50.csv").read_text(), "mi50.csv"))
    arms = [group.arms[0] for group in content.groups]
    assert [arm.cost for arm in arms] == pytest.approx([2.2332, 2.1906], abs=1e-3)
    assert [arm.at_n.breakeven_rate for arm in arms if arm.at_n] == pytest.approx([0.4111, 0.3969], abs=1e-3)
    assert [arm.alternatives[0].cost for arm in arms] == pytest.approx([1.6845, 1.6382], abs=1e-3)
    assert claims(content.groups[0])["step cost C", 3].status == "corrected"
    assert claims(content.groups[1])["verdict", 3].status == "confirmed"


def test_o18_completion_and_accepted_tokens_count_every_step() -> None:
    arm = only_arm(acc_kind="predacc", acc_value="[257, 90]")
    assert arm.acceptance.length == pytest.approx(1.5422, abs=1e-4)
    assert arm.at_n is None
    assert codes(arm) == ["not_every_step"]


@pytest.mark.parametrize(
    ("kind", "value", "length"),
    [
        ("ratio", "0.6", 2.8),
        ("RATIO", "0.6", 2.8),
        ("alpha", "0.7", 2.533),
        ("bonus_ratio", "0.5", 2.0),
        ("len", "2.4", 2.4),
        ("acceptance length", "2.4", 2.4),
        ("len_no_bonus", "1.4", 2.4),
        ("per_position", "[0.87, 0.682, 0.545]", 3.097),
        ("surv", "[0.87, 0.682, 0.545]", 3.097),
        ("conditional", "[0.5, 0.5, 0.5]", 1.875),
        ("draftlen", "[2.5, 0.8]", 3.0),
        ("counts", "[749, 1571]", 3.097463),
        ("counts", "[749, 2247, 1571]", 3.097463),
        ("predacc", "[257, 90]", 1.542169),
    ],
)
def test_every_kind_of_acceptance_becomes_tokens_per_step(kind: str, value: str, length: float) -> None:
    arm = only_arm(acc_kind=kind, acc_value=value)
    assert arm.acceptance.length == pytest.approx(length, abs=1e-6)
    assert arm.cost == pytest.approx(length / 1.25, abs=1e-6)
    assert arm.acceptance.definition


def test_a_length_that_leaves_the_bonus_token_out_by_its_definition_gets_it() -> None:
    assert (
        only_arm(acc_kind="len", acc_value=1.4, acc_definition="excludes the bonus token").acceptance.length
        == 2.4
    )


def test_a_length_that_does_not_speak_of_the_bonus_token_shows_both() -> None:
    arm = only_arm(acc_kind="len", acc_value=2.4, acc_definition="mean accepted")
    assert arm.alternatives[0].length == pytest.approx(3.4)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"acc_kind": "none", "acc_value": ""}, "no_acceptance"),
        ({"acc_kind": "none", "acc_value": 0.6, "setting": "p-min 0.3"}, "gated_without_draft_length"),
        ({"acc_kind": "ratio", "setting": "p_min=0.75"}, "gated_without_draft_length"),
        ({"acc_kind": "vibes"}, "unknown_kind"),
        ({"acc_value": ""}, "no_acceptance"),
        ({"N": ""}, "no_draft_length"),
        ({"tok_s": ""}, "no_speed"),
        ({"baseline_tok_s": ""}, "no_baseline"),
        ({"unit": "unknown"}, "unit_unknown"),
        ({"notes": "the unit of the speeds is not stated"}, "unit_unknown"),
        ({"acc_definition": "2.4, unit unknown", "acc_kind": "len", "acc_value": 2.4}, "unit_unknown"),
        ({"setting": "eagle topk 4", "acc_kind": "len", "acc_value": 3.2}, "tree_draft"),
        ({"notes": "draft tree of 60 nodes"}, "tree_draft"),
        ({"engine": "vLLM ngram"}, "ngram_not_every_step"),
        ({"setting": "ngram-mod", "acc_kind": "len", "acc_value": 3.0}, "ngram_not_every_step"),
        ({"notes": "a guard stops drafting after 8 misses"}, "drafting_off"),
        ({"acc_kind": "len", "acc_value": 5.2}, "length_beyond_n"),
        ({"acc_kind": "len", "acc_value": 0.8}, "length_below_one"),
        ({"acc_kind": "per_position", "acc_value": "[0.5, 0.6, 0.1]"}, "survival_rises"),
        ({"acc_kind": "per_position", "acc_value": "[0.5, 0.4]"}, "positions_missing"),
        ({"tok_s": 300, "acc_value": 0.5}, "step_cheaper_than_baseline"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused_with_its_reason(row: dict[str, object], code: str) -> None:
    arm = only_arm(**row)
    assert arm.status == "refused"
    assert arm.cost is None
    assert arm.at_n is None
    assert code in codes(arm)
    assert all(refusal.reason for refusal in arm.refusals)


@pytest.mark.parametrize(
    "words", ["no tree", "not a tree", "eagle topk 1", "128 experts, top-8", "temperature 0.8 top-k 40"]
)
def test_a_chain_is_not_taken_for_a_tree(words: str) -> None:
    assert only_arm(setting=words).status == "computed"


def test_a_gate_with_its_draft_length_gives_a_cost_but_stays_out_of_the_fit() -> None:
    gated = {"N": 4, "setting": "p-min 0.60", "acc_kind": "draftlen", "acc_value": "[3.3, 0.86]"}
    (group,) = audited({"N": 2, "setting": "p-min 0"}, gated).groups
    assert group.arms[1].cost == pytest.approx((1 + 3.3 * 0.86) / 1.25)
    assert group.fit is None
    assert group.fit_refusal is not None and group.fit_refusal.code == "single_n"


def test_a_gate_that_may_have_been_on_is_said() -> None:
    arm = only_arm(notes="p_min default at that time 0.75")
    assert arm.status == "computed"
    assert "upper bounds" in arm.caveats[0]


def test_a_line_through_the_arms_and_the_best_of_them() -> None:
    rows = [{"N": n, "tok_s": 80 * (1 + 0.6 * n) / (1.1 + 0.2 * n)} for n in (1, 2, 3, 4)]
    (group,) = audited(*rows).groups
    assert group.fit is not None
    assert (group.fit.line.a, group.fit.line.b) == pytest.approx((1.1, 0.2))
    assert group.fit.worst_speed_error == pytest.approx(0, abs=1e-9)
    assert group.best_measured == 4
    assert group.readings is not None and not group.readings.suspicious


def test_a_cost_that_falls_with_n_is_flagged() -> None:
    (group,) = audited({"N": 2, "tok_s": 100}, {"N": 3, "tok_s": 150}).groups
    assert group.fit is not None
    assert "cost_falls" in [flag.name for flag in group.fit.flags]


def test_settings_that_repeat_n_do_not_part_a_group() -> None:
    found = audited({"N": 2, "setting": "n-max 2, code"}, {"N": 3, "setting": "n-max=3, code"})
    assert [group.setting for group in found.groups] == ["code"]


def test_steps_per_second_that_say_so_are_read_as_such() -> None:
    arm = only_arm(unit="steps/s", tok_s=60)
    assert arm.speedup == pytest.approx(60 * 2.8 / 80)
    assert arm.cost == pytest.approx(80 / 60)


def test_an_engine_that_streams_each_token_speaks_for_tokens() -> None:
    rows = [{"N": n, "tok_s": rate, "acc_value": 0.9} for n, rate in ((1, 66.0), (2, 60.0), (3, 54.0))]
    (unknown,) = audited(*rows).groups
    (known,) = audited(*({"engine": "llama.cpp"} | row for row in rows)).groups
    assert unknown.readings is not None and known.readings is not None
    assert unknown.readings.suspicious and known.readings.suspicious
    assert known.readings.favoured != "steps/s"


def test_a_faster_arm_elsewhere_in_the_table_speaks_for_tokens() -> None:
    rows = [{"N": n, "tok_s": rate, "acc_value": 0.9} for n, rate in ((1, 66.0), (2, 60.0), (3, 54.0))]
    alone = audited(*rows).groups[0].readings
    beside = audited(*rows, {"setting": "easy prompts", "tok_s": 120}).groups[0].readings
    assert alone is not None and beside is not None and alone.suspicious and beside.suspicious
    assert not any(item.favours == "tok/s" for item in alone.evidence)
    assert "line 5" in next(item.finding for item in beside.evidence if item.favours == "tok/s")
    assert beside.favoured != "steps/s"


def test_a_baseline_row_is_no_arm_and_its_drift_is_said() -> None:
    arm = only_arm(N=0, tok_s=70, acc_kind="none", acc_value="")
    assert arm.status == "baseline"
    assert "70" in arm.caveats[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no header"),
        ("# only a comment\n", "no header"),
        ("table,N\n", "acc_kind|tok_s"),
        ("table,tables\n", "did you mean table"),
        (",".join([*REQUIRED, "N"]) + "\n", "stands twice"),
        (",".join(REQUIRED) + "\n", "no rows"),
        (",".join(REQUIRED) + "\nT,1\n", "line 2: 2 cells"),
        (table({"N": "three"}), r"t.csv line 2, column N: 'three', allowed is a whole number"),
        (table({"N": -1}), "column N"),
        (table({"N": 1.5}), "column N"),
        (table({}, {"tok_s": 0}), r"line 3, column tok_s: '0', allowed is a number from 0.001"),
        (table({"tok_s": "nan"}), "column tok_s"),
        (table({"tok_s": "1e999"}), "column tok_s"),
        (table({"acc_value": 58}), r"acc_value: '58', allowed for acc_kind ratio is a fraction from 0 to 1"),
        (table({"acc_kind": "predacc", "acc_value": "[90, 257]"}), "acc_value"),
        (table({"acc_kind": "counts", "acc_value": "[0, 3]"}), "acc_value"),
        (table({"acc_kind": "per_position", "acc_value": "0.5"}), "JSON list"),
        (table({"acc_kind": "draftlen", "acc_value": "[" * 5000}), "acc_value"),
        (table({"unit": "furlongs"}), "one of tok/s, steps/s"),
        (table({"table": ""}), "column table"),
        (table({}) + '"open', "line 3: not CSV"),
    ],
)
def test_a_bad_table_is_an_error_that_names_the_cell(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse(text, "t.csv")


def test_comments_and_blank_lines_keep_the_line_numbers() -> None:
    head, row = table({"notes": 'two\nlines, "quoted"'}).split("\n", 1)
    rows = parse(f'# it\'s "a" comment\n\n{head}\n# another\n{row}# end\n{row}', "t.csv")
    assert [found.line for found in rows] == [5, 8]
    assert rows[0].notes == 'two\nlines, "quoted"'


HOSTILE = (
    "<script>alert(1)</script> | [x](http://evil) ![i](a) `c` **b** https://evil.example {{ 7*7 }} \x1b[31m"
)


def test_hostile_text_renders_as_text() -> None:
    names = [
        name for name, column in COLUMNS.items() if column.allowed == "any text" and name not in REQUIRED
    ]
    text = f"# {HOSTILE}\n" + table(dict.fromkeys(names, HOSTILE) | {"table": HOSTILE})
    html = (
        MarkdownIt("commonmark", {"html": True, "linkify": False})
        .enable("table")
        .render(as_markdown(text, HOSTILE))
    )
    for markup in ("<script", "<a ", "<img", "<code", "<strong>b"):
        assert markup not in html
    assert "{{ 7*7 }}" in html
    json.loads(as_json(text, HOSTILE))


def test_the_page_is_markdown_with_whole_tables_and_no_html() -> None:
    for path in sorted(AUDITS.glob("*.csv")):
        page = as_markdown(path.read_text(), path.name)
        html = MarkdownIt("commonmark", {"html": False}).enable("table").render(page)
        assert "&lt;" not in html
        assert "|---" not in html
        assert "None" not in page


def test_json_says_what_the_page_says() -> None:
    document = json.loads(as_json((AUDITS / "mi210.csv").read_text(), "mi210.csv"))
    group = document["tables"][0]["groups"][0]
    assert group["fit"]["line"]["b"] == pytest.approx(1.1558, abs=5e-4)
    assert group["readings"]["steps"]["line"]["b"] == pytest.approx(0.1396, abs=5e-4)
    assert group["arms"][0]["possible"] is False
    refused = json.loads(as_json(table({"acc_kind": "none", "acc_value": ""}), "t.csv"))
    arm = refused["tables"][0]["groups"][0]["arms"][0]
    assert arm["cost"] is None
    assert arm["refusals"][0]["code"] == "no_acceptance"


def test_module_entry_writes_the_page_or_says_why_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, page = tmp_path / "t.csv", tmp_path / "reports" / "t.md"
    source.write_text(table({}))
    assert main([str(source), str(page)]) == 0
    assert page.read_text().startswith("# Audit of")
    source.write_bytes(b"\xff\xfe")
    assert main([str(source), str(page)]) == 2
    assert "UTF-8" in capsys.readouterr().err
    assert [path.name for path in page.parent.iterdir()] == ["t.md"]


def test_command_prints_markdown_or_json(tmp_path: Path) -> None:
    import typer

    from breakeven.publish.audit import command

    app = typer.Typer()
    app.command()(command)
    source = tmp_path / "t.csv"
    source.write_text(table({}))
    assert CliRunner().invoke(app, [str(source)]).stdout.startswith("# Audit of")
    assert json.loads(CliRunner().invoke(app, [str(source), "--json"]).stdout)["version"] == 1


CELLS = st.one_of(
    st.sampled_from(
        [
            "",
            "0",
            "1",
            "3",
            "0.5",
            "1e9",
            "1e-3",
            "[1, 2]",
            "[0.5, 0.4, 0.1]",
            "[257, 90]",
            "p-min 0.5",
            "len",
        ]
    ),
    st.sampled_from([name for kind in KINDS for name in (kind.name, *kind.aliases)]),
    st.text(max_size=20),
    st.floats().map(str),
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.fixed_dictionaries(
            dict.fromkeys(REQUIRED, CELLS),
            optional={name: CELLS for name in COLUMNS if name not in REQUIRED},
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_cells_give_an_audit_or_an_error_for_a_person(rows: list[dict[str, str]]) -> None:
    text = table(*rows)
    with suppress(BreakevenError):
        json.loads(as_json(text, "t.csv"))
        as_markdown(text, "t.csv")


PLAUSIBLE = st.fixed_dictionaries(
    {
        "N": st.integers(0, 10_000),
        "tok_s": st.floats(1e-3, 1e9),
        "baseline_tok_s": st.floats(1e-3, 1e9),
        "setting": st.sampled_from(["", "p-min 0.5", "p-min 0", "code"]),
    }
)
VALUES = st.one_of(
    st.tuples(st.sampled_from(["ratio", "alpha", "bonus_ratio"]), st.floats(0, 1).map(str)),
    st.tuples(st.sampled_from(["len", "len_no_bonus"]), st.floats(0, 10_000).map(str)),
    st.tuples(
        st.sampled_from(["per_position", "conditional"]),
        st.lists(st.floats(0, 1), min_size=1, max_size=5).map(json.dumps),
    ),
    st.tuples(st.just("draftlen"), st.tuples(st.floats(0, 100), st.floats(0, 1)).map(json.dumps)),
    st.tuples(st.just("counts"), st.tuples(st.integers(1, 10**15), st.integers(0, 10**15)).map(json.dumps)),
    st.tuples(
        st.just("predacc"),
        st.integers(2, 10**15)
        .flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p - 2)))
        .map(json.dumps),
    ),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(PLAUSIBLE, VALUES), min_size=1, max_size=5))
def test_any_allowed_numbers_give_an_audit(rows: list[tuple[dict[str, object], tuple[str, str]]]) -> None:
    text = table(*(row | {"acc_kind": kind, "acc_value": value} for row, (kind, value) in rows))
    document = json.loads(as_json(text, "t.csv"))
    for group in document["tables"][0]["groups"]:
        for arm in group["arms"]:
            assert (arm["cost"] is not None) == (arm["status"] == "computed")
            assert arm["status"] != "refused" or arm["refusals"]
            assert arm["cost"] is None or arm["cost"] >= 1
    as_markdown(text, "t.csv")


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_any_text_is_an_error_for_a_person_or_an_audit(text: str) -> None:
    with suppress(BreakevenError):
        as_markdown(text, "t.csv")


@given(st.floats(0.01, 1), st.floats(0.01, 1), st.integers(1, 12))
def test_more_acceptance_at_one_speed_means_a_dearer_step(low: float, high: float, n: int) -> None:
    low, high = sorted((low, high))
    cheap, dear = (only_arm(N=n, acc_value=value, tok_s=80) for value in (low, high))
    assert cheap.cost is not None and dear.cost is not None
    assert cheap.cost <= dear.cost
