"""The embedded server takes llama-server's flags, and refuses what it does not know."""

import pytest

from breakeven.engine import embedded


def test_flags_reach_the_parameters():
    flags = "-m a.gguf -c 4096 -t 1 --spec-type draft-mtp --spec-draft-n-max 5 --spec-draft-p-min 0.5"
    params = embedded.parse([*flags.split(), *["-fa", "off", "--no-warmup", "--metrics", "-ctk", "q8_0"]])
    assert (params.model.path, params.n_ctx, params.cpuparams.n_threads) == ("a.gguf", 4096, 1)
    assert params.speculative.draft.n_max == 5
    assert params.speculative.draft.p_min == 0.5
    assert [kind.name for kind in params.speculative.types] == ["COMMON_SPECULATIVE_TYPE_DRAFT_MTP"]
    assert params.flash_attn_type.name == "LLAMA_FLASH_ATTN_TYPE_DISABLED"
    assert (params.warmup, params.endpoint_metrics) == (False, True)
    assert params.cache_type_k.name == "GGML_TYPE_Q8_0"


def test_forced_acceptance_and_ngram_flags_reach_the_parameters():
    params = embedded.parse(
        [
            "-m",
            "a",
            "--spec-synth-rates",
            "0.9,0.5",
            "--spec-ngram-mod-n-max",
            "4",
            "--spec-ngram-map-k-size-n",
            "6",
        ]
    )
    assert params.speculative.synth_rates == pytest.approx([0.9, 0.5])
    assert params.speculative.ngram_mod.n_max == 4
    assert params.speculative.ngram_map_k.size_n == 6


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["-m", "a", "--draft-max", "3"], "--draft-max"),
        (["-m", "a", "--spec-type", "mtp"], "draft-mtp"),
        (["-m", "a", "-c", "many"], "many"),
        (["-c", "4096"], "--model"),
        (["-m", "a", "--spec-draft-n", "3"], "--spec-draft-n"),
    ],
)
def test_what_it_does_not_know_ends_it_with_a_message(argv, said, capsys):
    with pytest.raises(SystemExit) as ended:
        embedded.parse(argv)
    assert ended.value.code == 1
    assert said in capsys.readouterr().err


def test_every_flag_sets_an_attribute_that_exists():
    values = {"--spec-type": "none", "-fa": "auto", "-sm": "layer"}
    for names, convert, _ in embedded._FLAGS_WITH_VALUE:
        for value in (values.get(names[0], "1"), "f16"):
            try:
                convert(value)
            except Exception:
                continue
            embedded.parse([*(["-m", "a"] if names[0] != "-m" else []), names[-1], value])
    for names, _ in embedded._SWITCHES:
        embedded.parse(["-m", "a", *names])
