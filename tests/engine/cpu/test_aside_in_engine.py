"""A prompt's chunk in a process of its own, in an engine: what people see of it, and of what goes wrong."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from engine import (
    Cancel,
    Finished,
    ModelUnloaded,
    PrefillProgress,
    TextChunk,
    UnloadModel,
)
from engine.cpu import aside, aside_process, crew
from engine.cpu.aside import AsideChunk
from engine.machine.processors import ENGINE_THREAD
from engine.pacing.prompt_chunks import _PATIENCE
from engine.steps.batch import Sent
from engine.steps.results import StepResults
from tests.engine.aside_scene import CHAT, LONG, Slow, asked, assert_all_right, assert_right, beside
from tests.engine.oracle import Checked, checked_model
from tests.engine.watched import needs_aside
from tests.fakes.listener import PATIENCE

pytestmark = [needs_aside, pytest.mark.usefixtures("short_prompts_have_processes")]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    return checked_model(tmp_path_factory.mktemp("models"), "llama", max_position_embeddings=1024)


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
    assert slow.begun == [0] * 3 + [144] * 3  # the last 12 tokens are too few


def test_progress_is_told_layer_by_layer_meanwhile(
    checked: Checked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("engine.prediction.progress._OFTEN", 0.0)
    Slow(monkeypatch, tmp_path / "begun")
    with beside(checked, LONG) as listener:
        assert_all_right(checked, listener, LONG, CHAT)
        told = [event for event in listener.events if isinstance(event, PrefillProgress)]
    done = [event.done_tokens for event in told if event.id == LONG.id]
    assert done == sorted(done)
    assert {48, 96, 144 + 48, 144 + 96} & set(done)  # of 144 tokens a layer, or two, of three
    assert done[-1] == 300


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
        wanted = (
            *((os.getppid(), ENGINE_THREAD), (os.getpid(), crew.NAME), (os.getpid(), aside_process.NAME)),
            (os.getppid(), aside.NAME),
        )
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
        for engines, helpers, its, watching in seen:
            assert len(engines) >= 2  # and MLX's for it
            assert len(its) >= 2
            assert all(processors == [min(two)] for processors in (*engines, *helpers))
            assert all(processors == [max(two)] for processors in its)
            assert watching == [[max(two)]]
        assert any(helpers for _, helpers, *_ in seen)
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
    monkeypatch.setattr("engine.machine.processors.usable", lambda: processors)
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
        monkeypatch.setattr(f"engine.cpu.aside_pace.{times}", 20.0)  # however busy the machine is
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


def test_unloading_waits_for_no_chunk(
    checked: Checked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Slow(monkeypatch, tmp_path / "begun", lambda: listener.submit(UnloadModel()), is_stuck=True)
    with beside(checked, LONG) as listener:
        listener.wait(lambda event: isinstance(event, ModelUnloaded))
