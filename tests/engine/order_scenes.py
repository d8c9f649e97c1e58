"""The engine at work on recorded kernels: requests that come, go, are cancelled, and reuse pages."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import mlx.core as mx
import pytest

from engine.commands import Generate
from engine.events.events import Event, Failed, Finished, Stats
from engine.kv.arena import Arena
from engine.loading.model import load_model
from engine.requests.accepting import accept_command
from engine.requests.request import Request
from engine.residents.elsewhere import Elsewhere
from engine.rest.tidying import GROW_AFTER
from engine.serving import Serving
from engine.settings import EngineSettings
from metal.executors import EmulatedExecutor, Launcher, Signature
from metal.prefill_attention import PrefillAttention
from metal.recorder import Recorder
from metal.source import KernelSource
from tests.engine.parity import prompt
from tests.fakes.random_model import write_random_model
from tests.metal.conftest import BUILD
from tests.metal.forgetful import Forgetful

PAGE = 16
WINDOW = 37


@contextmanager
def recording() -> Generator[Recorder]:
    """A recorder of every launch, of what the host waits for, and of arenas that grow."""
    recorder = Recorder(PAGE)
    build, evaluate, reserve = EmulatedExecutor.build, cast("Callable[..., None]", mx.eval), Arena.reserve

    def recorded(self: EmulatedExecutor, source: KernelSource, signature: Signature) -> Launcher:
        return recorder.recorded(build(self, source, signature), source, signature)

    def waited(*arrays: object) -> None:
        evaluate(*arrays)
        recorder.waited(_flat(arrays))

    def grown(self: Arena, pages: int, limit: int) -> None:
        before = list(zip(self.pools.keys, self.pools.values, strict=True))
        reserve(self, pages, limit)
        for old, new in zip(before, zip(self.pools.keys, self.pools.values, strict=True), strict=True):
            if old[0] is not new[0] and old[0].size:
                recorder.grew(old, new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmulatedExecutor, "build", recorded)
        patch.setattr(mx, "eval", waited)
        patch.setattr(Arena, "reserve", grown)
        yield recorder


@contextmanager
def forgetting(fault: Forgetful) -> Generator[None]:
    """While this lasts, a launcher has the fault."""
    build = EmulatedExecutor.build

    def careless(self: EmulatedExecutor, source: KernelSource, signature: Signature) -> Launcher:
        return fault.launcher(build(self, source, signature), source, signature)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmulatedExecutor, "build", careless)
        yield


def _flat(arrays: Iterable[object]) -> list[mx.array]:
    found: list[mx.array] = []
    for array in arrays:
        if isinstance(array, mx.array):
            found.append(array)
        elif isinstance(array, list | tuple):
            found += _flat(cast("Iterable[object]", array))
    return found


class Chat:
    """A tiny model with two layers behind the engine's own loop, one step at a time."""

    def __init__(
        self, folder: Path, *, chunk: int = 512, window: int | None = None, pages: int | None = None
    ) -> None:
        family, changes = ("llama", {}) if window is None else ("mistral", {"sliding_window": window})
        settings = EngineSettings(
            speculation=False,
            executor="emulated",
            cache=BUILD.parent,
            page_size=PAGE,
            prefill_chunk=chunk,
            kv_pages=pages,
        )
        write_random_model(
            folder,
            family,
            hidden_size=64,
            head_dim=64,
            num_attention_heads=2,
            num_key_value_heads=1,
            num_hidden_layers=2,
            **changes,
        )
        self.model = load_model(folder, settings, lambda done, total: None)
        self.events: list[Event] = []
        self.requests: list[Request] = []
        self.serving = Serving(self.model, settings, self.events.append)
        self.serving._tidying._is_short = lambda more: False  # whatever else runs on this machine

    def ask(self, name: str, tokens: int, answer: int, *, seed: int | None = None, n: int = 1) -> None:
        """Queue a request of a prompt of `tokens` tokens; of one seed they begin alike."""
        given = tuple(prompt(len(self.requests) if seed is None else seed)[:tokens])
        command = Generate(name, tokens=given, max_tokens=answer, ignore_eos=True, n=n)
        capacity = self.serving.chats.capacity()
        self.requests.append(
            accept_command(command, self.model, lambda prompt: capacity, time.perf_counter())
        )
        self.serving.add(self.requests[-1])

    @property
    def in_flight(self) -> bool:
        """Whether a step was sent whose input has not been read."""
        return any(sequence.is_in_flight for request in self.requests for sequence in request.sequences)

    @property
    def preemptions(self) -> int:
        """Answers that gave their pages up for a while."""
        stats = [event for event in self.events if isinstance(event, Stats)]
        return stats[-1].cache.preemptions

    def work(self, steps: int | None = None) -> None:
        """So many steps of the engine, or all that there are."""
        while self.serving.busy and steps != 0:
            self.serving.work()
            steps = None if steps is None else steps - 1
        failures = [event for event in self.events if isinstance(event, Failed)]
        assert not failures, failures[0].detail


def long_decode(folder: Path) -> None:
    """A chat that decodes over several pages, each step sent before the last one's token is read."""
    chat = Chat(folder)
    chat.ask("a", 20, 60)
    chat.work(30)
    assert chat.in_flight
    chat.work()


def taking_turns(folder: Path) -> None:
    """Another model works in between: each step is read in its turn, first the one that is in flight then."""
    chat = Chat(folder)
    chat.ask("a", 20, 12, seed=0)
    chat.work(5)
    assert chat.in_flight
    for _ in range(3):
        chat.serving.work(Elsewhere(is_busy=True))
        assert not chat.in_flight
    chat.work(2)
    assert chat.in_flight
    chat.work()
    chat.ask("b", 20, 12, seed=0)
    chat.work()
    in_turns, alone = (event.tokens for event in chat.events if isinstance(event, Finished))
    assert in_turns == alone


def one_after_the_other(folder: Path) -> None:
    """A second request on the pages of the first."""
    chat = Chat(folder, pages=4)
    chat.ask("a", 40, 10)
    chat.ask("b", 30, 10)
    chat.work()


def cancelled(folder: Path) -> None:
    """A request is cancelled while its next step is in flight; another takes its pages at once."""
    chat = Chat(folder, pages=4)
    chat.ask("a", 40, 20)
    chat.work(9)
    assert chat.in_flight
    chat.ask("b", 50, 12)
    chat.serving.cancel("a")
    chat.work()


def window(folder: Path) -> None:
    """Pages that the window has left are given back and taken again, with a step in flight."""
    chat = Chat(folder, chunk=16, window=WINDOW, pages=5)
    chat.ask("a", 90, 60)
    chat.work()


def window_in_place(folder: Path) -> None:
    """The same with chunks that attend to their history where it lies."""
    chat = Chat(folder, chunk=16, window=WINDOW, pages=5)
    kernels = chat.model.kernels
    assert kernels is not None
    for shape, launchers in kernels.attention.items():
        prefill = PrefillAttention(kernels.choice.executor, kernels.launches, shape)
        kernels.attention[shape] = replace(launchers, prefill=prefill)
    chat.ask("a", 90, 20)
    chat.work()


def chunks(folder: Path) -> None:
    """A long prompt in chunks, each attending to those before; then a short answer."""
    chat = Chat(folder, chunk=32)
    chat.ask("a", 150, 6)
    chat.work()


def _grows_by_what_is_asked(arena: Arena, more: int = 0) -> None:
    """And `more` pages, so that a short chat outgrows it."""
    reserve = arena.reserve

    def reserve_few(pages: int, limit: int) -> None:
        if pages > arena.pages:
            reserve(pages + more, pages + more)

    arena.reserve = reserve_few  # pyright: ignore[reportAttributeAccessIssue]


def growth(folder: Path) -> None:
    """The arena grows between two decode steps, the second being sent while the first is in flight.

    It was built for the prompt and one answer, and there are two.
    """
    chat = Chat(folder)
    arena = chat.model.arena
    _grows_by_what_is_asked(arena, more=1)
    chat.ask("a", 20, 20, n=2)
    chat.work(5)
    assert arena.pages == 4
    assert chat.in_flight
    chat.work()
    assert arena.pages > 4


def growth_at_rest(folder: Path) -> None:
    """The arena doubles after a chat was cancelled with a step in flight; another goes on in the new one."""
    chat = Chat(folder)
    arena = chat.model.arena
    _grows_by_what_is_asked(arena)
    chat.ask("a", 30, 40, seed=0)
    chat.work(6)
    assert chat.in_flight
    chat.serving.cancel("a")
    pages = arena.pages
    chat.serving.tidy(GROW_AFTER)
    assert arena.pages == 2 * pages
    chat.ask("b", 34, 6, seed=0)
    chat.work()
    assert arena.pages == 2 * pages


def shared(folder: Path) -> None:
    """Answers begin on pages of one before, in the middle of a page too; each writes into a copy."""
    chat = Chat(folder)
    chat.ask("a", 40, 6, seed=0)
    chat.work()
    chat.ask("b", 44, 6, seed=0)
    chat.ask("c", 37, 6, seed=0, n=3)
    chat.work()
    assert chat.model.memory.counts.copied_pages >= 3


def beside(folder: Path) -> None:
    """A long prompt is computed in chunks beside an answer; both then decode as a batch."""
    chat = Chat(folder, chunk=32)
    chat.ask("a", 20, 30)
    chat.work(4)
    chat.ask("b", 120, 8)
    chat.work()


def gives_way(folder: Path) -> None:
    """Pages run out: one of two answers gives its pages up, and goes on later."""
    chat = Chat(folder, pages=5)
    chat.ask("a", 30, 30)
    chat.ask("b", 20, 30)
    chat.work()
    assert chat.preemptions > 0


SCENES: dict[str, Callable[[Path], None]] = {
    scene.__name__: scene
    for scene in (
        long_decode,
        taking_turns,
        one_after_the_other,
        cancelled,
        window,
        window_in_place,
        chunks,
        growth,
        growth_at_rest,
        shared,
        beside,
        gives_way,
    )
}
