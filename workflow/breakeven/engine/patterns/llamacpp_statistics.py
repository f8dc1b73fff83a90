"""llama.cpp's runtime lines: timings and acceptance are per request, `statistics` is cumulative over the process."""

from breakeven.engine.patterns import Pattern

STATISTICS = (
    Pattern(
        "prompt",
        r"^(?!.*\bllama_\w+: ).*?\bprompt eval time = +(?P<prompt_ms>[\d.]+) ms / +(?P<prompt_n>\d+) tokens",
        "servers and tools since 2024",
        "prompt eval time =      30.00 ms /    15 tokens (    2.00 ms per token,   500.00 tokens per second)",
        {"prompt_ms": 30.0, "prompt_n": 15, "pp": 500.0},
        fields={"pp": r"([\d.]+|inf|nan) tokens per second"},
        record="request_prompt",
    ),
    Pattern(
        "eval",
        r"^(?!.*\bllama_\w+: |.*\bprompt eval).*?\beval time = +(?P<eval_ms>[\d.]+) ms / "
        r"+(?P<predicted_n>\d+) (?P<counted>tokens|runs)",
        "servers and tools since 2024",
        "       eval time =     1000.00 ms /    50 tokens (   20.00 ms per token,    50.00 tokens per "
        "second)",
        {"eval_ms": 1000.0, "predicted_n": 50, "counted": "tokens", "tg": 50.0},
        fields={"tg": r"([\d.]+|inf|nan) tokens per second"},
        record="request_eval",
    ),
    Pattern(
        "acceptance",
        r"draft acceptance(?: rate)? = (?P<acceptance>\d+(?:\.\d+)?) \( *(?P<accepted>\d+) accepted / "
        r"*(?P<drafted>\d+) generated\)",
        "since b4900; mean len since b10000",
        "slot print_timing: id  0 | task 0 | draft acceptance = 0.80000 (   40 accepted /    50 "
        "generated), mean len =  2.60",
        {"acceptance": 0.8, "accepted": 40, "drafted": 50, "mean_len": 2.6},
        fields={"mean_len": r"mean len = +([\d.]+)"},
        record="request_acceptance",
    ),
    Pattern(
        "acc",
        r"\bacc per pos = \((?P<per_position>[\d., ]*)",
        "since b10000, verbosity 4",
        "slot print_timing: id  0 | task 0 |      acc per pos = (0.900, 0.700)",
        {"per_position": [0.9, 0.7]},
        record="request_positions",
    ),
    Pattern(
        "statistics",
        r"\bstatistics +(?P<impl>[\w-]+): +#calls",
        "since b7800",
        "statistics ngram_mod: #calls = 12, #gen drafts = 5, #acc drafts = 4, #gen tokens = 60, #acc "
        "tokens = 30, dur(b,g,a) = "
        "0.149, 0.347, 0.005 ms",
        {
            "impl": "ngram_mod",
            "calls": 12,
            "gen_drafts": 5,
            "acc_drafts": 4,
            "gen_tokens": 60,
            "acc_tokens": 30,
            "dur_ms": [0.149, 0.347, 0.005],
        },
        fields={
            "calls": r"#calls = +(\d+)",
            "calls_begin": r"#calls\(b,g,a\) = +(\d+)",
            "calls_draft": r"#calls\(b,g,a\) = +\d+ +(\d+)",
            "calls_accept": r"#calls\(b,g,a\) = +\d+ +\d+ +(\d+)",
            "gen_drafts": r"#gen drafts = +(\d+)",
            "acc_drafts": r"#acc drafts = +(\d+)",
            "gen_tokens": r"#gen tokens = +(\d+)",
            "acc_tokens": r"#acc tokens = +(\d+)",
            "mean_len": r"#mean acc len = +([\d.]+)",
            "per_position": r"#acc rate/pos = \(([\d., ]*)\)",
            "dur_ms": r"dur\(b,g,a\) = ([\d., ]+) ms",
        },
        record="statistics",
    ),
    Pattern(
        "adaptive",
        r"adaptive draft depth seq (?P<slot>\d+): (?P<depth_from>\d+) -> (?P<depth_to>\d+)",
        "adaptive depth, 2026",
        "I spec       accept: adaptive draft depth seq 0: 5 -> 4 (n_draft=5, n_accepted=1, n_cur=4, "
        "cur_accepted=80, "
        "cur_generated=110, cur_drop=-29)",
        {"slot": 0, "depth_from": 5, "depth_to": 4, "cur_accepted": 80, "cur_generated": 110},
        fields={"cur_accepted": r"\bcur_accepted=(\d+)", "cur_generated": r"\bcur_generated=(\d+)"},
        record="depth_change",
    ),
    Pattern(
        "n_gen",
        r"\bn_gen = +(?P<n_gen>\d+), tg = +(?P<tg>[\d.]+) t/s(?:, tg_3s = +(?P<tg_3s>[\d.]+))?",
        "progress lines, 2026",
        "slot print_timing: id  0 | task 0 | n_gen =  1050, tg =  46.50 t/s, tg_3s =  49.25 t/s",
        {"n_gen": 1050, "tg": 46.5, "tg_3s": 49.25},
        record="progress",
    ),
    Pattern(
        "llama_print_timings llama_perf_context_print",
        r"(?:llama_print_timings|llama_perf_context_print): +prompt eval time = +(?P<prompt_ms>[\d.]+) ms "
        r"/ +(?P<prompt_n>\d+) tokens",
        "command line tools since 2023",
        "llama_print_timings: prompt eval time =  1000.00 ms /    40 tokens (   25.00 ms per token,    "
        "40.00 tokens per second)",
        {"prompt_ms": 1000.0, "prompt_n": 40, "pp": 40.0},
        fields={"pp": r"([\d.]+|inf|nan) tokens per second"},
        record="tool_prompt",
    ),
    Pattern(
        "llama_print_timings llama_perf_context_print",
        r"(?:llama_print_timings|llama_perf_context_print): +eval time = +(?P<eval_ms>[\d.]+) ms / "
        r"+(?P<eval_runs>\d+) runs",
        "command line tools since 2023",
        "llama_print_timings:        eval time =  2000.00 ms /    19 runs   (  105.26 ms per token,     "
        "9.50 tokens per second)",
        {"eval_ms": 2000.0, "eval_runs": 19, "tg": 9.5},
        fields={"tg": r"([\d.]+|inf|nan) tokens per second"},
        record="tool_eval",
    ),
    Pattern(
        "draft target",
        r"^\s*(?P<tool_block>draft|target):\s*$",
        "speculative examples since 2023",
        "draft:",
        {"tool_block": "draft"},
        record="tool_block",
    ),
    Pattern(
        "n_draft n_predict n_drafted n_accept accept t_draft",
        r"^\W*(?:[\d.]+ \w )?(?:\w+: )?\s*(?P<tool_key>n_draft|n_predict|n_drafted|n_accept|accept|"
        r"t_draft)\s+= *(?P<tool_value>[\d.]+)",
        "speculative and lookup examples since 2023",
        "n_drafted = 132",
        {"tool_key": "n_drafted", "tool_value": "132"},
        record="tool_count",
    ),
    Pattern(
        "prompt_n prompt_ms prompt_per_second predicted_n predicted_ms predicted_per_second draft_n "
        "draft_n_accepted cache_n",
        r'"(?P<timing_key>cache_n|prompt_n|prompt_ms|prompt_per_second|predicted_n|predicted_ms|'
        r"predicted_per_second|draft_n|"
        r'draft_n_accepted)" *: *(?P<timing_value>-?[\d.]+(?:e[+-]?\d+)?)',
        "`timings` of a response since 2024",
        '"timings":{"cache_n":0,"prompt_n":10}',
        {"timing_key": "cache_n", "timing_value": "0"},
        repeats=True,
        record="timings_json",
    ),
    Pattern(
        "spec p min draft n max",
        r"--(?:spec-)?draft-(?P<option>p-min|n-max|max)[ =](?P<option_value>[\d.]+)",
        "a command line echoed in the log",
        "+ llama-server -m m.gguf --spec-draft-p-min 0.75",
        {"option": "p-min", "option_value": "0.75"},
        repeats=True,
        record="option",
    ),
    Pattern(
        "pred",
        r"^\s*(?P<prompt_name>[\w.-]+) +pred= *(?P<predicted_n>\d+) +draft= *(?P<drafted>\d+) +acc= "
        r"*(?P<accepted>\d+)",
        "mtp-bench.py",
        "  summarize          pred=  53 draft=  52 acc=  39 rate=0.750 tok/s=33.3",
        {"prompt_name": "summarize", "predicted_n": 53, "drafted": 52, "accepted": 39, "tok_s": 33.3},
        fields={"tok_s": r"tok/s= *([\d.]+)"},
        record="bench_row",
    ),
)
