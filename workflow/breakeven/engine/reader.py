"""Read a server's log into facts: one pass, bounded memory, no input that makes it fail."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from breakeven.engine.book import LONGEST_SOURCE, Book
from breakeven.engine.derived import DERIVED_FROM, derived, judged
from breakeven.engine.facts import Fact, Facts, Finding
from breakeven.engine.fatal import FATAL_WORDS, STOP_WORDS, fatal_entry, is_stop
from breakeven.engine.logtext import Line, read_lines
from breakeven.engine.patterns import Pattern, by_word, llamacpp, named, sglang, vllm
from breakeven.engine.speculation import ORIGINS, contradictions, speculation
from breakeven.engine.statistics import statistics_of
from breakeven.engine.statistics_sglang import SglangStatistics
from breakeven.engine.statistics_vllm import VllmStatistics
from breakeven.engine.structure import Structure
from breakeven.errors import BreakevenError

PATTERNS: Mapping[str, tuple[Pattern, ...]] = {
    "vllm": vllm.PATTERNS,
    "llamacpp": llamacpp.PATTERNS,
    "sglang": sglang.PATTERNS,
}
_TABLES = {engine: by_word(patterns) for engine, patterns in PATTERNS.items()}
FLAGS = frozenset(
    {"cold_first_request", "dead_positions", "prompt_cached", "counter_reset", "decode_without_graphs"}
)
"""Findings that void a measurement, as opposed to what the engine itself warns of."""
_GENERIC = frozenset({"falls_back", "kernel_unsupported_on_device"})
_SCOPED = frozenset(
    {"model", "arch", "quant", "model_type", "n_layer", "n_expert", "hybrid", "recurrent_mib", "kv_unified"}
    | {"n_ctx", "n_ctx_seq", "n_ctx_train", "n_batch", "n_ubatch", "flash_attn", "flash_attn_enabled"}
    | {
        "kv_mib",
        "kv_cells",
        "kv_size",
        "kv_k_mib",
        "kv_v_mib",
        "kv_type_k",
        "kv_type_v",
        "graph_nodes",
        "graph_splits",
    }
)
"""Facts of llama.cpp that a drafter's model and context state again."""
DECIDED = 50
MOST_WORD_SETS = 10_000
MOST_PROCESSES = 1_000
"""Matched lines after which an engine that leads by far is the one."""


def read_facts(source: Path | bytes | Iterable[bytes], engine: str | None = None) -> Facts:
    """Read a log (a file, its bytes, or a stream of pieces) into facts.

    `engine` is vllm, llamacpp or sglang, recognised from the lines when None. No content makes this raise; a path
    that cannot be read raises OSError, an unknown engine BreakevenError.
    """
    if engine is not None and engine not in PATTERNS:
        raise BreakevenError(f"engine {engine!r} is not known; wanted one of {', '.join(PATTERNS)}")
    readers = [_Reader(name) for name in ([engine] if engine else PATTERNS)]
    watched = _words(readers)
    for line in read_lines(source, watched):
        for reader in readers:
            reader.feed(line)
        if len(readers) > 1 and len(leading := _leading(readers)) == 1:
            readers = leading
            watched &= _words(readers)
    best = max(readers, key=lambda reader: reader.score)
    return best.settle() if engine or best.score else Facts()


def _words(readers: list["_Reader"]) -> set[bytes]:
    return set(FATAL_WORDS.union(STOP_WORDS, *(_TABLES[reader.engine] for reader in readers)))


def _leading(readers: list["_Reader"]) -> list["_Reader"]:
    ordered = sorted(readers, key=lambda reader: reader.score, reverse=True)
    far = ordered[0].score >= DECIDED and ordered[0].score > 10 * ordered[1].score
    return ordered[:1] if far else readers


class _Reader:
    """One engine's view of the log."""

    def __init__(self, engine: str) -> None:
        self.engine, self.table = engine, _TABLES[engine]
        self.words = frozenset(self.table)
        self.book, self.structure, self.statistics = Book(), Structure(), statistics_of(engine)
        self.consumed: dict[Pattern, int] = {}
        self.called: dict[frozenset[bytes], tuple[Pattern, ...]] = {}
        self.scope = ""
        self.stopping = False
        self.score = 0.0
        self.processes: dict[str, Line] = {}
        self.last = Line(1, "")
        self.last_statistics: Line | None = None

    def feed(self, line: Line) -> None:
        """Try the patterns that the line's words call for."""
        self.last = line
        if line.rank is not None and len(self.processes) < MOST_PROCESSES:
            self.processes.setdefault(line.rank, line)
        for pattern in self._called_for(frozenset(line.words)):
            for text, values in self._readings(pattern, line):
                self._take(pattern, values, line if text is line.text else _joined(line, text))
        if not self.stopping:
            self.stopping = not line.words.isdisjoint(STOP_WORDS) and is_stop(line.text)
            if not self.stopping and not line.words.isdisjoint(FATAL_WORDS):
                self._death(line)

    def _called_for(self, words: frozenset[bytes]) -> tuple[Pattern, ...]:
        """Return the patterns of these words in the table's order."""
        known = self.called.get(words)
        if known is None:
            places = sorted({found for word in words & self.words for found in self.table[word]})
            known = tuple(pattern for _, pattern in places)
            if len(self.called) < MOST_WORD_SETS:
                self.called[words] = known
        return known

    def _death(self, line: Line) -> None:
        entry = fatal_entry(self.engine, line.text, line.words)
        if entry is not None:
            self.score += 1.0 if len(entry[0].engines) == 1 else 0.1
            self.book.note("error", entry[1], line)
            self.book.find("fatal", "error", entry[1], line.number)

    def _readings(self, pattern: Pattern, line: Line) -> list[tuple[str, dict[str, Any]]]:
        """Read a line, or, when it says nothing or breaks off, the line joined with those it was wrapped into."""
        if line.number <= self.consumed.get(pattern, 0):
            return []
        found = [(line.text, values) for values in pattern.read(line.text)]
        if pattern.repeats or (found and not _breaks_off(pattern, line.text, found[0][1])):
            return found
        for text, rests in line.unwrapped:
            joined = pattern.read(text, len(line.text.rstrip()))
            alone = max((len(values) for rest in rests for values in pattern.read(rest)), default=0)
            if not joined or (not found and len(joined[0]) <= alone):
                continue
            gained = len(joined[0]) - len(found[0][1]) if found else 1
            if gained > 0 or (gained == 0 and _open_ended(found[0][0]) and joined[0] != found[0][1]):
                found = [(text, joined[0])]
                self.consumed[pattern] = line.number + len(rests)
        return found

    def _take(self, pattern: Pattern, values: dict[str, Any], line: Line) -> None:
        self.score += 0.1 if pattern.kind in _GENERIC else 1.0
        if pattern.opens is not None:
            self.scope = pattern.opens
        if "version" in values or "build" in values:
            self.stopping = False
        if pattern.finding is not None:
            severity, message = pattern.finding
            told = message.format_map(_Quoted(values))
            self.book.find(pattern.kind or "", severity, told[:500], line.number)
        if pattern.record is not None:
            if not self.structure.take(pattern.record, values, line, self.scope):
                self.statistics.take(pattern.record, dict(values), line)
                self.last_statistics = line
            return
        for name, value in values.items():
            if name in _SCOPED and self.engine == "llamacpp":
                if self.scope == "-" or (name == "model" and self.scope):
                    continue
                name = self.scope + name
            self.book.note(name, value, line)

    def settle(self) -> Facts:
        """Merge everything that was said into facts and findings."""
        facts = self.book.facts()
        failed = "error" in facts
        for name, told in self.structure.facts("graphs_finished" in facts, failed):
            if name not in facts:
                facts[name] = _fact(name, told.value, told.line, told.complete)
        known: dict[str, Any] = {name: fact.value for name, fact in facts.items()}
        if isinstance(self.statistics, SglangStatistics):
            self.statistics.asked_drafts = known.get("num_draft_tokens")
        if isinstance(self.statistics, VllmStatistics) and self.statistics.busy_windows:
            known["busy_windows"] = self.statistics.busy_windows
        statistics = {n: v for n, v in self.statistics.facts().items() if n not in known}
        drafted = self.statistics.drafted()
        known |= statistics
        facts |= {name: self._counted(name, value, facts) for name, value in statistics.items()}
        known |= (rules := derived(self.engine, known))
        for name, value in rules.items():
            origin = next((facts[source] for source in DERIVED_FROM.get(name, ()) if source in facts), None)
            facts[name] = _follows(name, value, origin)
        added = speculation(self.engine, known, drafted)
        known |= added
        origin = next((facts[name] for name in ORIGINS if name in facts), None)
        facts |= {name: _follows(name, value, facts.get(name) or origin) for name, value in added.items()}
        findings = [
            *self.book.findings(),
            *judged(known),
            *self.statistics.findings(),
            *contradictions(self.engine, known, drafted),
        ]
        facts |= self._summary(facts, findings)
        for hidden in (
            "spec_resolved",
            "graphs_finished",
            "spec_none",
            "graph_plan",
            "v0_args",
            "server_args",
        ):
            facts.pop(hidden, None)
        return Facts(self.engine, facts, tuple(findings), self.statistics.summary())

    def _counted(self, name: str, value: Any, facts: Mapping[str, Fact]) -> Fact:
        """Return a fact that adds lines up: it quotes the last statistics line and has no line of its own."""
        if name in facts or self.last_statistics is None:
            return _follows(name, value, facts.get(name))
        last = self.last_statistics
        return Fact(name, value, named(name).unit, last.text.strip()[:LONGEST_SOURCE], None, last.rank)

    def _summary(self, facts: Mapping[str, Fact], findings: list[Finding]) -> dict[str, Fact]:
        found: dict[str, Fact] = {}
        names = list(
            dict.fromkeys(rank.split(" ")[0] if self.engine == "vllm" else rank for rank in self.processes)
        )
        if names:
            line = next(iter(self.processes.values()))
            found["process"] = _fact("process", names[0] if len(names) == 1 else names, line)
            ranks = list(dict.fromkeys(rank for name in self.processes if (rank := _rank(name))))
            if ranks:
                found["rank"] = _fact("rank", ranks[0] if len(ranks) == 1 else ranks, line)
        warnings = list(
            dict.fromkeys(f.kind for f in findings if f.severity == "warn" and f.kind not in FLAGS)
        )
        flags = list(dict.fromkeys(f.kind for f in findings if f.kind in FLAGS))
        for name, kinds in (("warning", warnings), ("flag", flags)):
            if kinds:
                found[name] = _fact(name, kinds[0] if len(kinds) == 1 else kinds, self.last)
        return found


class _Quoted(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


def _fact(name: str, value: Any, line: Line, complete: bool = True) -> Fact:
    return Fact(
        name, value, named(name).unit, line.text.strip()[:LONGEST_SOURCE], line.number, line.rank, complete
    )


def _follows(name: str, value: Any, origin: Fact | None) -> Fact:
    """Return a fact that follows from another one, whose line it names."""
    where = origin or Fact(name, value)
    return Fact(name, value, named(name).unit, where.source_line, where.line_number, where.rank)


def _joined(line: Line, text: str) -> Line:
    return Line(line.number, text, line.rank, line.words, line.following)


def _breaks_off(pattern: Pattern, text: str, values: Mapping[str, Any]) -> bool:
    return _open_ended(text) or any(name not in values for name in pattern.fields)


def _open_ended(text: str) -> bool:
    """Whether a record seems to go on: it ends in a comma or inside a number."""
    tail = text.rstrip()
    return tail.endswith(",") or (tail[-1:].isdigit() and "acceptance rate: " in tail)


def _rank(process: str) -> str | None:
    """Return the parallel rank in a process name: TP0 of Worker_TP0, PP0_TP0 of VllmWorker PP0_TP0."""
    parts = [
        part
        for part in process.replace("_", " ").split()
        if part[:2] in ("TP", "PP", "DP", "EP") and part[2:].isdigit()
    ]
    return "_".join(part for part in parts) or None
