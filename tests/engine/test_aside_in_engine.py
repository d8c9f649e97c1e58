"""A prompt's chunk on a thread of its own, in an engine: what people see of it, and of what goes wrong."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from threading import Event

import mlx.core as mx
import pytest

from engine import (
    Cancel,
    EngineSettings,
    Finished,
    Generate,
    ModelUnloaded,
    PrefillProgress,
    SamplingParams,
    TextChunk,
    UnloadModel,
    crew,
)
from engine.aside import Aside, AsideChunk
from engine.batch import Sent
from engine.commands import Lane
from engine.layers.attention import AttentionLayer
from engine.processors import ENGINE_THREAD, kept_apart
from engine.step_results import StepResults
from tests.engine.mix import samples
from tests.engine.oracle import Checked, checked_model
from tests.engine.watched import needs_aside
from tests.fakes.listener import PATIENCE, Listener, running_engine

pytestmark = needs_aside

GREEDY = SamplingParams(temperature=0)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    return checked_model(tmp_path_factory.mktemp("models"), "llama", max_position_embeddings=1024)


def asked(name: str, tokens: int, answer: int, lane: Lane = "api") -> Generate:
    ids = tuple(3 + (7 * place + 31 * len(name) + place // 290) % 290 for place in range(tokens))
    return Generate(
        name, tokens=ids, max_tokens=answer, sampling=GREEDY, ignore_eos=True, logprobs=0, lane=lane
    )


CHAT, LONG = asked("chat", 10, 500, "window"), asked("long prompt", 300, 5)


def slow_layers(monkeypatch: pytest.MonkeyPatch, first: Callable[[], object] | None = None) -> list[int]:
    """Each layer on the thread takes 0.03 s longer, the very first `first`; their chunks' first tokens."""
    write, begun = AsideChunk._write, list[int]()

    def slow(self: AsideChunk, layer: AttentionLayer, qkv: mx.array) -> object:
        begun.append(self.begin)
        if first is not None and len(begun) == 1:
            first()
        else:
            time.sleep(0.03)
        return write(self, layer, qkv)

    monkeypatch.setattr(AsideChunk, "_write", slow)
    return begun


def assert_right(model: Checked, command: Generate, end: Finished) -> None:
    (sample,) = samples(end)
    assert len(sample.tokens) == command.max_tokens
    assert not model.oracle.complaint(command, end.prompt_tokens, sample)


@contextmanager
def beside(checked: Checked, *more: Generate, chunk: int = 128) -> Iterator[Listener]:
    """An engine whose chat writes, and which is then asked for `more`."""
    with running_engine(EngineSettings(prefill_chunk=chunk)) as listener:
        listener.load(checked.folder)
        listener.submit_at(lambda event: isinstance(event, TextChunk) and event.generated_tokens > 5, *more)
        listener.submit(CHAT)
        yield listener


def is_computed(event: object) -> bool:
    return isinstance(event, PrefillProgress) and event.id == LONG.id and event.done_tokens > 0


def test_a_chat_goes_on_while_a_long_prompt_is_computed(
    checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = slow_layers(monkeypatch)
    with beside(checked, LONG) as listener:
        for command in (LONG, CHAT):
            assert_right(checked, command, listener.finished(command.id))
        first = next(n for n, event in enumerate(listener.events) if is_computed(event))
        last = listener.events.index(listener.end_of(LONG.id))
        written = [event for event in listener.events[first:last] if isinstance(event, TextChunk)]
        assert sum(event.id == CHAT.id for event in written) > 3
    assert begun == [0] * 3 + [128] * 3  # the last 44 tokens are too few


def threads(name: str) -> list[set[int]]:
    """The processors of those that have the name."""
    processors = list[set[int]]()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it may be over by now
            if (task / "comm").read_text().strip() == name:
                processors.append(os.sched_getaffinity(int(task.name)))
    return processors


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps threads to processors")
def test_the_chat_s_threads_and_the_prompt_s_keep_apart_meanwhile(
    checked: Checked, monkeypatch: pytest.MonkeyPatch, two: set[int]
) -> None:
    write, seen, its = AsideChunk._write, list[list[set[int]]](), list[set[int]]()
    are_let_go = Event()

    @contextmanager
    def watched(*names: Collection[str]) -> Iterator[None]:
        are_let_go.clear()
        with kept_apart(*names):
            yield
        are_let_go.set()

    monkeypatch.setattr("engine.aside.kept_apart", watched)

    def noted(self: AsideChunk, layer: AttentionLayer, qkv: mx.array) -> object:
        seen.append([*threads(ENGINE_THREAD), *threads(crew.NAME)])
        its.append(os.sched_getaffinity(0))
        return write(self, layer, qkv)

    monkeypatch.setattr(AsideChunk, "_write", noted)
    with beside(checked, LONG) as listener:
        listener.finished(LONG.id)
        assert all(len(each) >= 3 for each in seen)  # the engine's and MLX's for it, and who helps
        assert are_let_go.wait(PATIENCE)  # a chunk is through a little before
        assert {min(two)} == set().union(*(processors for each in seen for processors in each))
        assert {max(two)} == set().union(*its)
        assert all(processors == two for name in (ENGINE_THREAD, crew.NAME) for processors in threads(name))


@pytest.mark.parametrize("processors", [2, 3])
def test_answers_that_are_quick_wait_for_it_before_their_tokens_are_told(
    processors: int, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So tokens come as evenly as they are waited for, however unevenly they are computed.

    Of more than two processors answers have theirs, and nobody is helped by waiting.
    """
    monkeypatch.setattr("engine.processors.usable", lambda: processors)
    done = list[str]()

    def noted(owner: type, name: str) -> None:
        method = getattr(owner, name)

        def note(self: object, *arguments: object) -> object:
            done.append(name)
            return method(self, *arguments)

        monkeypatch.setattr(owner, name, note)

    noted(Sent, "read")
    noted(Aside, "wait")
    noted(StepResults, "_accept")
    monkeypatch.setattr("engine.chunking._ASIDE_PACE", 20.0)  # however busy the machine is
    with beside(checked, LONG) as listener:
        for command in (LONG, CHAT):
            assert_right(checked, command, listener.finished(command.id))
    is_told_later = ("read", "wait", "_accept") in zip(done, done[1:], done[2:], strict=False)
    assert is_told_later == (processors == 2)
    assert ("_accept", "wait") not in pairwise(done)


@pytest.mark.parametrize("ends", ["the prompt", "the chat"])
def test_either_may_be_cancelled_in_the_middle(
    ends: str, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, stays = (LONG, CHAT) if ends == "the prompt" else (CHAT, LONG)
    slow_layers(monkeypatch, lambda: listener.submit(Cancel(gone.id)))
    with beside(checked, LONG) as listener:
        assert listener.finished(gone.id).reason == "cancelled"
        assert_right(checked, stays, listener.finished(stays.id))
        again = asked("the same again", 300, 5)
        listener.submit(again)
        assert_right(checked, again, listener.finished(again.id))


def test_who_goes_before_takes_the_thread(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    first, abandon, is_dropped = asked("first", 400, 3, "window"), AsideChunk.abandon, Event()

    def drop(self: AsideChunk) -> None:
        is_dropped.set()
        abandon(self)

    def ask_and_wait() -> None:
        listener.submit(first)
        is_dropped.wait(PATIENCE)

    monkeypatch.setattr(AsideChunk, "abandon", drop)
    begun = slow_layers(monkeypatch, ask_and_wait)
    with beside(checked, LONG) as listener:
        for command in (first, LONG, CHAT):
            assert_right(checked, command, listener.finished(command.id))
        ended = [event.id for event in listener.events if isinstance(event, Finished)]
        assert ended.index(first.id) < ended.index(LONG.id)
    assert begun.count(0) < 9  # of the chunk that was dropped not every layer was computed


def test_where_the_thread_breaks_nobody_loses_a_token(
    checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = list[int]()

    def once(*arguments: object, **more: object) -> mx.array:
        broken.append(1)
        raise RuntimeError("the device was lost")

    monkeypatch.setattr("engine.aside.attend_in_blocks", once)
    with beside(checked, LONG) as listener:
        for command in (LONG, CHAT):
            assert_right(checked, command, listener.finished(command.id))
    assert broken


def test_unloading_waits_for_no_chunk(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    is_gone, was_gone = Event(), SimpleQueue[bool]()

    def unload_and_wait() -> None:
        listener.submit(UnloadModel())
        was_gone.put(is_gone.wait(PATIENCE))

    slow_layers(monkeypatch, unload_and_wait)
    with beside(checked, LONG) as listener:
        listener.wait(lambda event: isinstance(event, ModelUnloaded))
        is_gone.set()
    assert was_gone.get(timeout=PATIENCE)
