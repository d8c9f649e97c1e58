"""What live charts should show, folded from raw events apart from the product."""

from __future__ import annotations

import math
from collections import deque
from itertools import pairwise

from app.appearance import Appearance
from app.dashboard.live_pane import LivePane
from app.dashboard.palette import colour_of
from engine import Event, Finished, ModelReady, ModelUnloaded, Stats
from tests.app.dashboard.hours import BANDWIDTH, Clocks
from tests.app.dashboard.painted import BESIDE, Painted

KEPT = 300.0
GAP = 2.0
ZOOMS = (30.0, 60.0, 120.0, 300.0)
ONE_LINE = ("decode", "prefill", "ttft", "guesses", "bandwidth")

Sample = tuple[float, dict[str, tuple[float | None, ...]] | None]


class Samples:
    """The last minutes of one model: values of every card by time, None where it was loaded or left."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._ready: ModelReady | None = None
        self._ttft: float | None = None
        self._owners: dict[str, str] = {}
        self.kept: deque[Sample] = deque()

    def hear(self, event: Event) -> None:
        """Take in an event, as the engine says it."""
        match event:
            case ModelReady() if event.model.path == self._model:
                self._ready, self._ttft = event, None
                self._cut()
            case ModelUnloaded(path=self._model):
                self._ready, self._ttft = None, None
                self._cut()
            case Finished() if self._owners.pop(event.id, "") == self._model:
                self._ttft = event.timing.ttft_ms
            case Stats():
                self._owners |= {request.id: event.model for request in event.requests}
                if event.model == self._model:
                    self._add(event)
            case _:
                pass

    def check(self, pane: LivePane, clocks: Clocks, appearance: Appearance) -> None:
        """Every card's chart, its table and its picture are what the events said."""
        for key, card in pane.cards.items():
            card.click()
            shown = [point for point in pane.chart.points if any(v is not None for v in point.values)]
            wanted = [(at, values[key]) for at, values in self.kept if values and any(_known(values[key]))]
            assert [point.at for point in shown] == [at for at, _ in wanted]
            for point, (_, values) in zip(shown, wanted, strict=True):
                assert all(map(_same, point.values, values)), (key, point, values)
            assert "nan" not in card.words
            assert "inf" not in card.words
            assert not card.words.startswith("-")
            if key in ONE_LINE and wanted:
                self._check_picture(pane, key, clocks, appearance)

    def _check_picture(self, pane: LivePane, key: str, clocks: Clocks, appearance: Appearance) -> None:
        runs = self._runs(key)
        values = [value for run in runs for _, value in run]
        first = self.kept[0][0]
        span = next((zoom for zoom in ZOOMS if clocks.perf - first <= zoom), ZOOMS[-1])
        theme = appearance.theme
        picture = Painted(pane.chart, theme, colour_of(0, theme), max(values))
        share = [[(1 - (clocks.perf - at) / span, value) for at, value in run] for run in runs]
        inside = [point for run in share for point in run if 0 <= point[0] <= 1]
        for at, value in _extremes(inside, BESIDE / (picture.right - picture.left)):
            assert picture.has_ink(at, value), (key, at, value)
        edges = [0.0, *(edge for run in share for edge in (run[0][0], run[-1][0])), 1.0]
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            assert picture.is_blank(max(0.0, begin), max(0.0, end)), (key, begin, end)

    def _runs(self, key: str) -> list[list[tuple[float, float]]]:
        """A line's samples in pieces, cut where two seconds or more are unknown, and at loads."""
        found: list[list[tuple[float, float]]] = []
        is_new = True
        for (before, _), (at, values) in pairwise([(-math.inf, None), *self.kept]):
            value = values[key][0] if values else None
            if value is None:
                is_new = True
                continue
            if is_new or at - before > GAP:
                found.append([])
            found[-1].append((at, value))
            is_new = False
        return found

    def _cut(self) -> None:
        if self.kept:
            self.kept.append((self.kept[-1][0], None))

    def _add(self, stats: Stats) -> None:
        if self.kept and stats.at < self.kept[-1][0]:
            self.kept.clear()
        began = [request.ttft_ms for request in stats.requests if request.ttft_ms]
        self._ttft = began[-1] if began else self._ttft
        self.kept.append((stats.at, self._values(stats)))
        while self.kept[0][0] < stats.at - KEPT:
            self.kept.popleft()

    def _values(self, stats: Stats) -> dict[str, tuple[float | None, ...]]:
        cache, memory, gaps = stats.cache, stats.memory, stats.gaps
        assert self._ready
        info = self._ready.model
        step = info.step_weight_bytes + stats.context_tokens * info.page_bytes / info.page_size
        share = 100 * stats.decode_tps * step / (BANDWIDTH * stats.running) if stats.running else None
        return {
            "decode": (stats.decode_tps,),
            "prefill": (stats.prefill_tps,),
            "ttft": (self._ttft,),
            "gaps": (gaps.p50_ms, gaps.p95_ms, gaps.p99_ms),
            "batch": (stats.running, stats.queued),
            "guesses": (
                100 * cache.accepted_tokens / cache.drafted_tokens if cache.drafted_tokens else None,
            ),
            "memory": (
                memory.process_bytes, info.weight_bytes, memory.arena_bytes, memory.allocator_bytes,
            ),
            "bandwidth": (share or None,),
        }  # fmt: skip


def _extremes(points: list[tuple[float, float]], beside: float) -> list[tuple[float, float]]:
    """The points of which no other one so near is higher, and those of which none is lower."""
    found: list[tuple[float, float]] = []
    first = last = 0
    for at, value in points:
        while points[first][0] < at - beside:
            first += 1
        while last < len(points) and points[last][0] <= at + beside:
            last += 1
        near = [other for _, other in points[first:last]]
        if value in (min(near), max(near)):
            found.append((at, value))
    return found


def _known(values: tuple[float | None, ...]) -> list[bool]:
    return [value is not None for value in values]


def _same(shown: float | None, wanted: float | None) -> bool:
    if shown is None or wanted is None:
        return shown is wanted
    return math.isclose(shown, wanted, rel_tol=1e-9)
