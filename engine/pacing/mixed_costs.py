"""How much longer an answer's step takes with some of a prompt's tokens among its rows; measured at rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import mlx.core as mx

from engine.loading.model import LoadedModel
from engine.runner import Runner
from engine.steps.parts import Part
from engine.steps.rehearsal import Stage, rehearsal

LONGEST = 1.9
"""Times the answer's own step: tokens with which it takes longer are the most that are measured."""

_MOST = 512
"""Tokens that are measured."""
_BEHIND = 2048
"""Tokens before the answer's, and before the prompt's, where the model takes as many."""
_STEPS = 3
"""Sent behind each other, as a device works on one while the host builds the next."""
_ROUNDS = 3
"""That count: each is a call, as a request may come that would wait."""


class MixedStepBroke(Exception):
    """A step with a prompt's tokens among an answer's broke at rest, by its cause: prompts go apart then."""


class MixedCosts:
    """Measures them for more and more tokens of a prompt.

    Attributes:
        times: by their number, how many times as long the step takes; none where one broke.
    """

    def __init__(self, runner: Runner, model: LoadedModel) -> None:
        self._runner, self._model = runner, model
        self._next = model.pager.page_size
        self._behind = min(_BEHIND, model.info.context_length - _MOST)
        self.times = dict[int, float]()
        self._ratios = list[float]()

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to be measured."""
        return self._behind <= 0 or self._next > _MOST

    def next(self) -> None:
        """Measure once more, as often as it takes to know the next number of tokens.

        Nothing more is measured after it raises: MixedStepBroke, or what an answer's own step may raise.
        """
        tokens, self._next = self._next, _MOST + 1
        with rehearsal(self._runner, self._model) as stage:
            self._ratios.append(self._ratio(stage, tokens))
        if len(self._ratios) <= _ROUNDS:
            self._next = tokens
            return
        self.times[tokens] = median(self._ratios[1:])  # the first one compiles
        self._ratios.clear()
        if self.times[tokens] <= LONGEST:
            self._next = 2 * tokens

    def _ratio(self, stage: Stage, tokens: int) -> float:
        def part(new: int, rows: int) -> Part:
            return Part(stage.table(self._behind, new), new, rows)

        def alone() -> None:
            mx.async_eval(self._runner.step([part(1, 1)], mx.zeros(1, mx.uint32)))

        def mixed() -> None:
            parts = [part(1, 1), part(tokens, 0)]
            mx.async_eval(self._runner.step(parts, mx.zeros(1 + tokens, mx.uint32)))

        try:
            seconds = self._seconds(mixed)
        except Exception as error:  # such as of a kernel that nothing else needs
            self.times.clear()
            raise MixedStepBroke from error
        return seconds / self._seconds(alone)

    def _seconds(self, step: Callable[[], None]) -> float:
        began = time.perf_counter()
        for _ in range(_STEPS):
            step()
        mx.eval(self._runner.results)
        return time.perf_counter() - began
