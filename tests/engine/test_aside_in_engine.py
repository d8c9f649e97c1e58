"""A prompt's chunk in a process of its own, in an engine: what people see of it, and of what goes wrong."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

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
    aside_process,
    crew,
)
from engine.aside import Aside, AsideChunk
from engine.batch import Sent
from engine.commands import Lane
from engine.kv.page_table import PageTable
from engine.processors import ENGINE_THREAD
from engine.prompt_chunks import _PATIENCE
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


@pytest.fixture(autouse=True)
def _each_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.prompt_chunks.WORTH_ASIDE_S", 0.0)


def asked(name: str, tokens: int, answer: int, lane: Lane = "api") -> Generate:
    ids = tuple(3 + (7 * place + 31 * len(name) + place // 290) % 290 for place in range(tokens))
    return Generate(
        name, tokens=ids, max_tokens=answer, sampling=GREEDY, ignore_eos=True, logprobs=0, lane=lane
    )


CHAT, LONG = asked("chat", 10, 500, "window"), asked("long prompt", 300, 5)


class Slow:
    """Each layer in a process takes longer; which chunks these were of, and what is done when one begins."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        file: Path,
        at_first: Callable[[], object] | None = None,
        *,
        is_stuck: bool = False,
    ) -> None:
        """`at_first`: done when the first chunk has begun. `is_stuck`: that one ends when it is killed."""
        self._file, self._chunks = file, 0
        say, begin = aside_process._Chunk._say, Aside.begin

        def slow(chunk: aside_process._Chunk) -> None:
            with file.open("a") as begun:
                begun.write(f"{chunk._work.begin} ")
            time.sleep(10 * PATIENCE if is_stuck and self._chunks == 1 else 0.03)
            say(chunk)

        def counted(aside: Aside, table: PageTable, ids: mx.array, *, is_last: bool) -> AsideChunk:
            self._chunks += 1
            chunk = begin(aside, table, ids, is_last=is_last)
            if at_first is not None and self._chunks == 1:
                at_first()
            return chunk

        monkeypatch.setattr(aside_process._Chunk, "_say", slow)
        monkeypatch.setattr(Aside, "begin", counted)

    @property
    def begun(self) -> list[int]:
        """The first token of its chunk, for each layer."""
        return [int(begin) for begin in self._file.read_text().split()]


def assert_right(model: Checked, command: Generate, end: Finished) -> None:
    (sample,) = samples(end)
    assert len(sample.tokens) == command.max_tokens
    assert not model.oracle.complaint(command, end.prompt_tokens, sample)


def assert_all_right(model: Checked, listener: Listener, *commands: Generate) -> None:
    """Each of them."""
    for command in commands:
        assert_right(model, command, listener.finished(command.id))


@contextmanager
def beside(checked: Checked, *more: Generate, chunk: int = 64) -> Iterator[Listener]:
    """An engine whose chat writes, and which is then asked for `more`."""
    with running_engine(EngineSettings(prefill_chunk=chunk)) as listener:
        listener.load(checked.folder)
        listener.submit_at(lambda event: isinstance(event, TextChunk) and event.generated_tokens > 5, *more)
        listener.submit(CHAT)
        yield listener


def is_computed(event: object) -> bool:
    return isinstance(event, PrefillProgress) and event.id == LONG.id and event.done_tokens > 0


def test_a_chat_goes_on_while_a_long_prompt_is_computed(
    checked: Checked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = Slow(monkeypatch, tmp_path / "begun")
    with beside(checked, LONG) as listener:
        assert_all_right(checked, listener, LONG, CHAT)
        first = next(n for n, event in enumerate(listener.events) if is_computed(event))
        last = listener.events.index(listener.end_of(LONG.id))
        written = [event for event in listener.events[first:last] if isinstance(event, TextChunk)]
        assert sum(event.id == CHAT.id for event in written) > 3
    assert slow.begun == [0] * 3 + [128] * 3  # the last 44 tokens are too few


def threads(process: int, name: str) -> list[list[int]]:
    """The processors of those of a process that have the name."""
    processors = list[list[int]]()
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):  # it may be over by now
            if (task / "comm").read_text().strip() == name:
                processors.append(sorted(os.sched_getaffinity(int(task.name))))
    return processors


def test_the_chat_s_threads_and_the_prompt_s_keep_apart_meanwhile(
    checked: Checked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, two: set[int]
) -> None:
    say, file = aside_process._Chunk._say, tmp_path / "seen"

    def noted(self: aside_process._Chunk) -> None:
        wanted = (os.getppid(), ENGINE_THREAD), (os.getpid(), crew.NAME), (os.getpid(), aside_process.NAME)
        found = [threads(*each) for each in wanted]
        while any(len(processors) > 1 for processors in found[0]):
            time.sleep(0.001)  # the engine's are kept to one once the chunk before has ended
            found = [threads(*each) for each in wanted]
        with file.open("a") as seen:
            seen.write(json.dumps(found) + "\n")
        say(self)

    monkeypatch.setattr(aside_process._Chunk, "_say", noted)
    with beside(checked, LONG) as listener:
        listener.finished(LONG.id)
        seen = [json.loads(line) for line in file.read_text().splitlines()]
        assert len(seen) == 2 * 3
        for engines, helpers, its in seen:
            assert len(engines) >= 2  # and MLX's for it
            assert len(its) >= 2
            assert all(processors == [min(two)] for processors in (*engines, *helpers))
            assert all(processors == [max(two)] for processors in its)
        assert any(helpers for _, helpers, _ in seen)
        until = time.monotonic() + PATIENCE
        while any(processors != sorted(two) for processors in threads(os.getpid(), ENGINE_THREAD)):
            assert time.monotonic() < until  # a chunk is through a little before they are let go
            time.sleep(0.01)


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
            if arguments[:1] != (_PATIENCE,):  # there is no answer any more
                done.append(name)
            return method(self, *arguments)

        monkeypatch.setattr(owner, name, note)

    noted(Sent, "read")
    noted(AsideChunk, "wait")
    noted(StepResults, "_accept")
    for times in ("LEAST", "MOST"):
        monkeypatch.setattr(f"engine.aside_pace.{times}", 20.0)  # however busy the machine is
    with beside(checked, LONG) as listener:
        assert_all_right(checked, listener, LONG, CHAT)
    is_told_later = ("read", "wait", "_accept") in zip(done, done[1:], done[2:], strict=False)
    assert is_told_later == (processors == 2)
    assert ("_accept", "wait") not in pairwise(done)


@pytest.mark.parametrize("ends", ["the prompt", "the chat"])
def test_either_may_be_cancelled_in_the_middle(
    ends: str, checked: Checked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone, stays = (LONG, CHAT) if ends == "the prompt" else (CHAT, LONG)
    Slow(monkeypatch, tmp_path / "begun", lambda: listener.submit(Cancel(gone.id)), is_stuck=gone is LONG)
    with beside(checked, LONG) as listener:
        assert listener.finished(gone.id).reason == "cancelled"
        assert_right(checked, stays, listener.finished(stays.id))
        again = asked("the same again", 300, 5)
        listener.submit(again)
        assert_right(checked, again, listener.finished(again.id))


def test_who_goes_before_takes_the_processors(
    checked: Checked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = asked("first", 400, 3, "window")
    slow = Slow(monkeypatch, tmp_path / "begun", lambda: listener.submit(first), is_stuck=True)
    with beside(checked, LONG) as listener:
        assert_all_right(checked, listener, first, LONG, CHAT)
        ended = [event.id for event in listener.events if isinstance(event, Finished)]
        assert ended.index(first.id) < ended.index(LONG.id)
    assert slow.begun.count(0) < 9  # of the chunk that was dropped not every layer was computed


@pytest.fixture
def nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pages stay whatever a process does: only it has computed on copies of them."""
    dropped = list[object]()
    monkeypatch.setattr("engine.live_runner.LiveRunner.drop_pages", lambda *given: dropped.append(given))
    yield
    assert not dropped


@pytest.mark.usefixtures("nothing_is_dropped")
@pytest.mark.parametrize("how", ["it raises", "it is killed"])
def test_where_the_process_breaks_nobody_loses_a_token(
    how: str, checked: Checked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object, **_more: object) -> mx.array:
        (tmp_path / "broken").touch()
        if how == "it is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("the device was lost")

    monkeypatch.setattr("engine.aside_blocks.attend_block", broken)
    with beside(checked, LONG) as listener:
        assert_all_right(checked, listener, LONG, CHAT)
    assert (tmp_path / "broken").exists()


@pytest.mark.usefixtures("nothing_is_dropped")
def test_a_process_that_breaks_when_the_chat_has_ended_costs_its_prompt_nothing(
    checked: Checked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"

    def is_there(file: Path) -> bool:
        until = time.monotonic() + PATIENCE
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.005)
        return file.exists()

    def broken(*_: object, **_more: object) -> mx.array:
        begun.touch()
        is_there(ended)
        raise RuntimeError("the device was lost")

    monkeypatch.setattr("engine.aside_blocks.attend_block", broken)
    with beside(checked, LONG) as listener:
        assert is_there(begun)
        listener.submit(Cancel(CHAT.id))
        assert listener.finished(CHAT.id).reason == "cancelled"
        ended.touch()
        assert_all_right(checked, listener, LONG)


@pytest.mark.usefixtures("nothing_is_dropped")
def test_where_there_is_no_process_for_it_nobody_loses_a_token(
    checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for = list[int]()

    def no() -> int:
        asked_for.append(1)
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr("os.fork", no)
    with beside(checked, LONG) as listener:
        assert_all_right(checked, listener, LONG, CHAT)
    assert len(asked_for) == 1


def test_unloading_waits_for_no_chunk(
    checked: Checked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Slow(monkeypatch, tmp_path / "begun", lambda: listener.submit(UnloadModel()), is_stuck=True)
    with beside(checked, LONG) as listener:
        listener.wait(lambda event: isinstance(event, ModelUnloaded))
