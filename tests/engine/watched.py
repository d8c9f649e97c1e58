"""A batcher that checks the books of KV memory after each step, on the engine's thread."""

from __future__ import annotations

from collections.abc import Callable, Collection
from mmap import PAGESIZE

import mlx.core as mx
import pytest

import engine.residents.opening
from engine.batcher import Batcher
from engine.cpu.aside import Aside, AsideChunk
from engine.kv.memory import KVMemory
from engine.kv.page_table import PageTable
from engine.kv.pager import Pager
from engine.live_runner import LiveRunner
from engine.loading.model import LoadedModel
from engine.machine.machine import device_kind
from engine.machine.processors import usable
from engine.pacing.chunking import ChunkSizer
from engine.pacing.ways import FREE, Way, Ways
from engine.prediction.foresight import Foresight
from engine.runner import Runner
from engine.speculation.copying import CopyGain, Lengths
from engine.speculation.draft import LENGTHS
from engine.speculation.gain import SpeculationGain
from engine.steps.batch import Sent

needs_aside = pytest.mark.skipif(
    device_kind() != "CPU" or usable() < 2, reason="for CPUs with two processors and more"
)
"""Of what is computed on a thread of its own."""


class Watch:
    """What was seen of each model that was loaded, and the models."""

    def __init__(self) -> None:
        self.models: list[LoadedModel] = []
        self.steps = 0
        self.most_running = self.most_used = 0
        self.wrong: list[str] = []

    def check(self, memory: KVMemory, pager: Pager, batcher: Batcher) -> None:
        """Every page has exactly the holders that it should, and the arena keeps to its budget."""
        self.steps += 1
        self.most_running = max(self.most_running, len(batcher.running))
        self.most_used = max(self.most_used, pager.pages_used)
        try:
            memory.check([sequence.table for sequence in batcher])
            assert pager.pages_used + memory.cached_pages <= pager.total_pages
            assert pager.high_water <= pager.total_pages
            assert all(model.arena.pages <= model.pager.total_pages for model in self.models)
        except AssertionError as error:
            self.wrong.append(f"step {self.steps}: {error}")


def restore_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on SSD is read back, even where a small model computes it sooner."""
    monkeypatch.setattr(Foresight, "should_restore", lambda self, tokens, context, read, met_bytes: True)


def guess_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever may be guessed is, whatever steps take here."""

    def best(self: SpeculationGain, most: int, lengths: Collection[int] = LENGTHS) -> int:
        return max((length for length in lengths if length <= most), default=0)

    def best_copy(self: CopyGain, match: int, most: int, lengths: Lengths) -> int:
        return max((length for length in lengths() if length <= most), default=0)

    def is_worth_waiting(self: CopyGain, match: int, most: int, lengths: Lengths) -> bool:
        return best_copy(self, match, most, lengths) > 0

    monkeypatch.setattr(SpeculationGain, "best", best)
    monkeypatch.setattr(CopyGain, "best", best_copy)
    monkeypatch.setattr(CopyGain, "is_worth_waiting", is_worth_waiting)


def warm_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps whose kernels are not compiled yet, as a GPU's are at rest only, are taken all the same."""
    monkeypatch.setattr(LiveRunner, "is_warm", lambda self, tokens, length: True)


def mix_always(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Prompts go with answers through the same products, whatever is faster; how many tokens each time."""
    mixed, filled = list[int](), ChunkSizer.filled

    def note(
        self: ChunkSizer,
        tokens: int,
        share: float,
        seconds: float,
        answers: int = 0,
        way: Way = Way.APART,
    ) -> None:
        mixed.extend([tokens] * (way is Way.MIXED))
        filled(self, tokens, share, seconds, answers, way)

    monkeypatch.setattr(ChunkSizer, "filled", note)
    monkeypatch.setattr(Runner, "has_aside", False)
    monkeypatch.setattr("engine.pacing.chunking.Ways", lambda: Ways(is_mixed=True, rest=1 << 40))
    monkeypatch.setattr(LiveRunner, "mixing", lambda _: FREE)
    return mixed


def ahead_always(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A step is sent before the one before it was read, as with kernels; 1 for each that was."""
    ahead, send = list[int](), Batcher.send

    def note(self: Batcher, runner: Runner, before: Sent | None) -> Sent | None:
        sent = send(self, runner, before)
        ahead.extend([1] * (sent is not None and before is not None))
        return sent

    monkeypatch.setattr(Batcher, "send", note)
    monkeypatch.setattr(Runner, "has_aside", False)
    monkeypatch.setattr(Runner, "looks_ahead", True)
    return ahead


def aside_always(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Beside answers prompts are computed on a thread of their own, however short; tokens of each chunk."""
    chunks, begin = list[int](), Aside.begin

    def note(self: Aside, table: PageTable, ids: mx.array, *, is_last: bool) -> AsideChunk:
        chunks.append(ids.size)
        return begin(self, table, ids, is_last=is_last)

    monkeypatch.setattr(Aside, "begin", note)
    monkeypatch.setattr("engine.pacing.prompt_chunks.FEWEST_ASIDE", 2)
    monkeypatch.setattr("engine.pacing.prompt_chunks.WORTH_ASIDE_S", 0.0)
    monkeypatch.setattr("engine.cpu.left_out._WORTH", PAGESIZE)
    return chunks


def watch_memory(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """From now on, engines check their KV memory at each step; `wrong` must be empty at the end."""
    watch = Watch()

    class WatchedBatcher(Batcher):
        def __init__(
            self, memory: KVMemory, pager: Pager, chunks: ChunkSizer, is_warm: Callable[[int, int], bool]
        ) -> None:
            super().__init__(memory, pager, chunks, is_warm)
            self._watched = (memory, pager)

        def send(self, runner: Runner, before: Sent | None) -> Sent | None:
            sent = super().send(runner, before)
            watch.check(*self._watched, self)
            return sent

        def trim(self) -> None:
            super().trim()
            watch.check(*self._watched, self)

    load = engine.residents.opening.load_model

    def load_and_note(*args: object, **named: object) -> LoadedModel:
        watch.models.append(load(*args, **named))  # pyright: ignore[reportArgumentType]
        return watch.models[-1]

    monkeypatch.setattr("engine.serving.Batcher", WatchedBatcher)
    monkeypatch.setattr("engine.residents.opening.load_model", load_and_note)
    return watch
