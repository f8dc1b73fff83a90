"""What is asked of a server in one launch and in which order, the same for every arm (Method 1.2, 4).

A prompt is a prefix of `depth` tokens and the new tokens. Each begins with a salt: the prefix with one that
holds for the launch, depth and class, so that its requests share the cached prefix; the new tokens with one
of their own, so that nothing but the prefix can come from a cache. Behind the salt, rounds have equal texts.
"""

import hashlib
import json
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from breakeven.errors import ConfigError
from breakeven.measure import corpus
from breakeven.measure.prompt_files import Chat, read_chats, read_texts

Kind = Literal["warmup", "depth", "pp", "tg"]

PROMPTS = 12  # a class: clusters for the intervals on acceptance (Method 4)
SALT_CHARACTERS = 12
SALT_ALPHABET = string.ascii_letters + string.digits
# A drafter looks past the last token asked for, and engines shorten its drafts when the context ends there.
CONTEXT_MARGIN_TOKENS = 32


@dataclass(frozen=True)
class PromptClass:
    """Prompts of one kind. `bodies` are a person's own prompts; without them the text is generated (`text`).

    `text` also names the generated text of the depth prefix. `private`: text and token ids stay out of tables
    and reports, only hashes are kept. A `schema` (JSON schema for guided output) ends the answer itself, so
    `ignore_eos` is off with one.
    """

    name: str
    text: str
    prompts: int
    bodies: tuple[str | Chat, ...] = field(default=(), repr=False)
    cut_to_pp: bool = True
    sampling: Mapping[str, Any] = field(default_factory=lambda: {"temperature": 0.0})
    schema: Mapping[str, Any] | None = None
    ignore_eos: bool = True
    private: bool = False


@dataclass(frozen=True)
class Workload:
    """The `workload:` section of an experiment, its prompt files read."""

    pp: int
    tg: int
    depths: tuple[int, ...]
    reps: int
    pp_prompts: int
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

    Order and texts depend on workload, seed and round only, so they are equal for every arm. `nonce` is for
    servers that outlive a launch: another nonce, other salts.
    """
    requests: list[Request] = []
    for depth in workload.depths:
        for index, prompt_class in enumerate(workload.classes):
            cell = _Cell(workload, seed, round, nonce, depth, prompt_class)
            requests.extend(cell.requests(first=len(requests), warmup=workload.warmup if index == 0 else 0))
    return tuple(requests)


@dataclass(frozen=True)
class _Cell:
    workload: Workload
    seed: int
    round: int
    nonce: str
    depth: int
    prompt_class: PromptClass

    def requests(self, first: int, warmup: int) -> Iterator[Request]:
        work, prompts = self.workload, self.prompt_class.prompts
        order: list[tuple[Kind, int, int, int]] = []
        if self.depth:
            order.append(("depth", 0, 0, 1))
        order += [("warmup", i % prompts, i // prompts, work.tg) for i in range(warmup)]
        order += [("pp", p, rep, 1) for rep in range(work.reps) for p in range(min(work.pp_prompts, prompts))]
        order += [("tg", p, rep, work.tg) for rep in range(work.reps) for p in range(prompts)]
        for seq, (kind, prompt, rep, asked) in enumerate(order, first):
            new = None if kind == "depth" else self._new(kind, prompt, rep)
            yield Request(seq, kind, self.depth, self.prompt_class, prompt, rep, asked, self._prefix(), new)

    def _prefix(self) -> Segment | None:
        if not self.depth:
            return None
        body = f"{self.seed}/prefix"
        return Segment(self._salt("prefix"), self.prompt_class.text, body, self.depth)

    def _new(self, kind: Kind, prompt: int, rep: int) -> Segment:
        salt = self._salt(kind, prompt, rep)
        tokens = self.workload.pp if self.prompt_class.cut_to_pp else None
        if self.prompt_class.bodies:
            return Segment(salt, None, self.prompt_class.bodies[prompt], tokens)
        return Segment(salt, self.prompt_class.text, f"{self.seed}/{prompt}", tokens)

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


KEYS = {"pp", "tg", "depths", "reps", "pp_prompts", "warmup", "prompts"}
CLASS_KEYS = {"count", "text", "files", "chat", "cut_to_pp", "sampling", "schema", "ignore_eos", "private"}


def read_workload(section: Mapping[str, Any], folder: Path = Path()) -> Workload:
    """The experiment's `workload:` section with its prompt files, whose paths count from `folder`.

    Raises ConfigError naming key, value and what is allowed.
    """
    _known(section, KEYS, "workload")
    prompts = section.get("prompts", {"natural": {}})
    if not isinstance(prompts, Mapping) or not prompts:
        raise ConfigError(
            f"workload.prompts: found {prompts!r}; wanted a mapping from class name to its settings"
        )
    depths = section.get("depths", [0])
    if not isinstance(depths, Sequence) or not depths or len(set(depths)) != len(depths):
        raise ConfigError(f"workload.depths: found {depths!r}; wanted a list of distinct depths in tokens")
    return Workload(
        pp=_count(section, "pp", 1, None),
        tg=_count(section, "tg", 2, None),
        depths=tuple(_count({"depths": depth}, "depths", 0, None) for depth in depths),
        reps=_count(section, "reps", 1, 3),
        pp_prompts=_count(section, "pp_prompts", 1, 1),
        warmup=_count(section, "warmup", 0, 2),
        classes=tuple(_read_class(name, settings or {}, folder) for name, settings in prompts.items()),
    )


def _read_class(name: str, settings: Mapping[str, Any], folder: Path) -> PromptClass:
    where = f"workload.prompts.{name}"
    _known(settings, CLASS_KEYS, where)
    if "files" in settings and "chat" in settings:
        raise ConfigError(f"{where}: found both `files` and `chat`; make two classes of them")
    text = settings.get("text", name if name in corpus.CLASSES or not _own(settings) else "natural")
    if text not in corpus.CLASSES:
        raise ConfigError(
            f"{where}: no generated text is called {text!r}; wanted `files:`, `chat:`, or `text:` as one of "
            + ", ".join(corpus.CLASSES)
        )
    bodies: tuple[str | Chat, ...] = ()
    if "files" in settings:
        bodies = read_texts(folder / settings["files"])
    elif "chat" in settings:
        bodies = read_chats(folder / settings["chat"])
    prompts = _count(settings, "count", 1, len(bodies) or PROMPTS, where)
    if bodies and prompts > len(bodies):
        raise ConfigError(f"{where}.count: {prompts} prompts wanted, the files hold {len(bodies)}")
    cut = settings.get("cut_to_pp", not bodies)
    if cut is not True and (not bodies or cut is not False):
        raise ConfigError(
            f"{where}.cut_to_pp: found {cut!r}; wanted true, or false for a class with own prompts"
        )
    if cut and "chat" in settings:
        raise ConfigError(f"{where}.cut_to_pp: a chat would lose its last message; leave the key out")
    schema = settings.get("schema")
    return PromptClass(
        name=name,
        text=text,
        prompts=prompts,
        bodies=bodies[:prompts],
        cut_to_pp=cut,
        sampling={"temperature": 0.0, **settings.get("sampling", {})},
        schema=schema,
        ignore_eos=settings.get("ignore_eos", schema is None),
        private=settings.get("private", False),
    )


def _own(settings: Mapping[str, Any]) -> bool:
    return "files" in settings or "chat" in settings


def _known(section: Mapping[str, Any], keys: set[str], where: str) -> None:
    if not isinstance(section, Mapping):
        raise ConfigError(
            f"{where}: found {section!r}; wanted a mapping with keys of {', '.join(sorted(keys))}"
        )
    if unknown := sorted(set(section) - keys):
        raise ConfigError(f"{where}: unknown key {', '.join(unknown)}; allowed are {', '.join(sorted(keys))}")


def _count(
    section: Mapping[str, Any], key: str, least: int, default: int | None, where: str = "workload"
) -> int:
    value = section.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{where}.{key}: found {value!r}; wanted a whole number of at least {least}")
    return value
