"""A real HTTP server that speaks vLLM's and llama.cpp's dialects and whose truth is known."""

from reference_server.faults import Faults
from reference_server.process import reference_process
from reference_server.server import reference_server
from reference_server.truth import Truth, mi210

__all__ = ["Faults", "Truth", "mi210", "reference_process", "reference_server"]
