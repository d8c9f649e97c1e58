"""What a trial compares: an op at one shape class, its candidates, how they agree, how they are chained."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, cast

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal.executors import Executor

Value = int | float | str | bool | None
Params = Mapping[str, Value]
Arrays = tuple[mx.array, ...]
Step = Callable[[mx.array], Sequence[mx.array]]

TOLERANCE: Mapping[str, float] = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
"""The largest error, as a share of the largest value, by the dtype computed in."""


@dataclass(frozen=True, slots=True)
class CaseSpec:
    """A case in words, so that another process can build it.

    Attributes:
        provider: the module that knows the op: it has `CASES`, a mapping of ops to builders.
        op: the builder's name.
        params: what the builder is called with.
    """

    provider: str
    op: str
    params: Params = field(default_factory=dict[str, Value])


@dataclass(frozen=True, slots=True)
class Contender:
    """A candidate's name and the hash of its kernels' text, "" for MLX's built-in."""

    name: str
    digest: str = ""


class Case(Protocol):
    """An op at a shape class. Making one launches and compiles nothing."""

    @property
    def key(self) -> str:
        """The op and its shape class, such as "rms_norm add float16 width2048 rows1"."""
        ...

    @property
    def spec(self) -> CaseSpec:
        """From which another process builds this case."""
        ...

    @property
    def contenders(self) -> tuple[Contender, ...]:
        """The candidates, MLX's built-in first."""
        ...

    @property
    def tolerance(self) -> float:
        """The largest `error` with which a kernel agrees. MLX's built-in is right by definition."""
        ...

    @property
    def counts_host(self) -> bool:
        """Whether the time in which the host builds a chain counts, as where it is built at every step."""
        ...

    def error(self, name: str) -> float:
        """Runs candidate `name` and measures how far it is from the reference; NaN if a result is."""
        ...

    def chain(self, name: str, links: int) -> Sequence[mx.array]:
        """Arrays whose evaluation runs candidate `name` `links` times, each waiting for the last."""
        ...


CaseBuilder = Callable[[Params, Executor], Case]


@dataclass(frozen=True, slots=True)
class Data:
    """What the candidates of an op compute with.

    Attributes:
        x: the array that goes through a chain.
        constants: sets of the other arrays. A chain takes them in turn, so that weights which a model would
            read from memory are not found in a cache; agreement is of the first.
        error: compares the outputs for `x` and the first set with the reference.
    """

    x: mx.array
    constants: tuple[Arrays, ...]
    error: Callable[[Sequence[mx.array]], float]


@dataclass(frozen=True, slots=True)
class OpCandidate:
    """One way to compute an op: `bind` takes a set of constants and returns what is called with `x`."""

    name: str
    bind: Callable[[Arrays], Step]
    digest: str = ""


def first_output(_x: mx.array, outputs: Sequence[mx.array]) -> mx.array:
    """The next link's x where the op's first output has x's shape."""
    return outputs[0]


class OpCase:
    """A case of one op whose candidates are functions of the same arrays.

    Args:
        spec, key, tolerance: see `Case`.
        candidates: MLX's built-in first.
        data: makes the arrays, seeded; called at the first run.
        follow: the next link's x, from this link's x and outputs.
    """

    def __init__(
        self,
        spec: CaseSpec,
        key: str,
        candidates: Sequence[OpCandidate],
        *,
        data: Callable[[], Data],
        tolerance: float,
        follow: Callable[[mx.array, Sequence[mx.array]], mx.array] = first_output,
    ) -> None:
        self.spec = spec
        self.key = key
        self.tolerance = tolerance
        self.counts_host = False
        self.contenders = tuple(Contender(candidate.name, candidate.digest) for candidate in candidates)
        self._bind = {candidate.name: candidate.bind for candidate in candidates}
        self._make_data = data
        self._follow = follow
        self._steps: dict[str, list[Step]] = {}

    @cached_property
    def _data(self) -> Data:
        data = self._make_data()
        mx.eval(data.x, data.constants)
        return data

    def error(self, name: str) -> float:
        """See `Case.error`."""
        return self._data.error(self._steps_of(name)[0](self._data.x))

    def chain(self, name: str, links: int) -> list[mx.array]:
        """See `Case.chain`."""
        steps, x = self._steps_of(name), self._data.x
        for link in range(links):
            x = self._follow(x, steps[link % len(steps)](x))
        return [x]

    def _steps_of(self, name: str) -> list[Step]:
        if name not in self._steps:
            self._steps[name] = [self._bind[name](constants) for constants in self._data.constants]
        return self._steps[name]


@dataclass(frozen=True, slots=True)
class SomeRows:
    """What is right in some rows of an output; in the others any finite numbers are.

    Attributes:
        rows: which.
        values: theirs, (rows, ...).
        total: rows of the output.
    """

    rows: NDArray[np.int64]
    values: NDArray[np.float64]
    total: int


def relative_error(result: mx.array, expected: NDArray[np.float64] | SomeRows) -> float:
    """max|result - expected| / max|expected|; NaN if anything is, infinity for another shape."""
    if not isinstance(expected, SomeRows):
        expected = SomeRows(np.arange(len(expected)), expected, len(expected))
    if result.shape != (expected.total, *expected.values.shape[1:]):
        return math.inf
    found = cast("NDArray[np.float32]", np.array(result.astype(mx.float32)))
    if not np.isfinite(found).all():
        return math.nan if np.isnan(found).any() else math.inf
    largest = float(np.abs(expected.values).max())
    return float(np.abs(found[expected.rows] - expected.values).max()) / (largest or 1.0)


def against(*expected: NDArray[np.float64] | SomeRows) -> Callable[[Sequence[mx.array]], float]:
    """The largest `relative_error` of all outputs, for `Data.error`."""

    def error(outputs: Sequence[mx.array]) -> float:
        if len(outputs) != len(expected):
            return math.inf
        errors = [relative_error(output, exact) for output, exact in zip(outputs, expected, strict=True)]
        return math.nan if any(math.isnan(one) for one in errors) else max(errors)

    return error
