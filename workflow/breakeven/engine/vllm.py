"""vLLM's OpenAI-compatible server.

Streams one event per engine step, which under speculation carries several tokens: events are steps here, never
tokens. Steps that follow each other faster than the server can send are merged into one event, so there may be fewer
events than steps. Counters are process-wide and cumulative, with `_created` twins that are not counts.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from breakeven.engine.base import Metric, Request, Sampling, Speculation, StreamEvent
from breakeven.engine.flags import command_line

TOKEN_ID = "token_id:"


class Vllm:
    """Engine `vllm`."""

    name = "vllm"
    instrumentation: Mapping[str, Any] = {"enable-prompt-tokens-details": True}
    hides_end = False
    health_path = "/health"
    metrics_path = "/metrics"
    event_per_token = False
    counters: Mapping[str, Metric] = {
        "drafts": Metric("vllm:spec_decode_num_drafts"),
        "draft_tokens": Metric("vllm:spec_decode_num_draft_tokens"),
        "accepted_tokens": Metric("vllm:spec_decode_num_accepted_tokens"),
        "accepted_per_pos": Metric("vllm:spec_decode_num_accepted_tokens_per_pos", position_label="position"),
        "prompt_tokens": Metric("vllm:prompt_tokens"),
        "cached_tokens": Metric("vllm:prefix_cache_hits"),
        "completion_tokens": Metric("vllm:generation_tokens"),
        "requests": Metric("vllm:request_success"),
        "server_prompt_s": Metric("vllm:request_prefill_time_seconds", suffix="_sum"),
        "server_decode_s": Metric("vllm:request_decode_time_seconds", suffix="_sum"),
    }

    def argv(self, args: Mapping[str, Any], *, host: str, port: int) -> list[str]:
        """Command line without the program; the model is positional."""
        model = [str(args["model"])] if "model" in args else []
        others = {name: value for name, value in args.items() if name != "model"}
        return [*model, *command_line({**others, "host": host, "port": port, **self.instrumentation})]

    def speculation(self, args: Mapping[str, Any]) -> Speculation | None:
        """What `--speculative-config` asks for; None without it."""
        asked = args.get("speculative-config")
        if isinstance(asked, str):
            asked = json.loads(asked)
        if not asked:
            return None
        method = str(asked.get("method", "draft_model" if "model" in asked else "unknown"))
        n = asked.get("num_speculative_tokens")
        return Speculation(
            method=method,
            n=int(n) if n is not None else None,
            gated=method in ("ngram", "suffix"),
            forced=asked.get("rejection_sample_method") == "synthetic",
            free_drafts=method in ("ngram", "suffix"),
            draft_model=asked.get("model"),
        )

    def completion(self, prompt: Sequence[int], tokens: int, sampling: Sampling) -> Request:
        """Streamed completion of exactly `tokens` tokens, token ids and running usage asked for.

        `min_tokens` is not sent: `ignore_eos` does, and builds that cannot mask verified rows would apply it in the
        baseline alone.
        """
        constraint = {"structured_outputs": {"json": dict(sampling.schema)}} if sampling.schema else {}
        return Request(
            "/v1/completions",
            {
                "prompt": list(prompt),
                "max_tokens": tokens,
                "stream": True,
                "stream_options": {"include_usage": True, "continuous_usage_stats": True},
                "return_token_ids": True,
                "temperature": 0.0,
                "ignore_eos": sampling.ignore_eos,
                **constraint,
                **sampling.extra,
            },
        )

    def with_logprobs(self, completion: Request, top: int) -> Request:
        """The same completion, telling the `top` most likely tokens at every place, by id where texts are alike."""
        asked = {"logprobs": top, "return_tokens_as_token_ids": True}
        return replace(completion, body={**completion.body, **asked})

    def event(self, data: bytes) -> StreamEvent:
        """Understand one event: a step with its tokens, usage alone, or the end."""
        if data.strip() == b"[DONE]":
            return StreamEvent("final")
        answer = json.loads(data)
        if "error" in answer:
            return StreamEvent("final", error=str(answer["error"]))
        usage = answer.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        counts: dict[str, Any] = {
            "running_tokens": usage.get("completion_tokens"),
            "prompt_tokens": usage.get("prompt_tokens"),
            "cached_tokens": details.get("cached_tokens"),
        }
        if not answer.get("choices"):
            return StreamEvent("usage", **counts)
        choice = answer["choices"][0]
        ids = tuple(choice.get("token_ids") or ())
        delta = choice.get("delta") or {}
        if ids:
            kind = "token"
        elif delta.get("reasoning") or delta.get("reasoning_content"):
            kind = "reasoning"
        elif delta.get("role") and not delta.get("content"):
            kind = "role"
        else:
            kind = "token" if choice.get("text") or delta.get("content") else "empty"
        places = (choice.get("logprobs") or {}).get("top_logprobs") or ()
        top_logprobs = tuple(
            {int(token.removeprefix(TOKEN_ID)): logprob for token, logprob in (place or {}).items()}
            for place in places
        )
        return StreamEvent(kind, ids, stop=choice.get("finish_reason"), top_logprobs=top_logprobs, **counts)  # type: ignore[arg-type]

    def tokenize(self, text: str, special: bool = False) -> Request:
        """Request that turns text into token ids; `special` adds those that prompts of the model start with."""
        return Request("/tokenize", {"prompt": text, "add_special_tokens": special})

    def tokens(self, answer: Mapping[str, Any]) -> list[int]:
        """Token ids in the answer to `tokenize` or `chat`."""
        return list(answer["tokens"])

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> Request:
        """Request that renders chat messages to token ids."""
        return Request("/tokenize", {"messages": [dict(message) for message in messages]})

    def properties(self) -> Sequence[str]:
        """Paths whose answers are kept as evidence."""
        return ("/version", "/v1/models", "/server_info?config_format=json")
