"""Costs learned from measurements: seconds as a sum of multiples of what work consists of. Pure Python."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

_KEPT = 5  # measurements of each size that are kept
_FADE = 0.97  # weight that a measurement keeps when another comes
_ROUNDS = 5  # of weighing measurements by how well they fit
_SPREAD = 0.15  # relative error that halves a measurement's weight
_STALE = 8  # measurements after which costs are worked out again; a quarter of them while there are few
_FEWEST = 2  # a first one alone may have compiled something
_DOUBT = 0.003  # weight of what is taken to cost nothing, where a latest measurement has 1

Features = tuple[float, ...]
"""Numbers that the time of some work may grow with; of work that was measured the first is 1."""


class CostFit:
    """Seconds as a sum of non-negative multiples of features, by weighted least squares of relative errors.

    Of each size (features within a factor of two) the latest measurements are kept, and older ones count
    less, so that a machine that slows down is followed without forgetting sizes that are rare. What does not
    fit the rest, such as a step that compiled its kernels, loses its weight.
    """

    def __init__(self, doubted: Features = (), fewest: int = _FEWEST) -> None:
        """
        Args:
            doubted: features that are taken to cost nothing, as far as measurements do not say otherwise:
                what was measured with little of a feature says next to nothing of much of it.
            fewest: measurements before which nothing is said.
        """
        self._doubted, self._fewest = doubted, fewest
        self._kept: dict[tuple[int, ...], deque[tuple[int, Features, float]]] = {}
        self._count = 0
        self._costs: Features | None = None
        self._fitted_at = 0

    def add(self, features: Features, seconds: float) -> None:
        """Work of these `features`, the first of them 1, took `seconds`; only positive times count."""
        if not (0 < seconds < math.inf):
            return
        size = tuple(int(value).bit_length() for value in features)
        self._count += 1
        self._kept.setdefault(size, deque(maxlen=_KEPT)).append((self._count, features, seconds))

    @property
    def kept(self) -> int:
        """How many measurements there are."""
        return sum(map(len, self._kept.values()))

    def total(self, feature: int) -> float:
        """Of that feature in all measurements together."""
        return sum(features[feature] for kept in self._kept.values() for _, features, _ in kept)

    def most(self, feature: int) -> float:
        """Of that feature in the measurement that has most of it."""
        measured = (features[feature] for kept in self._kept.values() for _, features, _ in kept)
        return max(measured, default=0.0)

    def forget(self) -> None:
        """Drop the oldest measurement, where there is one."""
        oldest = min(filter(None, self._kept.values()), key=lambda kept: kept[0][0], default=None)
        if oldest is not None:
            oldest.popleft()
            self._costs = None

    def seconds(self, features: Features) -> float | None:
        """What work of these features takes; None while there are too few measurements."""
        if self._costs is None and self.kept < self._fewest:
            return None
        fresh = self._count - self._fitted_at
        if self._costs is None or fresh >= min(_STALE, max(1, self._fitted_at // 4)):
            self._costs, self._fitted_at = self._fitted(), self._count
        return _dot(self._costs, features)

    def measurements(self) -> list[tuple[Features, float]]:
        """Those that are kept, the oldest first."""
        kept = sorted(itertools.chain.from_iterable(self._kept.values()))
        return [(features, seconds) for _, features, seconds in kept]

    def _fitted(self) -> Features:
        kept = list(itertools.chain.from_iterable(self._kept.values()))
        rows = [(features, seconds, _FADE ** (self._count - at)) for at, features, seconds in kept]
        doubt = _DOUBT / min(seconds for _, seconds, _ in rows) ** 2
        doubts = [(self._doubted, 0.0, doubt)] if self._doubted else []
        # By the measured time at first: one that took too long has little weight from the start.
        first = [(features, seconds, weight / seconds**2) for features, seconds, weight in rows]
        costs = _solve([*first, *doubts])
        for _ in range(_ROUNDS):
            costs = _solve([*_reweighed(rows, costs), *doubts])
        return costs


def _reweighed(
    rows: Iterable[tuple[Features, float, float]], costs: Features
) -> Iterator[tuple[Features, float, float]]:
    """The rows, weighed by how well `costs` explain them."""
    for features, seconds, weight in rows:
        expected = max(_dot(costs, features), 1e-9)
        error = (seconds - expected) / min(expected, seconds)
        yield features, seconds, weight / expected**2 / (1 + (error / _SPREAD) ** 2)


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _solve(rows: Sequence[tuple[Features, float, float]]) -> Features:
    """Non-negative least squares: of all choices of features that count, the best without negative costs."""
    width = len(rows[0][0])
    gram = [[sum(w * f[i] * f[j] for f, _, w in rows) for j in range(width)] for i in range(width)]
    right = [sum(w * f[i] * t for f, t, w in rows) for i in range(width)]
    best, best_gain = (0.0,) * width, -math.inf
    for count in range(1, width + 1):
        for chosen in itertools.combinations(range(width), count):
            costs = _linear([[gram[i][j] for j in chosen] for i in chosen], [right[i] for i in chosen])
            if costs is None or min(costs) < 0:
                continue
            gain = _dot(costs, [right[i] for i in chosen])  # by how much the squared error falls
            if gain > best_gain * (1 + 1e-9):
                best_gain = gain
                found = dict(zip(chosen, costs, strict=True))
                best = tuple(found.get(i, 0.0) for i in range(width))
    return best


def _linear(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """The solution of a small symmetric system, by elimination; None where it is not determined."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for i in range(size):
        pivot = rows[i][i]
        if pivot <= 1e-9 * matrix[i][i]:
            return None
        for j in range(i + 1, size):
            factor = rows[j][i] / pivot
            rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    solution = [0.0] * size
    for i in reversed(range(size)):
        known = sum(rows[i][j] * solution[j] for j in range(i + 1, size))
        solution[i] = (rows[i][size] - known) / rows[i][i]
    return solution
