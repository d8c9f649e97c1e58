"""What next tokens are drawn from, in float64, as SamplingParams describes it; whether draws follow it."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from engine.sampling.params import SamplingParams

VOCAB = 50


def some_logits(seed: int, size: int = VOCAB, scale: float = 3.0) -> np.ndarray:
    """Logits without two equal ones, exact in float32."""
    values = np.random.default_rng(seed).normal(scale=scale, size=size).astype(np.float32)
    assert len(set(values.tolist())) == size
    return values.astype(np.float64)


def expected_probabilities(logits: np.ndarray, params: SamplingParams) -> np.ndarray:
    """The distribution to draw from, token by token, as SamplingParams describes it."""
    scaled = logits / params.temperature
    probabilities = np.exp(scaled - scaled.max())
    probabilities /= probabilities.sum()
    ranked = sorted(range(len(logits)), key=lambda i: -probabilities[i])
    kept = ranked[: params.top_k] if params.top_k else ranked
    mass = sum(probabilities[i] for i in kept)
    nucleus: list[int] = []
    reached = 0.0
    for i in kept:
        if reached >= params.top_p:
            break
        nucleus.append(i)
        reached += probabilities[i] / mass
    best = probabilities[ranked[0]]
    kept = [i for i in nucleus if probabilities[i] >= params.min_p * best]
    result = np.zeros(len(logits))
    result[kept] = probabilities[kept] / probabilities[kept].sum()
    return result


def label(params: SamplingParams) -> str:
    return f"t{params.temperature}-k{params.top_k}-p{params.top_p}-m{params.min_p}"


FILTERS = [
    SamplingParams(temperature=1.0),
    SamplingParams(temperature=0.3),
    SamplingParams(temperature=2.5),
    SamplingParams(temperature=1.0, top_k=1),
    SamplingParams(temperature=1.3, top_k=7),
    SamplingParams(temperature=1.0, top_k=VOCAB + 9),
    SamplingParams(temperature=1.0, top_p=0.9),
    SamplingParams(temperature=1.0, top_p=1e-6),
    SamplingParams(temperature=1.0, min_p=0.05),
    SamplingParams(temperature=1.0, min_p=1.0),
    SamplingParams(temperature=0.8, top_k=20, top_p=0.8),
    SamplingParams(temperature=1.5, top_k=20, top_p=0.95, min_p=0.1),
    SamplingParams(temperature=1.5, top_p=0.97, min_p=0.02),
]


ADJUSTED = st.builds(
    SamplingParams,
    repetition_penalty=st.sampled_from([1.0, 1.2, 2.0, 0.7]),
    presence_penalty=st.sampled_from([0.0, 0.5, -1.0, 2.0]),
    frequency_penalty=st.sampled_from([0.0, 0.3, -0.5, 2.0]),
    logit_bias=st.lists(
        st.tuples(st.integers(0, VOCAB - 1), st.sampled_from([-100.0, -1.5, 2.0, 100.0]))
    ).map(tuple),
)
TOKENS = st.lists(st.integers(0, VOCAB - 1), max_size=30)


SPREAD = [f for f in FILTERS if f.top_k != 1 and f.top_p > 1e-3 and f.min_p < 1]
"""Those that leave more than one token."""


def assert_follow(drawn: Sequence[int], probabilities: np.ndarray) -> None:
    """Pearson's chi-square of draws; the bound is the 99.99th percentile of its distribution."""
    counts = np.bincount(drawn, minlength=len(probabilities))
    possible = probabilities > 0
    assert counts[~possible].sum() == 0
    expected = len(drawn) * probabilities[possible]
    statistic = ((counts[possible] - expected) ** 2 / expected).sum()
    freedom = max(1, possible.sum() - 1)
    # Wilson and Hilferty's approximation of the chi-square quantile, at z = 3.72
    assert statistic < freedom * (1 - 2 / (9 * freedom) + 3.72 * math.sqrt(2 / (9 * freedom))) ** 3


def adjusted(
    params: SamplingParams, logits: np.ndarray, generated: Sequence[int], prompt: Sequence[int]
) -> np.ndarray:
    """Logits with bias and penalties, by a loop over the vocabulary."""
    expected = logits.copy()
    for token, bias in params.logit_bias:
        expected[token] += bias
    for token in range(len(logits)):
        if token in generated or token in prompt:
            factor = params.repetition_penalty
            expected[token] = expected[token] / factor if expected[token] > 0 else expected[token] * factor
        expected[token] -= params.frequency_penalty * generated.count(token)
        expected[token] -= params.presence_penalty * (token in generated)
    return expected


def seeded(params: SamplingParams, seed: int) -> SamplingParams:
    """The same with that seed."""
    return replace(params, seed=seed)
