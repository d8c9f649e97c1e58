"""Sampling against float64 NumPy: the exact distribution, and samples that follow it."""

import io
import math
import re

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidRequest
from engine.sampling.device import Adjustment, Sampler, candidates, token_logprobs
from engine.sampling.params import SamplingParams
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


def filtered_logprobs(logits: mx.array, params: SamplingParams) -> np.ndarray:
    """Log-probability with which each token of (…, vocab) logits is drawn, -inf for those filtered out."""
    scores, tokens = candidates(logits, params)
    scores = scores - mx.logsumexp(scores, axis=-1, keepdims=True)
    if tokens is not None:
        scores = mx.put_along_axis(mx.full(logits.shape, -math.inf), tokens, scores, axis=-1)
    return np.array(scores).astype(np.float64)


@pytest.mark.parametrize("params", FILTERS, ids=label)
@pytest.mark.parametrize("seed", range(4))
def test_the_filtered_distribution_is_exact(params: SamplingParams, seed: int) -> None:
    logits = some_logits(seed)
    got = np.exp(filtered_logprobs(mx.array(logits.astype(np.float32)), params))
    np.testing.assert_allclose(got, expected_probabilities(logits, params), rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("temperature", [1e-300, 1e-20, 1e-4])
def test_a_very_low_temperature_is_greedy_and_finite(temperature: float) -> None:
    logits = some_logits(1)
    params = SamplingParams(temperature=temperature)
    probabilities = np.exp(filtered_logprobs(mx.array(logits), params))
    assert probabilities[logits.argmax()] == 1
    assert probabilities.sum() == 1


@pytest.mark.parametrize("params", SPREAD, ids=label)
def test_samples_follow_the_distribution(params: SamplingParams) -> None:
    logits = some_logits(5, 12, scale=1.5)
    sampler, array = Sampler(seeded(params, 7), 12), mx.array(logits.astype(np.float32))
    drawn = mx.stack([sampler.sample(array, [], []) for _ in range(4000)])
    assert_follow(drawn.tolist(), expected_probabilities(logits, params))


def run(params: SamplingParams, steps: int = 20) -> list[int]:
    """The tokens of an answer whose logits depend on its last token."""
    sampler, generated = Sampler(params, VOCAB), [0]
    for _ in range(steps):
        logits = mx.array(some_logits(generated[-1]).astype(np.float32))
        generated.append(int(sampler.sample(logits, generated[1:], [3, 4]).item()))
    return generated


@pytest.mark.parametrize(
    "params", [{"top_k": 20}, {"top_p": 0.9}, {}, {"min_p": 0.01, "presence_penalty": 1.0}]
)
def test_the_same_seed_gives_the_same_tokens(params: dict[str, float]) -> None:
    first = run(SamplingParams(temperature=1.5, seed=11, **params))
    assert run(SamplingParams(temperature=1.5, seed=11, **params)) == first
    assert run(SamplingParams(temperature=1.5, seed=12, **params)) != first
    assert run(SamplingParams(temperature=1.5, **params)) != run(SamplingParams(temperature=1.5, **params))


@pytest.mark.parametrize("seed", [0, -1, 2**63, 2**70])
def test_any_integer_is_a_seed(seed: int) -> None:
    assert run(SamplingParams(temperature=1.0, seed=seed)) == run(SamplingParams(temperature=1.0, seed=seed))


def test_requests_leave_each_other_and_the_global_generator_alone() -> None:
    params = SamplingParams(temperature=1.5, seed=3)
    alone = run(params)
    mx.random.seed(5)
    before = mx.random.uniform(shape=(4,)).tolist()
    mx.random.seed(5)
    one, other = Sampler(params, VOCAB), Sampler(SamplingParams(temperature=1.5, seed=4), VOCAB)
    generated = [0]
    for _ in range(20):
        logits = mx.array(some_logits(generated[-1]).astype(np.float32))
        other.sample(logits, [], []).item()
        generated.append(int(one.sample(logits, generated[1:], []).item()))
    assert generated == alone
    assert mx.random.uniform(shape=(4,)).tolist() == before


def greedy(params: SamplingParams, logits: np.ndarray, generated: list[int], prompt: list[int]) -> int:
    token = Sampler(params, len(logits)).sample(mx.array(logits.astype(np.float32)), generated, prompt)
    assert token.shape == ()
    return int(token.item())


def test_greedy_takes_the_likeliest_whatever_the_filters() -> None:
    for seed in range(10):
        logits = some_logits(seed)
        assert greedy(SamplingParams(top_k=3, top_p=0.1, min_p=0.5), logits, [], []) == logits.argmax()


def operations(array: mx.array) -> list[str]:
    """Names of the operations that evaluating `array` takes."""
    graph = io.StringIO()
    mx.export_to_dot(graph, array)
    return re.findall(r'label ="(\w+)", shape=rectangle', graph.getvalue())


def test_greedy_is_one_operation_on_the_logits_as_they_are() -> None:
    logits = mx.array(some_logits(0).astype(np.float32)).astype(mx.bfloat16)
    mx.eval(logits)
    token = Sampler(SamplingParams(top_k=5, top_p=0.5), VOCAB).sample(logits, [1], [2])
    assert operations(token) == operations(mx.argmax(logits)) == ["ArgReduce", "Squeeze"]
    assert token.item() == np.array(logits.astype(mx.float32)).argmax()


@given(params=ADJUSTED, generated=TOKENS, prompt=TOKENS, seed=st.integers(0, 20))
def test_bias_and_penalties(
    params: SamplingParams, generated: list[int], prompt: list[int], seed: int
) -> None:
    """One answer, token by token, against a loop over the vocabulary."""
    adjustment = Adjustment(params, VOCAB)
    logits = some_logits(seed)
    for length in range(len(generated) + 1):
        seen = generated[:length]
        expected = adjusted(params, logits, seen, prompt)
        got = adjustment.apply(mx.array(logits.astype(np.float32)), seen, prompt)
        np.testing.assert_allclose(np.array(got), expected, rtol=1e-5, atol=1e-4)


@given(params=ADJUSTED, generated=TOKENS, draft=TOKENS, prompt=TOKENS)
def test_bias_and_penalties_of_rows_are_those_of_each_beginning(
    params: SamplingParams, generated: list[int], draft: list[int], prompt: list[int]
) -> None:
    rows = mx.array(np.stack([some_logits(seed) for seed in range(len(draft) + 1)]).astype(np.float32))
    got = Adjustment(params, VOCAB).apply_rows(rows, generated, prompt, draft)
    alone = Adjustment(params, VOCAB)
    expected = [alone.apply(row, [*generated, *draft[:count]], prompt) for count, row in enumerate(rows)]
    np.testing.assert_allclose(np.array(got), np.array(mx.stack(expected)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("params", [SamplingParams(), *FILTERS], ids=label)
def test_rows_are_drawn_as_one_after_another_would_be(params: SamplingParams) -> None:
    rows = mx.array(np.stack([some_logits(seed) for seed in range(8)]).astype(np.float32))
    sampler, draft = Sampler(seeded(params, 2), VOCAB), [4] * 7
    alone = [int(sampler.sample(row, [], []).item()) for row in rows]
    assert Sampler(seeded(params, 2), VOCAB).sample_rows(rows, [], [], draft).tolist() == alone


@pytest.mark.parametrize("params", FILTERS, ids=label)
def test_the_filtered_distributions_of_rows_are_those_of_each(params: SamplingParams) -> None:
    rows = mx.array(np.stack([some_logits(seed) for seed in range(4)]).astype(np.float32))
    expected = np.stack([filtered_logprobs(row, params) for row in rows])
    np.testing.assert_allclose(filtered_logprobs(rows, params), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, 0),
        ({"logit_bias": ((2, 9.0),)}, 2),
        ({"repetition_penalty": 4.0}, 1),
        ({"presence_penalty": 2.0}, 1),
        ({"frequency_penalty": 1.0}, 1),
    ],
)
def test_sampling_is_of_the_adjusted_logits(params: dict[str, object], expected: int) -> None:
    assert greedy(SamplingParams(**params), np.array([2.0, 1.5, 1.0]), [0, 0], []) == expected


def test_penalties_start_afresh_for_a_shorter_answer() -> None:
    sampler = Sampler(SamplingParams(frequency_penalty=2.0), 3)
    logits = mx.array([1.0, 0.5, 0.0])
    assert sampler.sample(logits, [0, 0], []).item() == 1
    assert sampler.sample(logits, [], []).item() == 0


def test_bias_on_a_token_that_the_model_lacks_is_refused() -> None:
    Sampler(SamplingParams(logit_bias=((VOCAB - 1, 1.0),)), VOCAB)
    with pytest.raises(InvalidRequest, match="logit_bias names token 50"):
        Sampler(SamplingParams(logit_bias=((VOCAB, 1.0),)), VOCAB)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("k", [0, 1, 5, VOCAB, VOCAB + 5])
def test_log_probabilities(dtype: mx.Dtype, k: int) -> None:
    array = mx.array(some_logits(2).astype(np.float32)).astype(dtype)
    logits = np.array(array.astype(mx.float32)).astype(np.float64)
    expected = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
    got = token_logprobs(array, 9, k)
    assert got.id == 9
    assert got.logprob == pytest.approx(expected[9], abs=1e-5)
    order = sorted(range(VOCAB), key=lambda i: (-logits[i], i))[:k]
    assert [entry.id for entry in got.top] == order
    assert [entry.logprob for entry in got.top] == pytest.approx(expected[order], abs=1e-5)


def test_equally_likely_tokens_come_in_the_order_of_their_ids() -> None:
    logits = mx.array([0.0, 2.0, 1.0, 2.0, 1.0, 1.0, 2.0])
    assert [entry.id for entry in token_logprobs(logits, 0, 4).top] == [1, 3, 6, 2]
    assert [entry.id for entry in token_logprobs(mx.zeros((9000,)), 0, 3).top] == [0, 1, 2]
    assert token_logprobs(logits, 0, 1).top[0].id == mx.argmax(logits).item()
