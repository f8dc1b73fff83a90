"""The ledger on disk: inputs by people, what the rules write, and `breakeven ledger`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from breakeven.errors import ConfigError
from breakeven.publish.ledger.cli import app
from breakeven.publish.ledger.inputs import hand_written_of, read_inputs

HAND_WRITTEN = """
entries:
  - id: mtp-close
    date: 2026-08-03
    lead: native-mtp
    engine: vllm
    model: 27b
    hardware: MI210
    metric: tg256 @ d0
    factor: 0.838
    verdict: rejected
    reopen:
      - {quantity: b, op: "<", value: 0.89, at_n: 1}
      - a drafter that is cheaper
notes:
  - {id: mtp_ab-mtp1-decode, date: 2026-12-01, text: clocks were steady}
status:
  - {id: mtp_ab-mtp1-decode, date: 2026-12-02, verdict: adopted, reason: in use}
"""
FINDINGS = {
    "experiment": "mtp_ab", "date": "2026-11-30", "engine": "vllm", "model": "27b", "hardware": "MI210",
    "lead": "native-mtp",
    "findings": [
        {"kind": "decode", "configuration": "mtp1", "metric": "tg256 @ d0", "factor": 1.58, "verdict": "recommended"}
    ],
}  # fmt: skip
PUBLIC = (
    '{"_schema": "One record per lead."}\n'
    '{"round": null, "lead": "kv-offload", "engine": "vllm", "model": "n/a", "quant": "n/a", "metric": "n/a", '
    '"factor": null, "verdict": "open", "doc": "docs/1", "note": "\\u00e9 é", "checked": "2026"}\n'
)


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "config" / "ledger"
    config.mkdir(parents=True)
    (config / "hand.yaml").write_text(HAND_WRITTEN, encoding="utf-8")
    (config / "README.md").write_text("about", encoding="utf-8")
    (tmp_path / "findings.json").write_text(json.dumps(FINDINGS), encoding="utf-8")
    (tmp_path / "public.jsonl").write_text(PUBLIC, encoding="utf-8")
    return tmp_path


def rule(*args):
    command = [sys.executable, "-m", "breakeven.publish.ledger", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def write_all():
    assert rule("entry", "findings.json", "reports/ledger/mtp_ab.md", "entries.json").returncode == 0
    made = rule("index", "reports/ledger.md", "reports/ledger.jsonl", "entries.json")
    assert made.returncode == 0, made.stderr
    return made


def ledger(*args):
    return CliRunner().invoke(app, list(args))


def test_the_rules_write_page_index_and_jsonl(project):
    write_all()
    page = (project / "reports/ledger/mtp_ab.md").read_text(encoding="utf-8")
    assert "2026-12-02: recommended became adopted: in use" in page
    assert "This result contradicts and supersedes:\n\n- `mtp-close`" in page
    lines = (project / "reports/ledger.jsonl").read_text(encoding="utf-8").splitlines()
    entries = {entry["id"]: entry for entry in map(json.loads, lines)}
    assert list(entries) == sorted(entries) == ["mtp-close", "mtp_ab-mtp1-decode"]
    assert entries["mtp-close"]["superseded_by"] == "mtp_ab-mtp1-decode"
    assert lines == [
        json.dumps(entries[name], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        for name in entries
    ]
    assert not list(project.rglob("*.part"))


def test_an_unsound_finding_stops_the_rule_with_a_message(project):
    unsound = {**FINDINGS, "findings": [{"kind": "decode", "verdict": "rejected"}]}
    (project / "findings.json").write_text(json.dumps(unsound), encoding="utf-8")
    made = rule("entry", "findings.json", "page.md", "entries.json")
    assert made.returncode == 1
    assert made.stderr.startswith("findings.json: entry mtp_ab-decode, reopen: found [];")
    assert not (project / "page.md").exists()


def test_a_note_on_an_experiment_that_is_not_here_warns_and_is_a_problem_for_check(project):
    made = rule("index", "reports/ledger.md", "reports/ledger.jsonl")
    assert made.returncode == 0
    assert "mtp_ab-mtp1-decode, which is not in the ledger" in made.stderr
    assert "## Points to no entry here" in (project / "reports/ledger.md").read_text(encoding="utf-8")
    checked = ledger("check")
    assert checked.exit_code == 1
    assert "1 entries, 0 flagged, 2 problems" in checked.output


def test_search_show_and_check(project):
    write_all()
    assert "2 entries, 0 flagged, 0 problems" in ledger("check").output
    found = ledger("search", "native", "mtp1")
    assert found.output.startswith("mtp_ab-mtp1-decode, 2026-11-30, adopted, factor 1.58, interval unknown\n")
    assert ledger("search", "absent").exit_code == 1
    assert "Superseded by `mtp_ab-mtp1-decode`" in ledger("show", "mtp-close").output
    missing = ledger("show", "mtp-closed")
    assert missing.exit_code == 1
    assert "such as mtp-close" in missing.output


def test_import_refuses_to_overwrite_and_export_gives_the_rows_back(project):
    assert ledger("import", "public.jsonl").exit_code == 0
    again = ledger("import", "public.jsonl")
    assert again.exit_code == 1
    assert "exists already; nothing was imported" in again.output
    assert ledger("export", "--of", "public.jsonl").stdout == PUBLIC
    assert ledger("export").stdout.startswith(PUBLIC)
    assert ledger("export", "--of", "other.jsonl").exit_code == 1
    assert "open" in ledger("search", "kv-offload").output


def test_an_import_of_rows_that_are_there_already_is_refused(project):
    assert ledger("import", "public.jsonl").exit_code == 0
    (project / "copy.jsonl").write_text(PUBLIC, encoding="utf-8")
    refused = ledger("import", "copy.jsonl")
    assert refused.exit_code == 1
    assert "kv-offload-vllm is in config/ledger/public.jsonl" in refused.output
    assert not (project / "config/ledger/copy.jsonl").exists()


def test_entries_of_an_earlier_run_are_kept_when_a_rerun_contradicts_them(project):
    write_all()
    (project / "entries.json").rename(project / "config/ledger/mtp_ab-2026-11-30.json")
    findings = [{**FINDINGS["findings"][0], "verdict": "rejected", "reopen": ["b falls"], "factor": 0.8}]
    later = {**FINDINGS, "date": "2026-12-24", "findings": findings}
    (project / "findings.json").write_text(json.dumps(later), encoding="utf-8")
    write_all()
    shown = ledger("show", "mtp_ab-mtp1-decode").output
    assert "Superseded by `mtp_ab-mtp1-decode-2026-12-24`" in shown
    assert ledger("check").exit_code == 0


class TestHandWritten:
    def test_dates_are_texts_and_reopen_conditions_get_words(self):
        [entry], notes = hand_written_of(HAND_WRITTEN, "x.yaml")
        assert (entry.date, entry.source) == ("2026-08-03", "hand-written")
        assert [each.words for each in entry.reopen] == ["b < 0.89 at N = 1", "a drafter that is cheaper"]
        assert (notes.notes[0].remark.date, notes.changes[0].date) == ("2026-12-01", "2026-12-02")

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (
                "entries: [{id: a, lead: l, verdict: noise, factr: 1}]",
                "entry a, top level: found unknown key factr",
            ),
            (
                "entries: [{id: a, lead: l, verdict: noise, engine_version: 0.10}]",
                "entry a, engine_version: found 0.1",
            ),
            ("entries: [{id: a, lead: l, verdict: noise, factor: .nan}]", "entry a, factor: found nan"),
            (
                "entries: [{id: a, lead: l, verdict: won}]",
                'entry a, verdict: found "won"; allowed: adopted, deployed',
            ),
            ("entries: [{id: a, lead: l, verdict: rejected}]", "entry a, reopen: found nothing"),
            (
                "entries: [{id: a, lead: l, verdict: noise, source: measured}]",
                "entry a, source: found measured",
            ),
            ("entries: [{lead: l, verdict: noise}]", "entries.0.id: found nothing"),
            ("entries: [{id: A b, lead: l, verdict: noise}]", 'id: found "A b"'),
            ("notes: [{id: a}]", "entry a, notes.0.text: found nothing"),
            (
                "status: [{id: a, date: tomorrow, verdict: noise, reason: r}]",
                'status.0.date: found "tomorrow"',
            ),
            ("entry: []", "found unknown key entry"),
            ("- a", "allowed: object"),
            ("entries: [", "not YAML"),
            ("notes: []\nnotes: []", "stands twice"),
        ],
    )
    def test_a_fault_names_file_entry_key_value_and_what_is_allowed(self, text, said):
        with pytest.raises(ConfigError) as error:
            hand_written_of(text, "x.yaml")
        assert str(error.value).startswith("x.yaml")
        assert said in str(error.value)

    def test_all_files_are_read_before_faults_are_told(self, project):
        (project / "config/ledger/a.yaml").write_text("entry: []", encoding="utf-8")
        (project / "config/ledger/b.txt").write_text("", encoding="utf-8")
        (project / "config/ledger/c.jsonl").write_bytes(b"\xff")
        with pytest.raises(ConfigError, match=r"a\.yaml(?s:.)*b\.txt(?s:.)*c\.jsonl"):
            read_inputs(project / "config/ledger")

    def test_an_absent_folder_and_an_empty_file_hold_nothing(self, tmp_path):
        assert read_inputs(tmp_path / "none").hand_written == ()
        assert hand_written_of("# nothing yet\n", "x.yaml") == ([], read_inputs(tmp_path / "none").notes)


def test_the_example_of_the_readme_is_sound():
    readme = Path(__file__).parents[2] / "config" / "ledger" / "README.md"
    example = readme.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    [entry], notes = hand_written_of(example, "README.md")
    assert entry.verdict == "rejected"
    assert len(notes.notes) == len(notes.changes) == 1
