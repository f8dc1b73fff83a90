"""llama.cpp's server: embedded, as a binary or in an image.

Streams one event per token; the tokens of one step arrive in a burst. The last event carries `timings`, the server's
own clock. `draft_n` and `draft_n_accepted` stand there only when something was drafted: absent is not 0.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from breakeven.engine.base import Metric, Request, Sampling, Speculation, StreamEvent
from breakeven.engine.flags import command_line

SLOT = 0
NGRAM = "ngram-"
DRAFT_MODEL_FLAGS = ("spec-draft-model", "model-draft")


class LlamaCpp:
    """Engine `llamacpp`."""

    name = "llamacpp"
    instrumentation: Mapping[str, Any] = {"metrics": True, "props": True, "slots": True, "verbosity": 4}
    hides_end = True
    health_path = "/health"
    metrics_path = "/metrics"
    event_per_token = True
    counters: Mapping[str, Metric] = {
        "drafts": Metric("llamacpp:spec_decode_num_drafts"),
        "draft_tokens": Metric("llamacpp:spec_decode_num_draft_tokens"),
        "accepted_tokens": Metric("llamacpp:spec_decode_num_accepted_tokens"),
        "accepted_per_pos": Metric(
            "llamacpp:spec_decode_num_accepted_tokens_per_pos", position_label="position"
        ),
        "computed_tokens": Metric("llamacpp:prompt_tokens"),
        "cached_tokens": Metric("llamacpp:prompt_tokens_cached"),
        "completion_tokens": Metric("llamacpp:tokens_predicted"),
    }

    def argv(self, args: Mapping[str, Any], *, host: str, port: int) -> list[str]:
        """Command line without the program, instrumentation included."""
        return list(command_line({**args, "host": host, "port": port, **self.instrumentation}))

    def speculation(self, args: Mapping[str, Any]) -> Speculation | None:
        """What the flags ask for; None without speculation."""
        kinds = [kind for kind in str(args.get("spec-type", "none")).split(",") if kind != "none"]
        if not kinds:
            return None
        ngram = any(kind.startswith(NGRAM) for kind in kinds)
        return Speculation(
            method=",".join(kinds),
            n=None if ngram else int(args.get("spec-draft-n-max", 3)),
            gated=ngram
            or float(args.get("spec-draft-p-min", 0)) > 0
            or int(args.get("spec-draft-n-min", 0)) > 0,
            forced="spec-synth-rates" in args or "spec-synth-len" in args,
            p_min=float(args.get("spec-draft-p-min", 0)),
            free_drafts=ngram,
            draft_model=next((str(args[flag]) for flag in DRAFT_MODEL_FLAGS if flag in args), None),
        )

    def completion(self, prompt: Sequence[int], tokens: int, sampling: Sampling) -> Request:
        """Streamed completion of exactly `tokens` tokens, prefix cache allowed, token ids asked for."""
        greedy = {"temperature": 0.0, "ignore_eos": sampling.ignore_eos}
        constraint = {"json_schema": dict(sampling.schema)} if sampling.schema else {}
        return Request(
            "/completion",
            {
                "prompt": list(prompt),
                "n_predict": tokens,
                "stream": True,
                "cache_prompt": True,
                "id_slot": SLOT,
                "return_tokens": True,
                **greedy,
                **constraint,
                **sampling.extra,
            },
        )

    def with_logprobs(self, completion: Request, top: int) -> Request:
        """The same completion, telling the `top` most likely tokens at every place."""
        return replace(completion, body={**completion.body, "n_probs": top})

    def event(self, data: bytes) -> StreamEvent:
        """Understand one event: a token, or the last one with the server's timings."""
        answer = json.loads(data)
        if "error" in answer:
            return StreamEvent("final", error=str(answer["error"].get("message", answer["error"])))
        ids = tuple(answer.get("tokens") or ())
        if not answer.get("stop"):
            return StreamEvent(
                "token" if ids else "empty",
                ids,
                running_tokens=answer.get("tokens_predicted"),
                top_logprobs=tuple(
                    {top["id"]: top["logprob"] for top in place["top_logprobs"]}
                    for place in answer.get("completion_probabilities") or ()
                ),
            )
        timings = answer["timings"]
        return StreamEvent(
            "final",
            ids,
            running_tokens=answer.get("tokens_predicted"),
            prompt_tokens=timings["cache_n"] + timings["prompt_n"],
            cached_tokens=timings["cache_n"],
            prompt_s=timings["prompt_ms"] / 1000,
            decode_s=timings["predicted_ms"] / 1000,
            draft_tokens=timings.get("draft_n"),
            accepted_tokens=timings.get("draft_n_accepted"),
            stop=answer.get("stop_type"),
        )

    def tokenize(self, text: str, special: bool = False) -> Request:
        """Request that turns text into token ids; `special` adds those that prompts of the model start with."""
        return Request("/tokenize", {"content": text, "add_special": special})

    def tokens(self, answer: Mapping[str, Any]) -> list[int]:
        """Token ids in the answer to `tokenize`."""
        return list(answer["tokens"])

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> Request:
        """Request that renders chat messages; the answer's `prompt` is then tokenized."""
        return Request("/apply-template", {"messages": [dict(message) for message in messages]})

    def properties(self) -> Sequence[str]:
        """Paths whose answers are kept as evidence."""
        return ("/props", "/slots")
