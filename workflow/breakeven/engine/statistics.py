"""Runtime statistics lines: windows are added, cumulative lines differenced, per-request lines kept apart.

Every summary says under which definition its numbers were read; a count that a line does not give is None.
"""

from breakeven.engine.statistics_llamacpp import LlamacppStatistics
from breakeven.engine.statistics_sglang import SglangStatistics
from breakeven.engine.statistics_vllm import VllmStatistics

Statistics = VllmStatistics | LlamacppStatistics | SglangStatistics


def statistics_of(engine: str) -> Statistics:
    """Return an empty collection for an engine. Raises KeyError for another name."""
    kinds: dict[str, type[Statistics]] = {
        "vllm": VllmStatistics,
        "llamacpp": LlamacppStatistics,
        "sglang": SglangStatistics,
    }
    return kinds[engine]()
