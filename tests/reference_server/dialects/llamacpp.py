"""llama.cpp's dialect: an event per token, timings in the last one, drafts cut at the token limit."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from reference_server import vocabulary
from reference_server.dialects import BadRequestError, Reply, sse, token_ids
from reference_server.engine import Counters, Engine, Generation, Plan, Sent

MODEL = "/models/reference.gguf"
BUILD_NUMBER = 11434
BUILD = f"b{BUILD_NUMBER}-reference"

event_per_token = True
cut_last_draft = True
block_cache = False


def get(engine: Engine, path: str) -> Reply | None:
    """/health, /props, /slots, /v1/models and /metrics."""
    truth = engine.truth
    match path:
        case "/health":
            return Reply.of({"status": "ok"})
        case "/props":
            defaults = {"params": _settings(engine, None), "n_ctx": truth.max_context}
            props = {
                "default_generation_settings": defaults,
                "total_slots": 1,
                "model_alias": MODEL,
                "model_path": MODEL,
                "endpoint_slots": True,
                "endpoint_props": True,
                "endpoint_metrics": True,
                "bos_token": "<|endoftext|>",
                "eos_token": "<|endoftext|>",
                "build_info": BUILD,
                "is_sleeping": False,
            }
            return Reply.of(props)
        case "/slots":
            slot = {
                "id": 0,
                "n_ctx": truth.max_context,
                "speculative": engine.effective.n > 0,
                "is_processing": False,
                "params": _settings(engine, None),
            }
            return Reply.of([slot])
        case "/v1/models":
            card = {"id": MODEL, "object": "model", "owned_by": "llamacpp"}
            return Reply.of({"object": "list", "data": [card]})
        case "/metrics":
            text = "\n".join(_metrics(engine)) + "\n"
            return Reply(text.encode(), content_type="text/plain; version=0.0.4")
    return None


def post(engine: Engine, path: str, body: Mapping[str, Any]) -> Reply | None:
    """/tokenize, /detokenize and /apply-template."""
    match path:
        case "/tokenize":
            ids = vocabulary.encode(body.get("content", ""))
            return Reply.of({"tokens": [vocabulary.BOS, *ids] if body.get("add_special") else ids})
        case "/detokenize":
            return Reply.of({"content": vocabulary.decode(body.get("tokens", []))})
        case "/apply-template":
            return Reply.of({"prompt": vocabulary.chat_template(body.get("messages", []))})
    return None


def generation(engine: Engine, path: str, body: Mapping[str, Any]) -> Generation | None:
    """/completion with text or token ids, /v1/chat/completions with messages."""
    chat = path == "/v1/chat/completions"
    if path not in ("/completion", "/completions") and not chat:
        return None
    if chat:
        prompt = vocabulary.encode(vocabulary.chat_template(body.get("messages", [])))
    else:
        asked = body.get("prompt")
        prompt = token_ids(asked) or (vocabulary.encode(asked) if isinstance(asked, str) else [])
    if not prompt:
        raise BadRequestError('"prompt" is empty')
    if len(prompt) >= engine.truth.max_context:
        raise BadRequestError(
            f"request ({len(prompt)} tokens) exceeds the available context size "
            f"({engine.truth.max_context} tokens), try increasing it"
        )
    tokens = body.get("n_predict", body.get("max_tokens", -1))
    room = engine.truth.max_context - len(prompt)
    return Generation(
        prompt=prompt,
        tokens=room if tokens < 0 else min(tokens, room),
        stream=bool(body.get("stream")),
        chat=chat,
        ignore_eos=bool(body.get("ignore_eos")),
        cache_prompt=bool(body.get("cache_prompt", True)),
        include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        return_ids=bool(body.get("return_tokens")) and not engine.faults.no_token_ids,
        logprobs=body.get("n_probs") or 0,
    )


def error(message: str, status: int) -> Reply:
    """llama.cpp's error object."""
    kinds = {400: "invalid_request_error", 404: "not_found_error", 503: "unavailable_error"}
    detail = {"code": status, "message": message, "type": kinds.get(status, "server_error")}
    return Reply.of({"error": detail}, status)


class _Writer:
    def __init__(self, engine: Engine, plan: Plan) -> None:
        self._engine, self._truth, self._faults = engine, engine.truth, engine.faults
        self._plan, self._request = plan, plan.request
        self._head = {
            "created": int(time.time()),
            "id": f"chatcmpl-{time.monotonic_ns():016x}",
            "model": MODEL,
            "system_fingerprint": BUILD,
            "object": "chat.completion.chunk" if self._request.stream else "chat.completion",
        }

    def opening(self) -> list[bytes]:
        return [self._role()] if self._request.chat and self._truth.role_at_once else []

    def event(self, index: int) -> list[bytes]:
        event = self._plan.events[index]
        if self._request.chat:
            chunk = sse(self._chat_chunk(self._delta(event.start, event.stop)))
            return [self._role(), chunk] if index == 0 and not self._truth.role_at_once else [chunk]
        ids = self._plan.ids[event.start : event.stop]
        body: dict[str, Any] = {"index": 0, "content": vocabulary.decode(ids)}
        if not self._faults.no_token_ids:
            body["tokens"] = ids
        body |= {
            "stop": False,
            "id_slot": -1,
            "tokens_predicted": event.stop + self._faults.wrong_usage,
            "tokens_evaluated": len(self._request.prompt),
        }
        if self._request.logprobs:
            body["completion_probabilities"] = self._probabilities(event.start, event.stop)
        return [sse(body)]

    def closing(self, sent: Sent) -> list[bytes]:
        if not self._request.chat:
            return [sse(self._final(sent))]
        last = self._chat_chunk({}, finish=self._stop_reason())
        timings = {"timings": self._timings(sent)}
        if not self._request.include_usage:
            return [sse({**last, **timings}), sse(b"[DONE]")]
        usage = {**self._head, "choices": [], "usage": self._usage(), **timings}
        return [sse(last), sse(usage), sse(b"[DONE]")]

    def whole(self, sent: Sent) -> dict[str, Any]:
        if not self._request.chat:
            return self._final(sent)
        message = {"role": "assistant", **self._delta(0, len(self._plan.ids))}
        choice = {"index": 0, "finish_reason": self._stop_reason(), "message": message}
        return {**self._head, "choices": [choice], "usage": self._usage(), "timings": self._timings(sent)}

    def _final(self, sent: Sent) -> dict[str, Any]:
        plan, request = self._plan, self._request
        whole = not request.stream
        return {
            "index": 0,
            "content": vocabulary.decode(plan.ids) if whole else "",
            "tokens": list(plan.ids) if whole and request.return_ids else [],
            "id_slot": 0,
            "stop": True,
            "model": MODEL,
            "tokens_predicted": len(plan.ids) + self._faults.wrong_usage,
            "tokens_evaluated": len(request.prompt),
            "generation_settings": _settings(self._engine, request),
            "prompt": vocabulary.decode(request.prompt),
            "truncated": False,
            "stop_type": "eos" if plan.stopped else "limit",
            "stopping_word": "",
            "tokens_cached": len(request.prompt) + len(plan.ids) - 1,
            "timings": self._timings(sent),
        }

    def _timings(self, sent: Sent) -> dict[str, float]:
        """The server's own clock; predicted_ms runs from the first token to the last."""
        computed = len(self._request.prompt) - self._plan.cached
        predicted = len(self._plan.ids) + self._faults.wrong_usage
        prompt_ms = 1e3 * sent.first_s * self._faults.wrong_timings
        predicted_ms = 1e3 * (sent.last_s - sent.first_s) * self._faults.wrong_timings
        timings: dict[str, float] = {
            "cache_n": self._plan.cached,
            "prompt_n": computed,
            "prompt_ms": prompt_ms,
            "prompt_per_token_ms": prompt_ms / computed,
            "prompt_per_second": 1e3 * computed / prompt_ms if prompt_ms else 0.0,
            "predicted_n": predicted,
            "predicted_ms": predicted_ms,
            "predicted_per_token_ms": predicted_ms / max(predicted - 1, 1),
            "predicted_per_second": 1e3 * (predicted - 1) / predicted_ms if predicted_ms else 0.0,
        }
        if self._plan.drafted:
            timings |= {"draft_n": self._plan.drafted, "draft_n_accepted": self._plan.accepted}
        return timings

    def _stop_reason(self) -> str:
        return "stop" if self._plan.stopped else "length"

    def _usage(self) -> dict[str, Any]:
        prompt, completed = len(self._request.prompt), len(self._plan.ids) + self._faults.wrong_usage
        return {
            "completion_tokens": completed,
            "prompt_tokens": prompt,
            "total_tokens": prompt + completed,
            "prompt_tokens_details": {"cached_tokens": self._plan.cached},
        }

    def _chat_chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {"choices": [{"finish_reason": finish, "index": 0, "delta": delta}], **self._head}

    def _role(self) -> bytes:
        return sse(self._chat_chunk({"role": "assistant", "content": None}))

    def _delta(self, start: int, stop: int) -> dict[str, str]:
        edge = min(max(self._truth.reasoning_tokens, start), stop)
        parts = {"reasoning_content": self._plan.ids[start:edge], "content": self._plan.ids[edge:stop]}
        return {name: vocabulary.decode(ids) for name, ids in parts.items() if ids}

    def _probabilities(self, start: int, stop: int) -> list[dict[str, Any]]:
        out = []
        for place in range(start, stop):
            best = {"id": self._plan.ids[place], "logprob": -0.5}
            second = {"id": self._plan.runners_up[place], "logprob": -0.5 - self._truth.logprob_margin(place)}
            tops = [{**top, "token": vocabulary.decode([int(top["id"])])} for top in (best, second)]
            out.append({**tops[0], "top_logprobs": tops})
        return out


writer = _Writer


def startup_log(engine: Engine, url: str) -> list[str]:
    """The lines that name build, context, drafter and readiness."""
    truth = engine.truth
    drafter = [
        "I spec common_specu: adding speculative implementation 'draft-mtp'",
        "I srv    load_model: speculative decoding context initialized",
    ]
    lines = [
        f"I cmn  common_param: common_params_print_info: build {BUILD_NUMBER} (reference)",
        f"I srv    load_model: loading model '{MODEL}'",
        f"I llama_context: n_ctx                 = {truth.max_context}",
        "I resolve_fused_ops: Flash Attention enabled",
        "I sched_reserve: graph: nodes = 275, splits = 1, input objects = 4, input tensors = 10",
        f"I srv    load_model: initializing, n_slots = 1, n_ctx_slot = {truth.max_context}",
        *(drafter if engine.effective.n else []),
        "I srv  llama_server: model loaded",
        f"I srv  llama_server: listening on {url}",
        "I srv  update_slots: all slots are idle",
    ]
    return [f"0.00.{index:03d}.000 {line}" for index, line in enumerate(lines)]


def request_log(engine: Engine, plan: Plan, sent: Sent) -> list[str]:
    """Timings and, where something was drafted, acceptance of one request."""
    computed, predicted = len(plan.request.prompt) - plan.cached, len(plan.ids)
    slot = "0.00.000.000 I slot print_timing: id  0 | task 0 |"
    decode_ms = 1e3 * (sent.last_s - sent.first_s)
    lines = [
        f"{slot} prompt eval time = {1e3 * sent.first_s:10.2f} ms / {computed:5d} tokens",
        f"{slot}        eval time = {decode_ms:10.2f} ms / {predicted:5d} tokens",
    ]
    if plan.drafted:
        drafts = sum(step.drafted > 0 for step in plan.steps)
        rate = plan.accepted / plan.drafted
        counted = [sum(step.accepted > i for step in plan.steps) for i in range(engine.effective.n)]
        lines += [
            f"{slot} draft acceptance = {rate:.5f} ({plan.accepted:5d} accepted / "
            f"{plan.drafted:5d} generated), mean len = {1 + plan.accepted / drafts:5.2f}",
            f"{slot}      acc per pos = ({', '.join(f'{count / drafts:.3f}' for count in counted)})",
        ]
    return lines


def _settings(engine: Engine, request: Generation | None) -> dict[str, Any]:
    """Generation settings; `speculative.types` repeats what was asked for, whether it works or not."""
    tokens = request.tokens if request else -1
    return {
        "seed": 1,
        "temperature": 0.0 if request else 0.8,
        "n_predict": tokens,
        "max_tokens": tokens,
        "ignore_eos": request.ignore_eos if request else False,
        "stream": request.stream if request else False,
        "n_probs": request.logprobs if request else 0,
        "speculative.types": "none,draft-mtp" if engine.truth.n else "none",
        "timings_per_token": False,
    }


def _metrics(engine: Engine) -> Iterator[str]:
    counters = engine.counters[0]
    values = {
        "prompt_tokens_total": counters.prompt_tokens - counters.cached_tokens,
        "prompt_tokens_cached_total": counters.cached_tokens,
        "prompt_seconds_total": round(counters.prompt_s, 6),
        "tokens_predicted_total": counters.completion_tokens,
        "tokens_predicted_seconds_total": round(counters.decode_s, 6),
        "n_decode_total": counters.steps,
        "n_tokens_max": counters.longest,
    }
    if not engine.faults.no_spec_counters:
        values |= {
            "spec_decode_num_draft_tokens_total": counters.draft_tokens,
            "spec_decode_num_accepted_tokens_total": counters.accepted_tokens,
            "spec_decode_num_drafts_total": counters.drafts,
        }
    for name, value in values.items():
        yield f"# TYPE llamacpp:{name} counter"
        yield f"llamacpp:{name} {value}"
    yield "# TYPE llamacpp:requests_processing gauge"
    yield "llamacpp:requests_processing 0"
    if not engine.faults.no_spec_counters and counters.drafts:
        yield from _per_position(counters)


def _per_position(counters: Counters) -> Iterator[str]:
    name = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
    yield f"# TYPE {name} counter"
    for position, count in enumerate(counters.per_position):
        yield f'{name}{{position="{position}"}} {count}'
