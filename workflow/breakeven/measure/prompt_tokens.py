"""From planned text to token ids, by the tokenizer of the server that is measured."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from breakeven.errors import BreakevenError
from breakeven.measure.prompt_files import Chat
from breakeven.measure.workload import Request, Segment

Tokenize = Callable[[str], Sequence[int]]
RenderChat = Callable[[list[dict[str, object]]], Sequence[int]]

# Text tokenised at once, per missing token: most tokenizers take 3 to 5 characters a token, so two calls do.
CHARACTERS_PER_TOKEN = 5


@dataclass(frozen=True)
class PromptTokens:
    """Token ids of one request: `depth` of them are the prefix, the others are new."""

    ids: tuple[int, ...]
    depth: int

    @property
    def new_tokens(self) -> int:
        """Prompt tokens that should be computed by this request."""
        return len(self.ids) - self.depth


def exact_tokens(tokenize: Tokenize, pieces: Iterable[str], length: int) -> list[int]:
    """Exactly `length` token ids of the pieces' text in order, cut at the end.

    `tokenize` maps text to ids and adds no special tokens. Raises BreakevenError when the text runs out
    first, or when the tokenizer gives no ids for text.
    """
    supply = iter(pieces)
    ids: list[int] = []
    while len(ids) < length:
        text = _take(supply, CHARACTERS_PER_TOKEN * (length - len(ids)))
        if not text:
            raise BreakevenError(
                f"the text ends after {len(ids)} tokens, {length} are wanted; give more text or ask for less"
            )
        ids.extend(_ids(tokenize, text))
    return ids[:length]


class PromptTokenizer:
    """Turns the requests of one launch into token ids; the prefix of a depth is tokenised once.

    `tokenize` and `render_chat` are the server's: text to ids without special tokens, and chat messages to
    ids through its template, special tokens parsed. `bos` are the ids that every prompt of the model starts
    with; they count as tokens of the depth, at depth 0 as new tokens.
    """

    def __init__(
        self, tokenize: Tokenize, render_chat: RenderChat | None = None, bos: Sequence[int] = ()
    ) -> None:
        self._tokenize = tokenize
        self._render_chat = render_chat
        self._bos = list(bos)
        self._prefix: tuple[Segment, list[int]] | None = None

    def tokens(self, request: Request) -> PromptTokens:
        """Ids of one request. Raises BreakevenError naming the request when they cannot be made."""
        try:
            prefix = self._prefix_ids(request.prefix) if request.prefix else []
            new = self._new_ids(request.new, [] if prefix else self._bos) if request.new else []
        except BreakevenError as error:
            raise BreakevenError(f"{request.name}: {error}") from error
        return PromptTokens(tuple(prefix + new), len(prefix))

    def _prefix_ids(self, segment: Segment) -> list[int]:
        if self._prefix is None or self._prefix[0] != segment:
            assert segment.tokens is not None, "a prefix has a length"
            body = exact_tokens(self._tokenize, segment.pieces(), segment.tokens - len(self._bos))
            self._prefix = (segment, self._bos + body)
        return self._prefix[1]

    def _new_ids(self, segment: Segment, bos: list[int]) -> list[int]:
        if segment.tokens is not None:
            return bos + exact_tokens(self._tokenize, segment.pieces(), segment.tokens - len(bos))
        ids = bos + _ids(self._tokenize, "".join(segment.pieces()))
        return ids + self._chat_ids(segment.body) if isinstance(segment.body, Chat) else ids

    def _chat_ids(self, chat: Chat) -> list[int]:
        if self._render_chat is None:
            raise BreakevenError(
                "a chat prompt needs the server's chat template, which this engine does not offer"
            )
        ids = list(self._render_chat(chat.messages))
        if not ids:
            raise BreakevenError("the server's chat template gave no tokens")
        return ids[len(self._bos) :] if ids[: len(self._bos)] == self._bos else ids


def _take(supply: Iterable[str], characters: int) -> str:
    taken: list[str] = []
    for piece in supply:
        taken.append(piece)
        characters -= len(piece)
        if characters <= 0:
            break
    return "".join(taken)


def _ids(tokenize: Tokenize, text: str) -> list[int]:
    ids = list(tokenize(text))
    if not ids:
        raise BreakevenError(f"the tokenizer returned no ids for {len(text)} characters of text")
    return ids
