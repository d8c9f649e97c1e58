"""Drawing on a CPU's host, against float64 NumPy and against what a device draws from."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given

from engine.layers.ops import pick
from engine.sampling.device import Sampler
from engine.sampling.draws import Drawing, draw
from engine.sampling.host import HostAdjustment, drawn, filtered_weights, masses
from engine.sampling.params import SamplingParams
from engine.speculation.draft import Draft
from engine.speculation.verify import verify
from tests.engine.sampling_oracle import (
    ADJUSTED,
    FILTERS,
    SPREAD,
    TOKENS,
    VOCAB,
    adjusted,
    assert_follow,
    expected_probabilities,
    label,
    seeded,
    some_logits,
)

LARGE = 20_000


def rows_of(count: int) -> np.ndarray:
    return np.stack([some_logits(seed) for seed in range(count)]).astype(np.float32)


@pytest.mark.parametrize("params", FILTERS, ids=label)
@pytest.mark.parametrize("seed", range(4))
def test_the_filtered_distribution_is_exact(params: SamplingParams, seed: int) -> None:
    logits = some_logits(seed)
    weights = filtered_weights(logits.astype(np.float32), params).astype(np.float64)
    expected = expected_probabilities(logits, params)
    np.testing.assert_allclose(weights / weights.sum(), expected, rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("scale", [0.01, 0.5, 3.0])  # thousands in the nucleus, and a few
@pytest.mark.parametrize("top_p", [0.02, 0.5, 0.99, 0.999])
@pytest.mark.parametrize("top_k", [0, 300])
def test_a_large_vocabulary_is_filtered_exactly(scale: float, top_p: float, top_k: int) -> None:
    params = SamplingParams(temperature=0.7, top_p=top_p, top_k=top_k)
    logits = np.random.default_rng(3).normal(scale=scale, size=LARGE).astype(np.float32)
    weights = filtered_weights(logits, params).astype(np.float64)
    expected = expected_probabilities(logits.astype(np.float64), params)
    assert abs(np.count_nonzero(weights) - np.count_nonzero(expected)) <= 1  # one may stand at the edge
    np.testing.assert_allclose(
        weights / weights.sum(), expected, rtol=2e-3, atol=2 * expected[expected > 0].min()
    )


@pytest.mark.parametrize("temperature", [1e-300, 1e-20, 1e-4])
def test_a_very_low_temperature_is_greedy(temperature: float) -> None:
    logits = some_logits(1).astype(np.float32)
    with np.errstate(over="ignore"):
        token = drawn(logits, SamplingParams(temperature=temperature), 0.9999)
    assert token == logits.argmax()


@pytest.mark.parametrize("params", SPREAD, ids=label)
def test_samples_follow_the_distribution(params: SamplingParams) -> None:
    logits = some_logits(5, 12, scale=1.5)
    sampler, row = Sampler(seeded(params, 7), 12), logits.astype(np.float32)[None]
    found = [sampler.sample_on_host(row, [], [])[0] for _ in range(4000)]
    assert_follow(found, expected_probabilities(logits, params))


@pytest.mark.parametrize("chance", [0.0, 0.5, 1 - 2**-53])
def test_what_has_no_chance_is_never_drawn(chance: float) -> None:
    logits = np.full(9, -np.inf, np.float32)
    logits[4] = 1
    assert drawn(logits, SamplingParams(temperature=1.0), chance) == 4


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_told_by_their_mass(bad: float) -> None:
    logits = rows_of(2)
    logits[1, 3] = bad
    drawing = Drawing(Sampler(SamplingParams(temperature=1.0, seed=1), VOCAB), [], [])
    tokens, found = draw(mx.array(logits), [drawing] * 2, pick, on_host=True).read()
    assert np.isfinite(found[0])
    assert not np.isfinite(found[1])
    assert all(0 <= token < VOCAB for token in tokens)


@given(params=ADJUSTED, generated=TOKENS, draft=TOKENS, prompt=TOKENS)
def test_bias_and_penalties_of_rows_are_those_of_each_beginning(
    params: SamplingParams, generated: list[int], draft: list[int], prompt: list[int]
) -> None:
    adjustment, rows = HostAdjustment(params, VOCAB), rows_of(len(draft) + 1)
    for length in range(len(generated) + 1):  # an answer as it grows
        got = adjustment(rows[:1], generated[:length], prompt, [])
        expected = adjusted(params, rows[0].astype(np.float64), generated[:length], prompt)
        np.testing.assert_allclose(got[0], expected, rtol=1e-5, atol=1e-4)
    got = adjustment(rows, generated, prompt, draft)
    assert got.dtype == np.float32
    for place, row in enumerate(rows):
        expected = adjusted(params, row.astype(np.float64), [*generated, *draft[:place]], prompt)
        np.testing.assert_allclose(got[place], expected, rtol=1e-5, atol=1e-4)
    got = adjustment(rows[:1], [], prompt, [])  # one that begins again
    np.testing.assert_allclose(
        got[0], adjusted(params, rows[0].astype(np.float64), [], prompt), rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("more", [{}, {"frequency_penalty": 1.0}])
@pytest.mark.parametrize("params", [SamplingParams(), *FILTERS], ids=label)
def test_a_draft_is_checked_by_the_draws_that_would_have_been_made(
    params: SamplingParams, more: dict[str, float]
) -> None:
    params, rows = replace(seeded(params, 2), **more), rows_of(8)
    one_by_one, answer = Sampler(params, VOCAB), [5, 5]
    for row in rows:
        drawing = Drawing(one_by_one, tuple(answer), [3])
        answer += draw(mx.array(row[None]), [drawing], pick, on_host=True).read()[0]
    for right in range(7):
        draft = [*answer[2 : 2 + right], *[(token + 1) % VOCAB for token in answer[2 + right : 9]]]
        sampler = Sampler(params, VOCAB)
        check = verify(mx.array(rows), Draft(tuple(draft), match=0), sampler, (5, 5), (3,), on_host=True)
        verdict = check.read()
        assert verdict.tokens == tuple(answer[2 : 3 + right])
        assert verdict.is_finite
        assert sampler.keys.drawn == (0 if sampler.is_greedy or not params.temperature else right + 1)


def test_a_token_in_flight_counts() -> None:
    params = SamplingParams(frequency_penalty=2.0)
    row = mx.array([[1.0, 0.5, 0.0]])
    for pending, expected in ((0, 1), (2, 0)):
        drawing = Drawing(Sampler(params, 3), [], [], mx.array(pending, dtype=mx.uint32))
        assert draw(row, [drawing], pick, on_host=True).read()[0] == [expected]


def test_masses_are_those_of_the_device() -> None:
    rows = rows_of(5) * 30
    np.testing.assert_allclose(masses(rows), np.array(mx.logsumexp(mx.array(rows), axis=-1)), rtol=1e-6)
