"""Configs as they are found in the wild, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.loading.config import RopeConfig, read_json
from engine.models import FAMILIES, configure
from tests.fakes.random_model import random_config

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_family_reads_its_config(family: str) -> None:
    config = configure(random_config(family))
    assert (config.family, config.head_dim, config.layers) == (family, 8, 3)
    assert config.qk_norm == (family == "qwen3")
    assert config.attention_bias == (family == "qwen2")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0; it must be a whole number from 1 to 1000"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"num_attention_heads": "8"}, "num_attention_heads is '8'"),
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3; it must be a divisor of num_attention_heads"),
        ({"hidden_size": 65}, "hidden_size is 65; it must be a multiple of num_attention_heads"),
        ({"head_dim": 7}, "head_dim is 7; it must be even"),
        ({"vocab_size": -1}, "vocab_size is -1"),
        ({"vocab_size": True}, "vocab_size is True"),
        ({"rms_norm_eps": 0}, "rms_norm_eps is 0; it must be a number above 0"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings is 'no'; it must be true or false"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "rope_scaling: type 'longrope' is not supported"),
        ({"rope_scaling": {"type": "linear"}}, "config.json: rope_scaling: factor is missing"),
        ({"rope_scaling": 7}, "rope_scaling is 7; it must be an object"),
        (
            {
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 2,
                    "low_freq_factor": 4,
                    "high_freq_factor": 1,
                }
            },
            "high_freq_factor is 1.0; it must be above low_freq_factor",
        ),
        ({"quantization": {"bits": 7, "group_size": 64}}, "quantization.bits is 7; affine runs with"),
        ({"quantization": {"bits": 4, "group_size": 48}}, "quantization.group_size is 48"),
        ({"quantization": {"bits": 4, "group_size": 64, "mode": "x"}}, "quantization.mode is 'x'"),
        ({"quantization": 4}, "quantization is 4; it must be an object"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised with gptq, which is not supported"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError) as raised:
        configure(random_config(**changes))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("family", [None, 3, "mamba"])
def test_an_unknown_family_is_answered_with_the_known_ones(family: object) -> None:
    raw = {**random_config(), "model_type": family}
    with pytest.raises(ModelError, match="supported are llama, mistral, qwen2, qwen3"):
        configure(raw)


def test_rope_settings_are_found_under_both_names() -> None:
    old = configure(random_config(rope_scaling=YARN, rope_theta=5e5))
    new = configure(random_config(rope_theta=None, rope_parameters={**YARN, "rope_theta": 5e5}))
    assert old.rope == new.rope == RopeConfig(5e5, "yarn", 4.0, 64)


def test_windows_follow_each_family_s_rules() -> None:
    assert configure(random_config("mistral", sliding_window=9)).windows == (9, 9, 9)
    assert configure(random_config("mistral")).windows == (None, None, None)
    assert configure(random_config("qwen2", sliding_window=9)).windows == (None, None, None)
    upper = configure(random_config("qwen2", sliding_window=9, use_sliding_window=True, max_window_layers=2))
    assert upper.windows == (None, None, 9)
    assert upper.largest_window is None


def test_layer_types_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ModelError, match="layer_types"):
        configure(random_config("mistral", sliding_window=9, layer_types=["sliding_attention"]))


def test_quantisation_may_differ_per_layer() -> None:
    raw = random_config(quantization={"bits": 4, "group_size": 64, "lm_head": {"bits": 8, "group_size": 32}})
    quantization = configure(raw).quantization
    assert quantization is not None
    assert (quantization.at("lm_head").bits, quantization.at("lm_head").group_size) == (8, 32)
    assert quantization.at("model.layers.0.mlp.up_proj").bits == 4


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff"])
def test_a_config_that_is_no_json_object_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match=r"config\.json"):
        read_json(path)
