"""What steps take on this machine, learned from those that ran. Pure Python."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

VERSION = 5
_KEPT = 6  # measurements of each size that are kept
_FADE = 0.97  # weight that a measurement keeps when another comes
_ROUNDS = 5  # of weighing measurements by how well they fit
_SPREAD = 0.15  # relative error that halves a measurement's weight
_STALE = 8  # measurements after which costs are worked out again; a quarter of them while there are few
_FEWEST = 2  # a first one alone may have compiled something
_LATEST = 5  # requests whose pace is followed
_FEWEST_LATEST = 3
_CLEAR = 0.25  # share of a request's time that reading pages back must have to be learned from it
_REFUSALS = 4  # after which one of the requests that spoke against restoring is forgotten
_DOUBT = 0.003  # weight of what is taken to cost nothing, where a latest measurement has 1

SHORT = 8
"""Tokens up to which a prompt's rest is computed like an answer's, which takes other kernels."""

Features = tuple[float, ...]

_WIDTHS = {"prefill": 4, "short": 3, "restore": 2, "returned": 2}
_HISTORY = 4096.0  # tokens of a long chat


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

    def forget(self) -> None:
        """Drop the oldest measurement, where there is one."""
        oldest = min(filter(None, self._kept.values()), key=lambda kept: kept[0][0], default=None)
        if oldest is not None:
            oldest.popleft()
            self._costs = None

    def seconds(self, features: Features) -> float | None:
        """What work of these features takes; None while there are too few measurements."""
        if self._costs is None and sum(map(len, self._kept.values())) < self._fewest:
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


class Rates:
    """What prefill and restoring pages take for one model on one machine, in seconds.

    For what is told and decided before a request runs. How long the next step's chunk may be is for
    engine.chunking, which follows the last steps and asks nothing of rare sizes.
    """

    def __init__(self) -> None:
        self._prefill = CostFit((0.0, 0.0, 8 * _HISTORY, _HISTORY))
        self._short = CostFit((0.0, 0.0, _HISTORY))
        self._restore, self._returned = CostFit(fewest=1), CostFit()  # reading compiles nothing
        self._refusals = 0
        self._latest: deque[float] = deque(maxlen=_LATEST)  # what requests took of what was expected of them

    def prefilled(self, tokens: int, context: int, seconds: float) -> None:
        """`tokens` prompt tokens behind `context` others, alone in their step, took `seconds`."""
        if tokens > SHORT:
            self._prefill.add(_chunk(tokens, context), seconds)

    def answered(self, tokens: int, context: int, steps: int, seconds: float) -> None:
        """A request of so many tokens to compute, in `steps`, had its first token after `seconds`.

        Counted from when the engine turned to it, nobody else being there: what a request takes besides its
        steps is in it.
        """
        expected = self._work_seconds(tokens, context, steps)
        if expected and 0 < seconds < math.inf:
            self._latest.append(seconds / expected)
        if tokens > SHORT:
            self._prefill.add(_chunk(tokens, context), seconds)
        else:
            self._short.add(_few(steps, context), seconds)

    def restored(self, nbytes: int, seconds: float) -> None:
        """Reading `nbytes` of pages back from SSD took `seconds`."""
        if nbytes > 0:
            self._restore.add((1.0, float(nbytes)), seconds)

    def returned(self, nbytes: int, tokens: int, context: int, steps: int, seconds: float) -> None:
        """As `answered`, of a request for which `nbytes` of pages were read back first.

        What is more than its steps were expected to take is the cost of restoring: a device may have to move
        pages that the host has read, at the first step that needs them.
        """
        work = self._work_seconds(tokens, context, steps)
        if nbytes > 0 and work is not None and seconds < math.inf:
            restoring = seconds - self._pace() * work
            if restoring >= _CLEAR * seconds:
                self._returned.add((1.0, float(nbytes)), restoring)

    def refused(self) -> None:
        """Pages were computed again, as restoring them was expected to take longer.

        Nobody learns what restoring would have taken, so that one bad hour would speak against it for good:
        of some refusals each forgets a request of `returned`, and sooner or later it is tried again.
        """
        self._refusals += 1
        if self._refusals % _REFUSALS == 0:
            self._returned.forget()

    def prefill_seconds(self, tokens: int, context: int) -> float | None:
        """What `tokens` prompt tokens behind `context` others take."""
        return self._prefill.seconds(_chunk(tokens, context)) if tokens > 0 else 0.0

    def restore_seconds(self, nbytes: int) -> float | None:
        """What reading `nbytes` of pages back takes: as requests have shown, before they have, reads."""
        if nbytes <= 0:
            return 0.0
        whole = self._returned.seconds((1.0, float(nbytes)))
        return self._restore.seconds((1.0, float(nbytes))) if whole is None else whole

    def first_token_seconds(
        self,
        new_tokens: int,
        cached: int,
        steps: int = 1,
        queue_seconds: float = 0.0,
        *,
        restored_bytes: int = 0,
    ) -> float | None:
        """From now to the first token of a prompt; None until what it needs was measured.

        Args:
            new_tokens: tokens to compute; at least the last of a prompt is.
            cached: tokens before them that need no computing.
            steps: that compute the new ones; of a few, their number is what counts.
            queue_seconds: until its turn.
            restored_bytes: of cached pages that are read back first.
        """
        work = self._work_seconds(new_tokens, cached, steps)
        restore = self.restore_seconds(restored_bytes)
        if work is None or restore is None:
            return None
        return queue_seconds + restore + self._pace() * work

    def _work_seconds(self, new_tokens: int, cached: int, steps: int) -> float | None:
        """What computing takes by all that was measured, at the pace of then."""
        few = self._short.seconds(_few(steps, cached)) if new_tokens <= SHORT else None
        return self.prefill_seconds(max(1, new_tokens), cached) if few is None else few

    def _pace(self) -> float:
        """Half of how much slower or quicker, in ratio, the last requests were than expected.

        A machine's speed shifts within seconds, sooner than its costs are learned anew; but some of what
        a few requests say is chance.
        """
        return math.sqrt(statistics.median(self._latest)) if len(self._latest) >= _FEWEST_LATEST else 1.0

    def to_json(self, about: str) -> str:
        """What was measured, as text; `about` names the machine and model that it holds for."""
        fits = {name: fit.measurements() for name, fit in self._fits().items()}
        return json.dumps({"version": VERSION, "about": about, **fits})

    @classmethod
    def from_json(cls, text: str, about: str) -> Rates | None:
        """What `to_json` wrote; None when `text` is damaged, or of another version or `about`."""
        rates = cls()
        try:
            data = cast("dict[str, object]", json.loads(text))
            if data["version"] != VERSION or data["about"] != about:
                return None
            for name, fit in rates._fits().items():
                for features, seconds in cast("list[tuple[list[float], float]]", data[name]):
                    fit.add(_checked(features, _WIDTHS[name]), float(seconds))
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
            return None
        return rates

    def _fits(self) -> dict[str, CostFit]:
        return {
            "prefill": self._prefill,
            "short": self._short,
            "restore": self._restore,
            "returned": self._returned,
        }


def _chunk(tokens: int, context: int) -> Features:
    """A chunk's launches, its tokens, the pairs of tokens that attention compares, and what it looks back on.

    However few its tokens are, the keys and values of all before them have to be brought together.
    """
    return 1.0, float(tokens), tokens * (context + tokens / 2), float(context)


def _few(steps: int, context: int) -> Features:
    """The steps that a few tokens take, and what they look back on."""
    return 1.0, float(steps), float(context)


def _checked(features: Sequence[float], width: int) -> Features:
    """Raises ValueError for features that no measurement has."""
    values = tuple(float(value) for value in features)
    if len(values) != width or values[0] != 1.0 or not all(0 <= value < 1e18 for value in values):
        raise ValueError("not a measurement")
    return values
