"""What steps take on this machine, learned from those that ran. Pure Python."""

from __future__ import annotations

import json
import math
import statistics
from collections import deque
from collections.abc import Sequence
from typing import cast

from engine.prediction.cost_fit import CostFit, Features

VERSION = 10
_LATEST = 5  # requests whose pace is followed
_FEWEST_LATEST = 3
_CLEAR = 0.25  # share of a request's time that reading pages back must have to be learned from it
_ENOUGH = 5  # requests from which more is known than from the chunks of the first
_REFUSALS = 4  # after which one of the requests that spoke against restoring is forgotten

SHORT = 8
"""Tokens up to which a prompt's rest is computed like an answer's, which takes other kernels."""

_FAR = 4
"""Times as many tokens as a request had, or the chunks of the first ones together: of more nothing is said.
Short prompts know what launching takes and next to nothing of a token: seven of 20 to 40 said 0.5 s of 4,000,
which took 5.8, and of some hundred a seventh of what they took."""

_PACE = 0.6  # power of the ratio by which the last requests were slower: as much is expected of the next one

_WIDTHS = {"chunk": 4, "long": 4, "short": 4, "first": 4} | dict.fromkeys(
    ("restore", "fetched", "met", "returned", "growth"), 2
)
_HISTORY = 4096.0  # tokens of a long chat


class Rates:
    """What prefill and restoring pages take for one model on one machine, in seconds.

    For what is told and decided before a request runs. How long the next step's chunk may be is for
    engine.pacing.chunking, which follows the last steps and asks nothing of rare sizes.
    """

    def __init__(self, few: int = 0) -> None:
        """`few`: tokens up to which a chunk takes other kernels than longer ones, and costs of its own.

        On a GPU 33 tokens take half as long again as 32, and as long as 300; on a CPU 65 half as long again
        as 64.
        """
        self._few = few
        doubted = (0.0, 0.0, 8 * _HISTORY, _HISTORY)
        self._chunks, self._longer = CostFit(doubted), CostFit(doubted)
        self._first = CostFit(doubted)
        self._short = CostFit((0.0, 0.0, 0.0, _HISTORY))
        self._restore, self._returned = CostFit(fewest=1), CostFit()  # reading compiles nothing
        self._growth, self._fetched, self._met = (CostFit(fewest=1) for _ in range(3))
        self._refusals = 0
        self._latest: deque[float] = deque(maxlen=_LATEST)  # what requests took of what was expected of them

    def prefilled(self, tokens: int, context: int, seconds: float) -> None:
        """`tokens` prompt tokens behind `context` others, alone in their step, took `seconds`."""
        if tokens > SHORT:
            self._add_chunk(tokens, context, seconds)

    def began(self, tokens: int, context: int, seconds: float) -> None:
        """As `prefilled`, of a chunk of a request that will be `answered`: for as long as few have been."""
        self._first.add(_chunk(tokens, context), seconds)

    @property
    def has_few(self) -> bool:
        """Whether chunks of the first requests still say more than these as a whole."""
        return self._chunks.kept + self._longer.kept < _ENOUGH

    def answered(self, tokens: int, context: int, steps: int, seconds: float) -> None:
        """A request of so many tokens to compute, in `steps`, had its first token after `seconds`.

        Counted from when the engine turned to it, nobody else being there: what a request takes besides its
        steps is in it.
        """
        expected = self._work_seconds(tokens, context, steps)
        if expected and 0 < seconds < math.inf:
            self._latest.append(seconds / expected)
        if tokens > SHORT:
            self._add_chunk(tokens, context, seconds)
        else:
            self._short.add(_few(steps, tokens, context), seconds)

    def restored(self, nbytes: int, seconds: float) -> None:
        """Reading `nbytes` of pages back from SSD took `seconds`."""
        if nbytes > 0:
            self._restore.add((1.0, float(nbytes)), seconds)

    def fetched(self, nbytes: int, seconds: float) -> None:
        """A device took `seconds` to fetch `nbytes` of pages that the host had written."""
        self._fetched.add((1.0, float(nbytes)), seconds)

    def met(self, nbytes: int, seconds: float) -> None:
        """KV memory of `nbytes` went where the host may write it, once since it grew, in `seconds`."""
        self._met.add((1.0, float(nbytes)), seconds)

    @property
    def knows_fetching(self) -> bool:
        """Whether `fetched` was measured."""
        return bool(self._fetched.measurements())

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

    def grew(self, nbytes: int, seconds: float) -> None:
        """KV memory grew to `nbytes`, which took `seconds`."""
        self._growth.add((1.0, float(nbytes)), seconds)

    def prefill_seconds(self, tokens: int, context: int) -> float | None:
        """What `tokens` prompt tokens, one at least, behind `context` others take."""
        known = (fit for fit in self._fits_for(tokens) if tokens <= _FAR * fit.most(1))
        told = (fit.seconds(_chunk(tokens, context)) for fit in known)
        return next((seconds for seconds in told if seconds is not None), None)

    def reading_seconds(self, tokens: int, context: int) -> float | None:
        """The same, as chunks of the first requests have shown until enough are known as a whole."""
        first = self._by_chunks(tokens, context)
        return self.prefill_seconds(tokens, context) if first is None else first

    def restore_seconds(self, nbytes: int, met_bytes: int = 0) -> float | None:
        """What reading `nbytes` of pages back takes, and having a device fetch them.

        As requests have shown; before they have, what is known of reads and of fetching, together. Behind
        either comes what `met_bytes` of KV memory take that the host has not met yet.
        """
        if nbytes <= 0:
            return 0.0
        read = (1.0, float(nbytes))
        parts = [self._returned.seconds(read)]
        if parts == [None]:
            parts = [self._restore.seconds(read), self._fetched.seconds(read)]
        if met_bytes:
            parts.append(self._met.seconds((1.0, float(met_bytes))))
        known = [seconds for seconds in parts if seconds is not None]
        return sum(known) if known else None

    def first_token_seconds(
        self,
        new_tokens: int,
        cached: int,
        steps: int = 1,
        queue_seconds: float = 0.0,
        *,
        restored_bytes: int = 0,
        met_bytes: int = 0,
        grown_bytes: int = 0,
    ) -> float | None:
        """From now to the first token of a prompt; None until what it needs was measured.

        Args:
            new_tokens: tokens to compute; at least the last of a prompt is.
            cached: tokens before them that need no computing.
            steps: that compute the new ones; of a few, their number is what counts.
            queue_seconds: until its turn.
            restored_bytes: of cached pages that are read back first; `met_bytes`: of `restore_seconds`.
            grown_bytes: of KV memory that has to grow first; taken to cost nothing before one has.
        """
        work = self._computing_seconds(new_tokens, cached, steps)
        restore = self.restore_seconds(restored_bytes, met_bytes)
        if work is None or restore is None:
            return None
        growth = self._growth.seconds((1.0, float(grown_bytes))) if grown_bytes else None
        return queue_seconds + restore + (growth or 0.0) + work

    def _computing_seconds(self, new_tokens: int, cached: int, steps: int) -> float | None:
        """What computing is expected to take next."""
        is_known = new_tokens <= SHORT and self._short.seconds(_few(steps, new_tokens, cached)) is not None
        first = None if is_known else self._by_chunks(max(1, new_tokens), cached)
        if first is not None:
            return first
        work = self._work_seconds(new_tokens, cached, steps)
        return None if work is None else self._pace() * work

    def _by_chunks(self, tokens: int, context: int) -> float | None:
        """By chunks of the first requests; None where there is better to go by, or nothing."""
        is_known = 0 < tokens <= _FAR * self._first.total(1)
        return self._first.seconds(_chunk(tokens, context)) if is_known and self.has_few else None

    def _work_seconds(self, new_tokens: int, cached: int, steps: int) -> float | None:
        """What computing takes by all that was measured, at the pace of then."""
        few = self._short.seconds(_few(steps, new_tokens, cached)) if new_tokens <= SHORT else None
        return self.prefill_seconds(max(1, new_tokens), cached) if few is None else few

    def _add_chunk(self, tokens: int, context: int, seconds: float) -> None:
        self._fits_for(tokens)[0].add(_chunk(tokens, context), seconds)

    def _fits_for(self, tokens: int) -> tuple[CostFit, CostFit]:
        """What was learned of chunks about as long, and of others."""
        return (self._chunks, self._longer) if tokens <= self._few else (self._longer, self._chunks)

    def _pace(self) -> float:
        """How much slower or quicker than expected the next request is taken to be, by the last ones.

        A machine's speed shifts within seconds, sooner than its costs are learned anew; but some of what
        a few requests say is chance.
        """
        return statistics.median(self._latest) ** _PACE if len(self._latest) >= _FEWEST_LATEST else 1.0

    def to_json(self, about: str) -> str:
        """What was measured, as text; `about` names the machine and model that it holds for."""
        fits = {name: fit.measurements() for name, fit in self._fits().items()}
        return json.dumps({"version": VERSION, "about": about, **fits})

    @classmethod
    def from_json(cls, text: str, about: str, few: int = 0) -> Rates | None:
        """What `to_json` wrote; None when `text` is damaged, or of another version or `about`."""
        rates = cls(few)
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
            "chunk": self._chunks,
            "long": self._longer,
            "first": self._first,
            "short": self._short,
            "restore": self._restore,
            "fetched": self._fetched,
            "met": self._met,
            "returned": self._returned,
            "growth": self._growth,
        }


def _chunk(tokens: int, context: int) -> Features:
    """A chunk's launches, its tokens, the pairs of tokens that attention compares, and what it looks back on.

    However few its tokens are, the keys and values of all before them have to be brought together.
    """
    return 1.0, float(tokens), tokens * (context + tokens / 2), float(context)


def _few(steps: int, tokens: int, context: int) -> Features:
    """The steps that a few tokens take, these, and what they look back on."""
    return 1.0, float(steps), float(tokens), float(context)


def _checked(features: Sequence[float], width: int) -> Features:
    """Raises ValueError for features that no measurement has."""
    values = tuple(float(value) for value in features)
    if len(values) != width or values[0] != 1.0 or not all(0 <= value < 1e18 for value in values):
        raise ValueError("not a measurement")
    return values
