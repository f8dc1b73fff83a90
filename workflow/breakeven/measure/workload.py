"""What is asked of a server in one launch and in which order, the same for every arm (Method 1.2, 4).

A prompt is a prefix of `depth` tokens and the new tokens. Each begins with a salt: the prefix with one that
holds for the launch, depth and class, so that its requests share the cached prefix; the new tokens with one
of their own, so that nothing but the prefix can come from a cache. Behind the salt, rounds have equal texts.
"""

import hashlib
import json
import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from breakeven.errors import ConfigError
from breakeven.measure import corpus
from breakeven.measure.prompt_files import Chat, read_prompts

Kind = Literal["warmup", "depth", "pp", "tg"]

PROMPTS = 12  # a class: clusters for the intervals on acceptance (Method 4)
SALT_CHARACTERS = 12
SALT_ALPHABET = string.ascii_letters + string.digits
# A drafter looks past the last token asked for, and engines shorten its drafts when the context ends there.
CONTEXT_MARGIN_TOKENS = 32


@dataclass(frozen=True)
class PromptClass:
    """Prompts of one kind: `bodies` are a person's own and taken whole; otherwise `text` names the generator.

    `text` also fills the depth prefix. `schema` is a JSON schema for guided output. `private`: text and token
    ids stay out of tables and reports, only hashes are kept.
    """

    name: str
    text: str
    count: int
    bodies: tuple[str | Chat, ...] = field(repr=False)
    sampling: Mapping[str, Any]
    schema: Mapping[str, Any] | None
    private: bool

    @property
    def ignore_eos(self) -> bool:
        """Whether decoding goes on past the natural end; guided output ends where its schema does."""
        return self.schema is None


@dataclass(frozen=True)
class Workload:
    """The `workload:` section of an experiment, its prompt files read."""

    pp: int
    tg: int
    depths: tuple[int, ...]
    reps: int
    warmup: int
    classes: tuple[PromptClass, ...]


@dataclass(frozen=True)
class Segment:
    """Salted text with the number of tokens it must have; `tokens` None: the whole text, however long.

    `body` is the seed of generated text when `text` names a generator, otherwise a person's own prompt.
    """

    salt: str
    text: str | None
    body: str | Chat = field(repr=False)
    tokens: int | None

    def pieces(self) -> Iterator[str]:
        """The salt, then the text, in pieces; a chat's text is made by the server's template instead."""
        yield self.salt + "\n"
        if self.text is not None:
            assert isinstance(self.body, str)
            yield from corpus.pieces(self.text, self.body)
        elif isinstance(self.body, str):
            yield self.body


@dataclass(frozen=True)
class Request:
    """One planned request: the prompt is prefix + new; `seq` is its place in the launch, from 0."""

    seq: int
    kind: Kind
    depth: int
    prompt_class: PromptClass
    prompt: int
    rep: int
    asked_tokens: int
    prefix: Segment | None
    new: Segment | None

    @property
    def name(self) -> str:
        """The request in words, for messages."""
        return (
            f"{self.kind} request {self.seq} (depth {self.depth}, class {self.prompt_class.name}, "
            f"prompt {self.prompt}, rep {self.rep})"
        )

    @property
    def planned_new_tokens(self) -> int | None:
        """Prompt tokens behind the prefix; None when the prompt is taken whole and not tokenised yet."""
        return 0 if self.new is None else self.new.tokens


def plan(workload: Workload, seed: int, round: int, nonce: str = "") -> tuple[Request, ...]:
    """All requests of one launch in order: depth by depth, class by class; prefix, warm-up, pp, tg.

    A cell is warmed up by `warmup` requests of each measured shape: a depth, sampler or schema that is new to
    the server can make it compile. Order and texts depend on workload, seed and round only, so they are equal
    for every arm. `nonce` is for servers that outlive a launch: another nonce, other salts.
    """
    requests: list[Request] = []
    for depth in workload.depths:
        for prompt_class in workload.classes:
            cell = _Cell(workload, seed, round, nonce, depth, prompt_class)
            requests.extend(cell.requests(first=len(requests)))
    return tuple(requests)


@dataclass(frozen=True)
class _Cell:
    workload: Workload
    seed: int
    round: int
    nonce: str
    depth: int
    prompt_class: PromptClass

    def requests(self, first: int) -> Iterator[Request]:
        work, count = self.workload, self.prompt_class.count
        measured = [(prompt, rep) for rep in range(work.reps) for prompt in range(count)]
        order: list[tuple[Kind, int, int, int]] = []
        if self.depth:
            order.append(("depth", 0, 0, 1))
        order += [
            ("warmup", i % count, i // count, asked) for asked in (1, work.tg) for i in range(work.warmup)
        ]
        order += [("pp", prompt, rep, 1) for prompt, rep in measured]
        order += [("tg", prompt, rep, work.tg) for prompt, rep in measured]
        for seq, (kind, prompt, rep, asked) in enumerate(order, first):
            new = None if kind == "depth" else self._new(prompt, self._salt(kind, asked, prompt, rep))
            yield Request(seq, kind, self.depth, self.prompt_class, prompt, rep, asked, self._prefix(), new)

    def _prefix(self) -> Segment | None:
        if not self.depth:
            return None
        return Segment(self._salt("prefix"), self.prompt_class.text, f"{self.seed}/prefix", self.depth)

    def _new(self, prompt: int, salt: str) -> Segment:
        if self.prompt_class.bodies:
            return Segment(salt, None, self.prompt_class.bodies[prompt], None)
        return Segment(salt, self.prompt_class.text, f"{self.seed}/{prompt}", self.workload.pp)

    def _salt(self, *of: str | int) -> str:
        return salt(self.seed, self.round, self.nonce, self.depth, self.prompt_class.name, *of)


def salt(*of: str | int) -> str:
    """Letters and digits that depend on every part: 71 bits, 47 of them in the first 8 characters."""
    number = int.from_bytes(hashlib.sha256(json.dumps(of).encode()).digest())
    characters = []
    for _ in range(SALT_CHARACTERS):
        number, index = divmod(number, len(SALT_ALPHABET))
        characters.append(SALT_ALPHABET[index])
    return "".join(characters)


def check_context(requests: Iterable[Request], n_ctx: int, margin: int = CONTEXT_MARGIN_TOKENS) -> None:
    """Raise ConfigError at the first request that cannot fit into the server's context of n_ctx tokens.

    Prompts that are taken whole are left out; check them with `check_fits` once they are tokenised.
    """
    for request in requests:
        if request.planned_new_tokens is not None:
            check_fits(request, request.planned_new_tokens, n_ctx, margin)


def check_fits(request: Request, new_tokens: int, n_ctx: int, margin: int = CONTEXT_MARGIN_TOKENS) -> None:
    """Raise ConfigError naming cell and numbers when depth + new + asked + margin tokens exceed n_ctx."""
    need = request.depth + new_tokens + request.asked_tokens + margin
    if need > n_ctx:
        raise ConfigError(
            f"{request.name}: depth {request.depth} + new {new_tokens} + completion {request.asked_tokens} + "
            f"margin {margin} = {need} tokens, the server's context holds {n_ctx}; raise its context length, "
            "or lower depths, pp or tg"
        )


KEYS = {"pp", "tg", "depths", "reps", "warmup", "prompts"}
CLASS_KEYS = {"count", "files", "sampling", "schema", "private"}


def read_workload(section: Mapping[str, Any], folder: Path = Path()) -> Workload:
    """The experiment's `workload:` section with its prompt files, whose paths count from `folder`.

    Raises ConfigError naming key, value and what is allowed.
    """
    _known(section, KEYS, "workload")
    prompts = section.get("prompts", {"natural": {"count": 1}})
    if not isinstance(prompts, Mapping) or not prompts:
        raise ConfigError(f"workload.prompts: found {prompts!r}; wanted a mapping, class name to settings")
    depths = section.get("depths")
    if not isinstance(depths, list) or not depths or len(set(depths)) != len(depths):
        raise ConfigError(f"workload.depths: found {depths!r}; wanted a list of distinct depths in tokens")
    return Workload(
        pp=_count("workload.pp", section.get("pp"), 1),
        tg=_count("workload.tg", section.get("tg"), 2),
        depths=tuple(_count("workload.depths", depth, 0) for depth in depths),
        reps=_count("workload.reps", section.get("reps", 3), 1),
        warmup=_count("workload.warmup", section.get("warmup", 2), 1),
        classes=tuple(_read_class(name, settings or {}, folder) for name, settings in prompts.items()),
    )


def _read_class(name: str, settings: Mapping[str, Any], folder: Path) -> PromptClass:
    where = f"workload.prompts.{name}"
    _known(settings, CLASS_KEYS, where)
    if "files" not in settings and name not in corpus.CLASSES:
        raise ConfigError(
            f"{where}: no built-in text has this name; wanted `files:`, or one of {', '.join(corpus.CLASSES)}"
        )
    bodies = read_prompts([folder / file for file in settings.get("files", [])])
    count = _count(f"{where}.count", settings.get("count", len(bodies) or PROMPTS), 1)
    if bodies and count > len(bodies):
        raise ConfigError(f"{where}.count: {count} prompts are wanted, the files hold {len(bodies)}")
    return PromptClass(
        name=name,
        text=name if name in corpus.CLASSES else "natural",
        count=count,
        bodies=bodies[:count],
        sampling=settings.get("sampling", {"temperature": 0.0}),
        schema=settings.get("schema"),
        private=settings.get("private", False),
    )


def _known(section: Mapping[str, Any], keys: set[str], where: str) -> None:
    if not isinstance(section, Mapping):
        raise ConfigError(
            f"{where}: found {section!r}; wanted a mapping with keys of {', '.join(sorted(keys))}"
        )
    if unknown := sorted(set(section) - keys):
        raise ConfigError(f"{where}: unknown key {', '.join(unknown)}; allowed are {', '.join(sorted(keys))}")


def _count(where: str, value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{where}: found {value!r}; wanted a whole number of at least {least}")
    return value
