"""A prompt's process that breaks, or is not to be had: nobody loses a token, and people are told."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import mlx.core as mx
import pytest

from engine import Cancel, Generate, KernelsChosen, ModelUnloaded, TextChunk, UnloadModel
from tests.engine.aside_scene import CHAT, LONG, asked, assert_all_right, beside
from tests.engine.oracle import Checked, checked_model
from tests.engine.watched import needs_aside
from tests.fakes.listener import PATIENCE

pytestmark = [needs_aside, pytest.mark.usefixtures("short_prompts_have_processes")]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    return checked_model(tmp_path_factory.mktemp("models"), "llama", max_position_embeddings=1024)


def is_written(command: Generate, event: object) -> bool:
    return isinstance(event, TextChunk) and event.id == command.id and event.generated_tokens > 5


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

    monkeypatch.setattr("engine.cpu.aside_blocks.attend_block", broken)
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

    monkeypatch.setattr("engine.cpu.aside_blocks.attend_block", broken)
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


@pytest.mark.usefixtures("nothing_is_dropped")
def test_that_prompts_have_no_processes_any_more_is_told_once(
    checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **_more: object) -> mx.array:
        raise RuntimeError("the device was lost")

    monkeypatch.setattr("engine.cpu.aside_blocks.attend_block", broken)
    more = [asked(f"a{'nother' * number} long prompt", 300, 5) for number in range(3)]
    chats = [CHAT, asked("a second chat", 10, 500), asked("another chat", 10, 500)]
    with beside(checked, more[0]) as listener:
        assert_all_right(checked, listener, more[0], CHAT)
        assert not [event for event in listener.events if isinstance(event, KernelsChosen)]
        for chat, prompt in zip(chats[1:], more[1:], strict=True):
            listener.submit_at(partial(is_written, chat), prompt)
            listener.submit(chat)
            assert_all_right(checked, listener, prompt, chat)
        listener.submit(UnloadModel())
        listener.wait(lambda event: isinstance(event, ModelUnloaded))
        (told,) = [event for event in listener.events if isinstance(event, KernelsChosen)]
    (note,) = told.model.kernel_notes
    assert note == (
        "long prompts beside an answer go in turns with it, more slowly, since 2 of their processes broke; "
        "load it again to have them apart"
    )
