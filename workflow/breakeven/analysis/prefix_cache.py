"""How many prompt tokens a server with a block-wise prefix cache computes anew (Method 1.2)."""

from breakeven.errors import BreakevenError


def computed_tokens(cached_prefix: int, new: int, block: int, dropped_blocks: int = 0) -> int:
    """Prompt tokens computed when the first `cached_prefix` of the prompt were served before and `new` follow.

    Only whole blocks are found again; some engines give up the last `dropped_blocks` of them when they speculate.
    """
    if min(cached_prefix, new, dropped_blocks) < 0 or block < 1:
        raise BreakevenError(
            f"prefix {cached_prefix}, new {new}, block {block}, dropped {dropped_blocks}: no value may be below 0, "
            "and a block has at least one token"
        )
    hit = max(0, cached_prefix // block - dropped_blocks) * block
    return cached_prefix + new - hit
