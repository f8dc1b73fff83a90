"""vLLM's dialect: an event per engine step, usage in the stream, counters with `_created` twins."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.utils import floatToGoString

from reference_server import vocabulary
from reference_server.dialects import BadRequestError, Reply, sse, token_ids
from reference_server.engine import Counters, Engine, Generation, Plan, Sent

MODEL = "/models/reference"
VERSION = "0.32.0"
SHARED_HEAD = "Detected MTP model. Sharing target model lm_head weights with the draft model."
FINGERPRINT = f"vllm-{VERSION}-reference"

event_per_token = False
cut_last_draft = False
block_cache = True


def get(engine: Engine, path: str) -> Reply | None:
    """/health, /version, /v1/models, /metrics and /server_info."""
    truth = engine.truth
    match path:
        case "/health" | "/ping":
            return Reply(b"")
        case "/version":
            return Reply.of({"version": VERSION})
        case "/v1/models":
            card = {"id": MODEL, "object": "model", "owned_by": "vllm", "root": MODEL}
            return Reply.of({"object": "list", "data": [{**card, "max_model_len": truth.max_context}]})
        case "/metrics":
            text = "\n".join(_metrics(engine)) + "\n"
            return Reply(text.encode(), content_type="text/plain; version=0.0.4; charset=utf-8")
        case "/server_info":
            cache = {"enable_prefix_caching": truth.prefix_cache, "block_size": truth.block}
            config = {
                "model_config": {"model": MODEL, "max_model_len": truth.max_context},
                "cache_config": cache,
                "speculative_config": _speculative_config(truth.n),
            }
            return Reply.of({"vllm_config": config})
    return None


def post(engine: Engine, path: str, body: Mapping[str, Any]) -> Reply | None:
    """/tokenize of a prompt or of messages, and /detokenize."""
    if path == "/tokenize":
        text = vocabulary.chat_template(body["messages"]) if "messages" in body else body.get("prompt", "")
        ids = vocabulary.encode(text)
        limit = engine.truth.max_context
        return Reply.of({"count": len(ids), "max_model_len": limit, "tokens": ids, "token_strs": None})
    if path == "/detokenize":
        return Reply.of({"prompt": vocabulary.decode(body.get("tokens", []))})
    return None


def generation(engine: Engine, path: str, body: Mapping[str, Any]) -> Generation | None:
    """/v1/completions with text or token ids, /v1/chat/completions with messages."""
    chat = path == "/v1/chat/completions"
    if path != "/v1/completions" and not chat:
        return None
    if chat:
        prompt = vocabulary.encode(vocabulary.chat_template(body.get("messages", [])))
    else:
        asked = body.get("prompt")
        prompt = token_ids(asked) or (vocabulary.encode(asked) if isinstance(asked, str) else [])
    room = engine.truth.max_context - len(prompt)
    tokens = body.get("max_completion_tokens") or body.get("max_tokens") or (room if chat else 16)
    if not prompt:
        raise BadRequestError("The decoder prompt cannot be empty")
    if tokens > room:
        raise BadRequestError(
            f"This model's maximum context length is {engine.truth.max_context} tokens. However, you "
            f"requested {tokens} output tokens and your prompt contains {len(prompt)} input tokens."
        )
    options = body.get("stream_options") or {}
    usage = bool(options.get("include_usage"))
    return Generation(
        prompt=prompt,
        tokens=tokens,
        stream=bool(body.get("stream")),
        chat=chat,
        ignore_eos=bool(body.get("ignore_eos")),
        min_tokens=body.get("min_tokens") or 0,
        include_usage=usage,
        continuous_usage=usage and bool(options.get("continuous_usage_stats")),
        return_ids=bool(body.get("return_token_ids")) and not engine.faults.no_token_ids,
        logprobs=(body.get("top_logprobs") or 0) if chat else (body.get("logprobs") or 0),
        name_ids=bool(body.get("return_tokens_as_token_ids")),
    )


def error(message: str, status: int) -> Reply:
    """vLLM's error object."""
    kind = "BadRequestError" if status < 500 else "InternalServerError"
    return Reply.of({"error": {"message": message, "type": kind, "param": None, "code": status}}, status)


class _Writer:
    def __init__(self, engine: Engine, plan: Plan) -> None:
        self._truth, self._faults, self._plan, self._request = engine.truth, engine.faults, plan, plan.request
        kind, prefix = ("chat.completion", "chatcmpl") if self._request.chat else ("text_completion", "cmpl")
        suffix = ".chunk" if self._request.chat and self._request.stream else ""
        self._head = {
            "id": f"{prefix}-{time.monotonic_ns():016x}",
            "object": kind + suffix,
            "created": int(time.time()),
            "model": MODEL,
        }

    def opening(self) -> list[bytes]:
        out = []
        if self._request.chat and self._truth.role_at_once:
            out.append(self._role())
        if self._truth.usage_first and self._request.include_usage:
            out.append(sse({**self._head, "choices": [], "usage": self._usage(0)}))
        return out

    def event(self, index: int) -> list[bytes]:
        event, plan = self._plan.events[index], self._plan
        finish = None
        if event.stop == len(plan.ids):
            finish = "stop" if plan.stopped else "length"
        ids = plan.ids[event.start : event.stop]
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": None}
        if self._request.chat:
            choice["delta"] = self._delta(event.start, event.stop)
        else:
            choice |= {"text": vocabulary.decode(ids), "stop_reason": None}
            if self._request.logprobs:
                choice["logprobs"] = self._logprobs(event.start, event.stop)
        if self._request.return_ids:
            choice["token_ids"] = ids
            if not self._request.chat:
                choice["prompt_token_ids"] = list(self._request.prompt) if index == 0 else None
        chunk: dict[str, Any] = {**self._head, "choices": [choice]}
        if self._request.continuous_usage:
            chunk["usage"] = self._usage(event.stop)
        role_due = index == 0 and self._request.chat and not self._truth.role_at_once
        return [self._role(), sse(chunk)] if role_due else [sse(chunk)]

    def closing(self, sent: Sent) -> list[bytes]:
        out = []
        if self._request.include_usage:
            last = {**self._head, "choices": [], "usage": self._usage(len(self._plan.ids))}
            out.append(sse({**last, "system_fingerprint": FINGERPRINT}))
        return [*out, sse(b"[DONE]")]

    def whole(self, sent: Sent) -> dict[str, Any]:
        ids = list(self._plan.ids)
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop" if self._plan.stopped else "length"}
        if self._request.chat:
            choice["message"] = {"role": "assistant", **self._delta(0, len(ids))}
        else:
            choice |= {"text": vocabulary.decode(ids), "logprobs": None}
        if self._request.return_ids:
            choice |= {"token_ids": ids, "prompt_token_ids": list(self._request.prompt)}
        body = {**self._head, "choices": [choice], "usage": self._usage(len(ids))}
        return {**body, "system_fingerprint": FINGERPRINT}

    def _role(self) -> bytes:
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        chunk: dict[str, Any] = {**self._head, "choices": [choice]}
        if self._request.continuous_usage:
            chunk["usage"] = self._usage(0)
        return sse(chunk)

    def _delta(self, start: int, stop: int) -> dict[str, str]:
        """Reasoning and content of a span; one delta can hold both."""
        edge = min(max(self._truth.reasoning_tokens, start), stop)
        parts = {"reasoning_content": self._plan.ids[start:edge], "content": self._plan.ids[edge:stop]}
        return {name: vocabulary.decode(ids) for name, ids in parts.items() if ids}

    def _logprobs(self, start: int, stop: int) -> dict[str, Any]:
        best, second = (
            [f"token_id:{token}" if self._request.name_ids else vocabulary.decode([token]) for token in ids]
            for ids in (self._plan.ids[start:stop], self._plan.runners_up[start:stop])
        )
        margins = [self._truth.logprob_margin(place) for place in range(start, stop)]
        tops = [{b: -0.5, s: -0.5 - m} for b, s, m in zip(best, second, margins, strict=True)]
        places = len(best)
        return {
            "tokens": best,
            "token_logprobs": [-0.5] * places,
            "top_logprobs": tops,
            "text_offset": [0] * places,
        }

    def _usage(self, completed: int) -> dict[str, Any]:
        prompt, completed = len(self._request.prompt), completed + self._faults.wrong_usage * (completed > 0)
        usage: dict[str, Any] = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completed,
            "completion_tokens": completed,
        }
        if self._truth.prompt_tokens_details:
            usage["prompt_tokens_details"] = {"cached_tokens": self._plan.cached}
        return usage


writer = _Writer


def startup_log(engine: Engine, url: str) -> list[str]:
    """The lines that name version, configuration, drafter, cache and readiness."""
    truth = engine.truth
    host, _, port = url.removeprefix("http://").partition(":")
    spec = _speculative_config(truth.n)
    described, said = "None", {"model": MODEL, "host": host, "port": int(port)}
    if spec:
        described = f"SpeculativeConfig(method='mtp', model='{MODEL}', num_spec_tokens={truth.n})"
        said["speculative_config"] = spec
    api, core = "APIServer pid=1", "EngineCore pid=2"
    lines = [
        (api, f"[api_utils.py:286] non-default args: {said}"),
        (api, "[model.py:733] Resolved architecture: ReferenceForCausalLM"),
        *([(api, "[model.py:733] Resolved architecture: ReferenceMTPModel")] if spec else []),
        (api, f"[model.py:2152] Using max model len {truth.max_context}"),
        (
            core,
            f"[core.py:133] Initializing a V1 LLM engine (v{VERSION}) with config: model='{MODEL}', "
            f"speculative_config={described}, tokenizer='{MODEL}', dtype=torch.bfloat16, "
            f"max_seq_len={truth.max_context}, enable_prefix_caching={truth.prefix_cache}",
        ),
        *([(core, f"[llm_base_proposer.py:1548] {SHARED_HEAD}")] if engine.effective.n else []),
        (
            core,
            f"[kv_cache_utils.py:2327] GPU KV cache size: {truth.max_context:,} tokens, "
            f"Maximum concurrency for {truth.max_context:,} tokens per request: 1.00x",
        ),
        (core, "[core.py:402] init engine (profile, create kv cache, warmup model) took 0.01 s"),
        (api, f"[entry.py:140] Starting vLLM server on {url}"),
    ]
    stamp = time.strftime("INFO %m-%d %H:%M:%S")
    return [f"({who}) {stamp} {line}" for who, line in lines] + ["INFO:     Application startup complete."]


def request_log(engine: Engine, plan: Plan, sent: Sent) -> list[str]:
    """vLLM logs by the clock, not by the request."""
    return []


def _speculative_config(n: int) -> dict[str, Any] | None:
    return {"method": "mtp", "num_speculative_tokens": n} if n else None


def _metrics(engine: Engine) -> Iterator[str]:
    """Counters per engine in the text format, each with a `_created` gauge beside it."""
    speculates = engine.truth.n > 0 and not engine.faults.no_spec_counters
    plain = {
        "vllm:prefix_cache_queries": lambda c: c.prompt_tokens * engine.truth.prefix_cache,
        "vllm:prefix_cache_hits": lambda c: c.cached_tokens,
        "vllm:prompt_tokens": lambda c: c.prompt_tokens,
        "vllm:prompt_tokens_cached": lambda c: c.cached_tokens,
        "vllm:generation_tokens": lambda c: c.completion_tokens,
    }
    spec = {
        "vllm:spec_decode_num_drafts": lambda c: c.drafts,
        "vllm:spec_decode_num_draft_tokens": lambda c: c.draft_tokens,
        "vllm:spec_decode_num_accepted_tokens": lambda c: c.accepted_tokens,
    }
    per_engine = [(_labels(engine=str(i)), c) for i, c in enumerate(engine.counters)]
    for name, value in {**plain, **(spec if speculates else {})}.items():
        yield from _counter(name, [(labels, value(c), c) for labels, c in per_engine])
    if speculates:
        positions = [
            (_labels(engine=str(i), position=str(position)), count, c)
            for i, c in enumerate(engine.counters)
            for position, count in enumerate(c.per_position)
        ]
        yield from _counter("vllm:spec_decode_num_accepted_tokens_per_pos", positions)
    reasons = [
        (_labels(engine=str(i), finished_reason="length"), c.requests, c)
        for i, c in enumerate(engine.counters)
    ]
    yield from _counter("vllm:request_success", reasons)
    yield "# TYPE vllm:iteration_tokens_total histogram"
    for labels, c in per_engine:
        tokens = c.prompt_tokens + c.completion_tokens
        yield f"vllm:iteration_tokens_total_count{labels} {floatToGoString(c.steps)}"
        yield f"vllm:iteration_tokens_total_sum{labels} {floatToGoString(tokens)}"
    yield "# TYPE vllm:cache_config_info gauge"
    caching = f'block_size="{engine.truth.block}",enable_prefix_caching="{engine.truth.prefix_cache}"'
    yield f'vllm:cache_config_info{{{caching},engine="0"}} 1.0'


def _counter(name: str, series: Sequence[tuple[str, float, Counters]]) -> Iterator[str]:
    yield f"# TYPE {name}_total counter"
    for labels, value, _ in series:
        yield f"{name}_total{labels} {floatToGoString(value)}"
    yield f"# TYPE {name}_created gauge"
    for labels, _, counters in series:
        yield f"{name}_created{labels} {floatToGoString(counters.created)}"


def _labels(**extra: str) -> str:
    pairs = {**extra, "model_name": MODEL}
    return "{" + ",".join(f'{key}="{pairs[key]}"' for key in sorted(pairs)) + "}"
