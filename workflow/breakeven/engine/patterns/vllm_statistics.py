"""vLLM's runtime statistics: V0 lines are cumulative, V1 lines are windows of about ten seconds."""

from breakeven.engine.patterns import Pattern

_POSITIONS = r"Per-position acceptance rate: (\d\.\d{3}(?:, \d\.\d{3})*)(?=, Avg|\s*$)"

STATISTICS = (
    Pattern(
        "speculative",
        r"Speculative metrics: (?=.*Number of emitted tokens)",
        "0.3 to 0.8 (V0): cumulative",
        "INFO 03-04 10:11:12 metrics.py:367] Speculative metrics: Draft acceptance rate: 0.500, System "
        "efficiency: 0.625, "
        "Number of speculative tokens: 3, Number of accepted tokens: 45, Number of draft tokens: 90, "
        "Number of emitted "
        "tokens: 75.",
        {
            "acceptance": 0.5,
            "system_efficiency": 0.625,
            "k": 3,
            "accepted": 45,
            "drafted": 90,
            "emitted": 75,
        },
        fields={
            "acceptance": r"Draft acceptance rate: (\d\.\d{3})",
            "system_efficiency": r"System efficiency: (\d\.\d{3})",
            "k": r"Number of speculative tokens: (\d+)",
            "accepted": r"Number of accepted tokens: (\d+)[.,]",
            "drafted": r"Number of draft tokens: (\d+)[.,]",
            "emitted": r"Number of emitted tokens: (\d+)[.,]",
        },
        record="v0_cumulative",
    ),
    Pattern(
        "speculative",
        r"Speculative metrics: (?!.*Number of emitted tokens)(?=.*Number of accepted tokens: \d+, Number "
        r"of draft)",
        "0.8 before 0.8.3 (V1): a window, fractions, no length",
        "INFO 03-04 10:11:12 [metrics.py:58] Speculative metrics: Draft acceptance rate: 0.750, Number of "
        "accepted tokens: 30, "
        "Number of draft tokens: 40, ",
        {"acceptance": 0.75, "accepted": 30, "drafted": 40},
        fields={
            "acceptance": r"Draft acceptance rate: (\d\.\d{3})",
            "accepted": r"Number of accepted tokens: (\d+)[.,]",
            "drafted": r"Number of draft tokens: (\d+)[.,]",
        },
        record="v1_window",
    ),
    Pattern(
        "specdecoding position",
        r"SpecDecoding metrics: (?=.*(?:Accepted: \d+ tokens|acceptance))|Per-position acceptance rate: \d",
        "since 0.8.3 (V1): a window",
        "(APIServer pid=1) INFO 03-04 10:11:12 [metrics.py:101] SpecDecoding metrics: Mean acceptance "
        "length: 2.20, Accepted "
        "throughput: 6.00 tokens/s, Drafted throughput: 10.00 tokens/s, Accepted: 60 tokens, Drafted: 100 "
        "tokens, "
        "Per-position acceptance rate: 0.700, 0.500, Avg Draft acceptance rate: 60.0%",
        {
            "mean_len": 2.2,
            "accepted": 60,
            "drafted": 100,
            "per_position": [0.7, 0.5],
            "acceptance_percent": 0.6,
        },
        fields={
            "mean_len": r"Mean acceptance length: (\d+\.\d\d)",
            "accepted": r"\bAccepted: ([\d,]+) tokens",
            "drafted": r"\bDrafted: ([\d,]+) tokens",
            "per_position": _POSITIONS,
            "acceptance_percent": r"[Dd]raft acceptance rate: ([\d.]+)%",
        },
        record="v1_window",
    ),
    Pattern(
        "generation",
        r"(?:\bEngine (?P<engine>\d{3}): )?Avg prompt throughput: (?P<prompt_tok_s>[\d.]+) tokens/s, Avg "
        r"generation throughput: (?P<generation_tok_s>[\d.]+) "
        r"tokens/s",
        "all",
        "INFO 03-04 10:11:12 [loggers.py:87] Engine 000: Avg prompt throughput: 1.5 tokens/s, Avg "
        "generation throughput: 42.0 "
        "tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%",
        {"engine": "000", "prompt_tok_s": 1.5, "generation_tok_s": 42.0, "running": 1, "waiting": 0},
        fields={"running": r"Running: (\d+)", "waiting": r"Waiting: (\d+)"},
        record="throughput",
    ),
    Pattern(
        "spec_decode_acceptance_rate spec_decode_acceptance_length spec_decode_num_drafts "
        "spec_decode_draft_tokens "
        "spec_decode_accepted_tokens spec_decode_per_position_acceptance_rates",
        r'"spec_decode_(?P<bench_key>\w+)": *(?P<bench_value>[-\d.eE+]+|\[[^\]]*\]?)',
        "`vllm bench serve` results since 0.12",
        ' "spec_decode_num_drafts": 1200,',
        {"bench_key": "num_drafts", "bench_value": "1200"},
        repeats=True,
        record="bench_json",
    ),
    Pattern(
        "ttft",
        r"^\s*(?P<client_row>[\w.-]+) .*?\bttft= *(?P<ttft_ms>\d+)ms\s+toks= "
        r"*(?P<toks>\d+)\b.*?\bdecode_TPS= *(?P<decode_tps>[\d.]+)",
        "clients that print one row a request",
        "  warm-1     wall= 10.00s  ttft=  2000ms  toks= 500  wall_TPS= 50.00  decode_TPS= 62.50",
        {"client_row": "warm-1", "ttft_ms": 2000, "toks": 500, "decode_tps": 62.5},
        record="client_row",
    ),
    Pattern(
        "acceptance drafts draft accepted position num_drafts num_draft_tokens num_accepted_tokens",
        r"^\W*(?P<bench_label>Acceptance rate \(%\)|Acceptance length|Drafts|Draft tokens|Accepted tokens|"
        r"Position \d+|"
        r"num_drafts|num_draft_tokens|num_accepted_tokens|mean acceptance length|acceptance at token \d+) "
        r"*: +"
        r"(?P<bench_number>\d+(?:\.\d+)?)%?\s*$",
        "`vllm bench serve` and the offline example, since 0.9",
        "Acceptance length:                       2.73      ",
        {"bench_label": "Acceptance length", "bench_number": "2.73"},
        record="bench_text",
    ),
)
