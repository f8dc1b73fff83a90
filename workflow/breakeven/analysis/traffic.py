"""Bytes that one decode step reads, and what a measured time says about bandwidth (Method 7).

A step of N drafts reads the target once and the draft N times. Embeddings are looked up, not read (unless
they are the output head too); vision towers idle in decode; draft blocks (mtp, nextn) belong to the draft.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from breakeven.analysis.cost import union_band
from breakeven.analysis.headers import Tensor
from breakeven.errors import BreakevenError

EXPLAIN_RATIO = 3.0
"""b measured over b from bytes, above this or below its inverse: a person should explain it."""
BANDWIDTH_BOUND = 1 / 3
"""Share of the bandwidth that the baseline must reach for bytes to say anything about time."""

VISION = re.compile(
    r"^(model\.)?(visual|vision_\w+|vit|audio_\w+|multi_modal_projector|mm_projector)\.|^(v|a|mm)\."
)
DRAFT = re.compile(r"(^|\.)(mtp\w*|nextn)\.")
LAYER = re.compile(r"(?:^|\.)(?:layers|blk|h|blocks)\.(\d+)\.")
HEAD = re.compile(r"(^|\.)(lm_head|shared_head\.head|nextn\.shared_head_head)\.|^output\.weight$")
EMBEDDING = re.compile(
    r"(^|\.)(embed_tokens(_per_layer)?|nextn\.embed_tokens|tok_embeddings|wte|wpe)\."
    r"|^(token_embd|per_layer_token_embd|position_embd|token_types)\."
)
TIED_EMBEDDING = re.compile(r"(^|\.)(embed_tokens|tok_embeddings|wte)\.|^token_embd\.")
EXPERT = re.compile(r"(^|\.)experts\.|_exps(\.|$)")


@dataclass(frozen=True)
class Architecture:
    """What tensor names do not say. `layers` counts the target's own; None where it is not known.

    `tied`: None = tied exactly when the checkpoint has no head of its own.
    """

    layers: int | None = None
    experts: int | None = None
    active_experts: int | None = None
    tied: bool | None = None


@dataclass(frozen=True)
class StepBytes:
    """Bytes by role; `experts`: all routed experts of the target; `draft_*`: None without a draft block."""

    body: int
    head: int
    experts: int
    draft_body: int | None
    draft_head: int | None
    draft_experts: int
    left_out: Mapping[str, int]
    architecture: Architecture

    @property
    def target(self) -> float:
        """Bytes of a plain decode step: dense tensors, head, and the active share of the experts."""
        return self.body + self.head + self.experts * self._active_share

    @property
    def draft(self) -> float | None:
        """Bytes of one draft pass; the head counts in full, shared or not. None without a draft block."""
        if self.draft_body is None or self.draft_head is None:
            return None
        return self.draft_body + self.draft_head + self.draft_experts * self._active_share

    @property
    def b(self) -> float | None:
        """Draft over target: the b that bandwidth alone would give."""
        return None if self.draft is None else self.draft / self.target

    def verify(self, n: int) -> tuple[float, float]:
        """Bytes of verifying n drafts (n + 1 tokens): band from correlated to independent expert routing."""
        shape = self.architecture
        if not self.experts or shape.experts is None or shape.active_experts is None:
            return self.target, self.target
        low, high = union_band(shape.experts, shape.active_experts, n + 1)
        dense = self.body + self.head
        return dense + self.experts * low / shape.experts, dense + self.experts * high / shape.experts

    @property
    def _active_share(self) -> float:
        shape = self.architecture
        if not self.experts and not self.draft_experts:
            return 0.0
        if not shape.experts or not shape.active_experts:
            raise BreakevenError(
                "the checkpoint has routed experts but no count of those active per token; "
                "give experts and active experts"
            )
        return shape.active_experts / shape.experts


def step_bytes(tensors: Iterable[Tensor], architecture: Architecture) -> StepBytes:
    """Sort tensors into roles and sum their sizes, scales and zero points included (Method 7).

    Raises BreakevenError when there is no output head and no embedding that could be one.
    """
    sums: dict[str, int] = defaultdict(int)
    seen: set[str] = set()
    for tensor in tensors:
        role = _role(tensor.name, architecture)
        seen.add(role)
        sums[role] += tensor.n_bytes
        if role == "embedding" and TIED_EMBEDDING.search(tensor.name):
            sums["tied"] += tensor.n_bytes
    tied = architecture.tied if architecture.tied is not None else "head" not in seen
    head = sums["tied"] if tied else sums["head"]
    if not head:
        raise BreakevenError(
            "no output head: neither lm_head/output.weight nor a tied embedding is in the checkpoint"
        )
    drafts = bool(seen & {"draft body", "draft experts"})
    return StepBytes(
        body=sums["body"],
        head=head,
        experts=sums["experts"],
        draft_body=sums["draft body"] if drafts else None,
        draft_head=(sums["draft head"] or head) if drafts else None,
        draft_experts=sums["draft experts"],
        left_out={
            "embeddings": sums["embedding"] + sums["draft embedding"] - (head if tied else 0),
            "vision and audio": sums["vision"],
            "stored copy of a tied head": sums["head"] if tied else 0,
        },
        architecture=architecture,
    )


def _role(name: str, architecture: Architecture) -> str:
    if VISION.search(name):
        return "vision"
    layer = LAYER.search(name)
    beyond = layer is not None and architecture.layers is not None and int(layer[1]) >= architecture.layers
    draft = "draft " if beyond or DRAFT.search(name) else ""
    if EMBEDDING.search(name):
        return f"{draft}embedding"
    if HEAD.search(name):
        return f"{draft}head"
    return f"{draft}experts" if EXPERT.search(name) else f"{draft}body"


@dataclass(frozen=True)
class Attention:
    """KV cache of one layer: elements stored per token, and the window that caps the depth (None = full)."""

    elements: int
    window: int | None = None


def attention(kv_heads: int, head_dim: int, window: int | None = None) -> Attention:
    """A layer that stores keys and values: 2 x kv_heads x head_dim elements a token."""
    return Attention(2 * kv_heads * head_dim, window)


def kv_bytes(layers: Sequence[Attention], element_bytes: float, depth: int) -> float:
    """Bytes of cached keys and values that one step reads at a depth; linear-attention layers have none."""
    if depth < 0 or element_bytes <= 0:
        raise BreakevenError(
            f"depth {depth}, {element_bytes} bytes an element: depth >= 0 and bytes > 0 are wanted"
        )
    return sum(
        layer.elements * element_bytes * (depth if layer.window is None else min(depth, layer.window))
        for layer in layers
    )


def recurrent_bytes(layers: int, state_elements: int, conv_elements: int, element_bytes: float) -> float:
    """Bytes of linear-attention state that one step reads and writes; the same at every depth."""
    return 2 * layers * (state_elements + conv_elements) * element_bytes


@dataclass(frozen=True)
class Bandwidth:
    """A memory bandwidth and what it is: `measured`, or from the datasheet."""

    gb_s: float
    measured: bool

    @property
    def name(self) -> str:
        """The figure with its origin, for a sentence."""
        return f"{self.gb_s:g} GB/s ({'measured' if self.measured else 'datasheet'})"


def achieved_gb_s(n_bytes: float, seconds: float) -> float:
    """Bytes over time, in 10^9 bytes a second."""
    if not (n_bytes > 0 and seconds > 0):
        raise BreakevenError(f"{n_bytes} bytes in {seconds} s: both must be above 0")
    return n_bytes / seconds / 1e9


@dataclass(frozen=True)
class BytesCheck:
    """b measured against b from bytes; `explain` is None when the check does not apply. Never blocks."""

    ratio: float
    explain: bool | None
    sentence: str


def check_bytes(b: float, b_bytes: float, baseline_share: float | None) -> BytesCheck:
    """Whether b agrees with the bytes within a factor of 3 (Method 4).

    `baseline_share`: achieved bandwidth of the baseline over the device's, None when the latter is unknown.
    """
    if b_bytes <= 0:
        raise BreakevenError(f"b from bytes is {b_bytes}; a number above 0 is wanted")
    ratio = b / b_bytes
    words = f"b = {b:.3f} against {b_bytes:.3f} from bytes, {ratio:.2g} times"
    if baseline_share is None:
        return BytesCheck(
            ratio, None, f"{words}; the bandwidth is not known, so bytes may not bound the time"
        )
    if baseline_share < BANDWIDTH_BOUND:
        return BytesCheck(
            ratio, None, f"{words}; the baseline reaches only {baseline_share:.0%} of the bandwidth: no check"
        )
    explain = not 1 / EXPLAIN_RATIO <= ratio <= EXPLAIN_RATIO
    return BytesCheck(
        ratio, explain, f"{words}: explain this" if explain else f"{words}: within a factor of 3"
    )
