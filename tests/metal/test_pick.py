"""The greedy choice against numpy in float64, on every executor."""

import math
from collections import Counter

import mlx.core as mx
import numpy as np
import pytest

from metal.errors import KernelError
from metal.executors import Executor
from metal.pick import Pick
from tests.metal.numbers import normal, wide


def check(executor: Executor, rows: int, vocab: int) -> None:
    logits = normal((rows, vocab), seed=vocab) * 7
    token, mass = Pick(executor, Counter())(logits)
    exact = wide(logits)
    top = exact.max(axis=1, keepdims=True)
    assert token.tolist() == exact.argmax(axis=1).tolist()
    np.testing.assert_allclose(wide(mass), top[:, 0] + np.log(np.exp(exact - top).sum(axis=1)), rtol=1e-5)


@pytest.mark.parametrize(("rows", "vocab"), [(1, 4096), (3, 32000), (2, 1003), (1, 33)])
def test_token_and_mass(executor: Executor, rows: int, vocab: int) -> None:
    check(executor, rows, vocab)


def test_the_first_of_equals(executor: Executor) -> None:
    logits = np.zeros((2, 5000), np.float32)
    logits[0, [77, 78, 4999]] = 2
    token, _ = Pick(executor, Counter())(mx.array(logits))
    assert token.tolist() == [77, 0]


@pytest.mark.parametrize("vocab", [64, 65])
def test_logits_that_are_no_distribution_have_no_finite_mass(executor: Executor, vocab: int) -> None:
    logits = np.random.default_rng(0).normal(size=(4, vocab)).astype(np.float32)
    logits[0, 9], logits[1, 40], logits[2, :], logits[3, 5] = math.nan, math.inf, -math.inf, -math.inf
    token, mass = Pick(executor, Counter())(mx.array(logits))
    assert np.isfinite(wide(mass)).tolist() == [False, False, False, True]
    assert all(0 <= int(each) < vocab for each in np.array(token))


def test_refuses_what_it_does_not_take(executor: Executor) -> None:
    for logits in (mx.zeros(64), mx.zeros((1, 64), mx.float16)):
        with pytest.raises(KernelError, match="pick: logits"):
            Pick(executor, Counter())(logits)
