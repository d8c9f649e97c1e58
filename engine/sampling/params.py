"""The values that say how a next token is drawn; no arrays live here, so commands can carry them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.errors import InvalidRequest

COLDEST = 1e-30
"""A temperature: a colder one would underflow in float32, and at this one only ties with the best survive."""

MOST_BIAS, LEAST_PENALTY, MOST_PENALTY = 1e30, 0.01, 100.0
"""Bias and repetition penalty within these keep logits finite in float32: they make a distribution."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How each next token is drawn from the logits.

    The order is the field's usual one: logit bias and penalties, then (at temperature > 0)
    temperature, top-k, top-p, min-p. Temperature 0 is greedy. Reported log-probabilities are of the
    distribution before temperature and filters.

    Attributes:
        temperature: >= 0; 0 means greedy.
        top_k: keep the k likeliest tokens; 0 keeps all.
        top_p: keep the smallest set whose probability reaches p; 1 keeps all.
        min_p: drop tokens below min_p times the likeliest one's probability; 0 keeps all.
        repetition_penalty: 0.01 to 100; divides positive and multiplies negative logits of seen tokens; 1 is
            off.
        presence_penalty: subtracted once from every token generated so far.
        frequency_penalty: subtracted per occurrence from every token generated so far.
        logit_bias: (token id, bias) pairs, added to the logits; each from -1e30 to 1e30.
        seed: same seed, same text; None draws a fresh one.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        """Raises InvalidRequest, naming the field, when a value is outside its range."""
        _require(0 <= self.temperature < math.inf, "temperature", self.temperature, "0 or more")
        _require(self.top_k >= 0, "top_k", self.top_k, "0 or more (0 is off)")
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "above 0 and at most 1")
        _require(0 <= self.min_p <= 1, "min_p", self.min_p, "between 0 and 1")
        _require(
            LEAST_PENALTY <= self.repetition_penalty <= MOST_PENALTY,
            "repetition_penalty",
            self.repetition_penalty,
            "from 0.01 to 100 (1 is off)",
        )
        _require(
            abs(self.presence_penalty) <= 2, "presence_penalty", self.presence_penalty, "between -2 and 2"
        )
        _require(
            abs(self.frequency_penalty) <= 2, "frequency_penalty", self.frequency_penalty, "between -2 and 2"
        )
        for token, bias in self.logit_bias:
            _require(
                token >= 0 and abs(bias) <= MOST_BIAS,
                "logit_bias",
                (token, bias),
                "a token id and a number from -1e30 to 1e30",
            )


def _require(ok: bool, name: str, value: object, expected: str) -> None:
    if not ok:
        raise InvalidRequest(f"{name} is {value}; it must be {expected}")
