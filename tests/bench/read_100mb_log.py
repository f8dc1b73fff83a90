"""How fast a hundred megabytes of log are read, and how much memory that takes.

    python tests/bench/read_100mb_log.py [megabytes]

The text is generated while it is read: a vLLM server's start, then access lines, throughput and acceptance lines,
tracebacks and colours in the shares of a busy server. Nothing is written to disk.
"""

import resource
import sys
import time
from collections.abc import Iterator

from breakeven.engine.reader import read_facts

START = b"""(EngineCore pid=9) INFO 03-04 10:11:12 [core.py:97] Initializing a V1 LLM engine (v0.14.1) with config: \
model='/srv/big', speculative_config=SpeculativeConfig(method='mtp', model='/srv/big', num_spec_tokens=2), \
dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1, enforce_eager=False
(EngineCore pid=9) INFO 03-04 10:11:20 [kv_cache_utils.py:864] GPU KV cache size: 123,456 tokens
\rCapturing CUDA graphs (decode, FULL):   0%|          | 0/8 [00:00<?, ?it/s]\
\rCapturing CUDA graphs (decode, FULL): 100%|##########| 8/8 [00:01<00:00,  6.00it/s]
"""
BUSY = b"""\x1b[0;36m(APIServer pid=7)\x1b[0;0m INFO:     127.0.0.1:53612 - "POST /v1/completions HTTP/1.1" 200 OK
\x1b[0;36m(APIServer pid=7)\x1b[0;0m INFO:     127.0.0.1:53614 - "GET /health HTTP/1.1" 200 OK
(APIServer pid=7) INFO 03-04 10:12:12 [logger.py:43] Received request cmpl-0: prompt: 'a word, another word and \
more of them', params: SamplingParams(n=1, temperature=0.0, top_p=1.0, max_tokens=256, ignore_eos=True, detokenize=True)
(APIServer pid=7) INFO 03-04 10:12:12 [async_llm.py:310] Added request cmpl-0.
(EngineCore pid=9) DEBUG 03-04 10:12:12 [core.py:500] scheduled 128 tokens for 1 request, 3 blocks free
some library prints a line without any head, as libraries do, and this line is neither short nor interesting
  File "site-packages/vllm/v1/engine/core.py", line 1496, in run_engine_core
"""
WINDOW = b"""(APIServer pid=7) INFO 03-04 10:12:22 [loggers.py:257] Engine 000: Avg prompt throughput: 10.0 tokens/s, \
Avg generation throughput: 90.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.2%
(APIServer pid=7) INFO 03-04 10:12:22 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 2.20, \
Accepted throughput: 6.00 tokens/s, Drafted throughput: 10.00 tokens/s, Accepted: 60 tokens, Drafted: 100 tokens, \
Per-position acceptance rate: 0.700, 0.500, Avg Draft acceptance rate: 60.0%
"""


def stream(megabytes: float) -> Iterator[bytes]:
    """Yield the start and then megabytes of a busy server."""
    yield START
    piece = BUSY * 60 + WINDOW
    for _ in range(int(megabytes * 1e6 / len(piece)) + 1):
        yield piece


def main() -> None:
    """Read the stream and print time, speed and peak memory."""
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 100.0
    for engine in ("vllm", None):
        start = time.perf_counter()
        facts = read_facts(stream(megabytes), engine)
        seconds = time.perf_counter() - start
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"engine {engine or 'recognised'}: {megabytes:.0f} MB in {seconds:.2f} s ({megabytes / seconds:.0f} MB/s),"
        )
        print(
            f"  peak memory {peak_mb:.0f} MB, drafted {facts.get('drafted')}, graphs_full {facts.get('graphs_full')}"
        )


if __name__ == "__main__":
    main()
