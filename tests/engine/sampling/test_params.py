"""What may be asked of the next token: values that leave a distribution to draw it from, and no others."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.errors import InvalidRequest
from engine.sampling.device import Sampler
from engine.sampling.params import SamplingParams
from tests.engine.sampling_oracle import adjusted, expected_probabilities, some_logits

SIZE = 12


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.inf),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", 1e-300),
        ("repetition_penalty", 1e300),
        ("repetition_penalty", math.nan),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -2.1),
        ("logit_bias", ((-1, 1.0),)),
        ("logit_bias", ((7, 1e300), (8, 1e300))),
        ("logit_bias", ((7, 1.0), (8, -1e39))),
        ("logit_bias", ((7, math.nan),)),
    ],
)
def test_a_value_outside_its_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=f"{name} is .*; it must be "):
        SamplingParams(**{name: value})


@pytest.mark.parametrize("temperature", [0.01, 1.0, 1e30])
@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
@pytest.mark.parametrize(
    "bias",
    [((7, 1e30), (8, 1e30)), ((7, -1e30),), tuple((token, -1e30) for token in range(SIZE))],
    ids=["two for sure", "never", "all alike"],
)
def test_at_the_ends_of_the_ranges_no_token_is_drawn_that_has_no_chance(
    temperature: float, penalty: float, bias: tuple[tuple[int, float], ...]
) -> None:
    params = SamplingParams(
        temperature=temperature, min_p=1e-3, repetition_penalty=penalty, logit_bias=bias, seed=1
    )
    logits, generated, prompt = some_logits(3, SIZE), [7, 2], [8, 4]
    as_stored = logits.astype(np.float32).astype(np.float64)
    allowed = expected_probabilities(adjusted(params, as_stored, generated, prompt), params) > 0
    row = logits.astype(np.float32)
    device, host = Sampler(params, SIZE), Sampler(params, SIZE)
    for _ in range(40):
        assert allowed[int(device.sample(mx.array(row), generated, prompt).item())]
        assert allowed[host.sample_on_host(row[None], generated, prompt)[0]]
