"""One verdict per arm x depth x prompt class, and one per configuration (Method 6): gates + checks + fit + prefill -> words.

`to_json()` of the result is all that a report or a ledger needs. Its shape; an *estimate* is
`{"value", "low", "high", "reason"}`: any of the numbers may be null, `reason` then says why.

    {"experiment", "question", "baseline", "margin",
     "look": {"rounds": int, "complete_rounds": [int], "planned": int | "auto", "alpha": float, "cap": int,
              "next_rounds": int | null, "rule": str},
     "decided": bool, "undecided": ["mtp1 at depth 8192, class code: inconclusive", ...],
     "arms": [{"arm", "n_spec": int | null, "role": "baseline" | "repeat" | "candidate" | "cost_only", "gated": bool,
               "status", "reason", "launches": int, "rounds": [int], "interleaved": bool,
               "gates": [{"gate", "passed", "severity", "reason"}],
               "acceptance": {"rate": estimate, "length_drafted": estimate, "length": estimate,
                              "survival": [float] | null, "conditional": [float] | null, "reason"}}],   # all cells pooled
     "cells": [{"depth", "prompt_class", "rounds": int, "df": int | null, "estimator": "E8" | "E5" | "E9" | null,
                "estimator_reason", "launch_sd": float | null,                    # sd of log step time between launches
                "noise_floor": estimate, "minimum_detectable_effect": float | null,   # both as a ratio minus 1
                "rounds_for_margin": int | null,                                  # rounds that would detect the margin
                "fit": {"a": estimate, "b": estimate, "cov_ab": float | null, "residuals": {"1": float},
                        "lack_of_fit": {"statistic", "p", "rejected": bool | null, "reason"},
                        "anchor_flags": [str], "alternative": {"name", "parameters", "residual_sd"} | null,
                        "impossible_at_every_n": bool | null, "reason"},
                "decomposition": {"draft_pass": estimate, "verify": estimate, "overhead": estimate, "reason"},
                "best_n": {"n": int | null, "low": int | null, "high": int | null, "speedups": [float], "reason"},
                "arms": [{"arm", "n_spec", "tok_s": estimate, "step_ms": estimate, "ratio": estimate,  # ratio 1: no change
                          "cost": estimate, "ceiling": estimate, "possible": bool | null,
                          "acceptance": as above, "prompts": {"rate": estimate, "length": estimate},   # over prompts
                          "breakeven": {"length", "rate", "alpha", "profile_scale": float | null, "reason"},
                          "headroom": estimate,                 # ceiling / length reached: what perfect drafts would add
                          "needed": [str],                      # what would have to change, in plain words
                          "verdict": {"verdict": "wins" | "loses" | "tie" | "inconclusive" | "impossible" | "invalid"
                                      | "not measured", "row": int, "cause": str | null, "ledger": str, "reason",
                                      "sentence", "minimum_detectable_effect": float | null,
                                      "gates": [...], "checks": [...],      # those it rests on
                                      "reopen": {"words", "conditions": [{"quantity", "below" | "above", "at_n"}]} | null}}]}],
     "prefill": [{"depth", "class": "regression" | "none" | "inconclusive", "cause", "margin", "reason",
                  "arms": [{"arm", "n_spec", "pp_new_ratio": estimate, "pp_computed_ratio": estimate,
                            "pp_new_tok_s", "pp_computed_tok_s", "ttft_s", "new_tokens", "computed_tokens"}],
                  "slope": estimate, "flat": bool | null}],
     "lossless": [{"arm", "prompts": int, "identical": int, "diverging": int, "share", "first_divergence": int | null,
                   "median_divergence": float | null, "class", "reason"}],
     "drift": [{"depth", "prompt_class", "per_hour": estimate, "flagged": bool | null, "reason"}],
     "checks": [row of the checks table that did not pass],
     "configurations": [{"arm", "ledger": "recommended" | "rejected" | "noise" | "impossible" | "blocked" | "diagnosis",
                         "reason", "sentence", "mixes": [{"prompt_tokens", "output_tokens", "depth", "prompt_class",
                         "ratio": estimate, "verdict"}], "worst": estimate, "factors": {"code": float}}],
     "winner": {"arm": str | null, "reason"},
     "findings": [{"finding", "arm", "ledger", "title", "sentence", "numbers": {}, "reopen": as above, "evidence": [str]}],
     "next_arm": {"change": {}, "reason"} | null}
"""
