"""Memory, threads and files have bounds, and whoever meets one gets an answer."""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from engine import Forget, Generate, LoadModel, ModelUnloaded, Pin, UnloadModel
from tests.engine.oracle import Checked
from tests.engine.promises.asked import NEW, PROMPT, Chat, settings
from tests.engine.watched import Watch
from tests.fakes.listener import running_engine


def test_memory_does_not_grow_with_the_number_of_requests(models: dict[str, Checked]) -> None:
    with running_engine(settings(pages=32)) as listener:
        listener.load(models["llama"].folder)
        chat = Chat(listener, models["llama"])
        seen: list[int] = []
        for turn in range(40):
            chat.say(tuple(3 + (7 * place + 11 * turn) % 290 for place in range(60)), 4, f"chat {turn}")
            if turn in (9, 39):
                seen.append(chat.idle().memory_bytes)
    assert seen[1] <= 1.02 * seen[0]


@pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")
def test_threads_and_open_files_do_not_grow_with_the_number_of_loads(
    models: dict[str, Checked], tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []
    with running_engine(settings(folder=tmp_path)) as listener:
        for number in range(6):
            listener.load(models["llama"].folder, f"load {number}")
            Chat(listener, models["llama"], f" of load {number}").say(PROMPT * 2)
            listener.submit(UnloadModel())
            listener.wait(lambda event: isinstance(event, ModelUnloaded))
            seen.append((threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))))
    assert seen[-1] <= seen[1]


def test_who_gives_way_loses_no_token_and_is_not_chased_about(chat: Chat) -> None:
    """Eighteen pages: each of three answers fits alone, no two of them together."""
    with running_engine(settings(pages=18)) as listener:
        listener.load(chat.model.folder)
        tight = Chat(listener, chat.model)
        prompts = [tuple(3 + (7 * place + 31 * number) % 290 for place in range(24)) for number in range(3)]
        names = [tight.submit(tokens, 44, f"chat {number}") for number, tokens in enumerate(prompts)]
        for name in names:
            tight.end(name)
        counts = tight.idle().cache
    least = 0 if chat.model.folder.name == "window" else 1  # of which pages come back as it goes on
    assert least <= counts.preemptions <= 6


@pytest.mark.parametrize("pages", [8, 9, 13])
def test_everybody_gets_an_answer_when_pages_run_out(pages: int, models: dict[str, Checked]) -> None:
    with running_engine(settings(pages)) as listener:
        listener.load(models["llama"].folder)
        chat = Chat(listener, models["llama"])
        names = [
            chat.submit(PROMPT[number : number + 5 + number], 20 - number, f"chat {number}")
            for number in range(12)
        ]
        for name in names:
            chat.end(name)
        assert chat.idle().pages_used == 0


@pytest.mark.usefixtures("settled_memory")
def test_a_failed_load_leaves_nothing_of_a_model_that_made_room_for_it(
    models: dict[str, Checked], watch: Watch, tmp_path: Path
) -> None:
    broken = shutil.copytree(models["llama"].folder, tmp_path / "broken") / "model.safetensors"
    save_file({**load_file(broken), "odd.weight": np.ones((2, 2), np.float32)}, broken)
    with running_engine(settings(64)) as listener:
        listener.load(models["llama"].folder, "constants")  # what the first answer of a process leaves
        Chat(listener, models["llama"], " before").say(PROMPT)
        listener.submit(UnloadModel())
        watch.models.clear()
        with listener.held():
            before = mx.get_active_memory()
        listener.load(models["llama"].folder)
        Chat(listener, models["llama"]).say(PROMPT)
        assert mx.get_active_memory() > before
        watch.models.clear()
        listener.submit(LoadModel("broken", str(tmp_path / "broken")))
        assert "do not belong" in listener.failed("broken").error
        assert any(isinstance(event, ModelUnloaded) and event.reason == "room" for event in listener.events)
        with listener.held():  # it fails while what it has read so far is still held
            assert mx.get_active_memory() <= before


def test_a_chat_that_was_forgotten_is_pinned_no_longer(models: dict[str, Checked]) -> None:
    with running_engine(settings(pages=20)) as listener:
        listener.load(models["llama"].folder)
        chat = Chat(listener, models["llama"])
        listener.submit(Pin("a", True))
        chat.say(PROMPT, chat="a")
        listener.submit(Forget("a"))
        chat.say(PROMPT, chat="a")
        said, _ = chat.say(tuple(reversed(PROMPT)), chat="b")  # needs pages of the other
    assert len(said) > len(PROMPT)


def test_a_pinned_chat_that_takes_most_of_memory_goes_on(models: dict[str, Checked]) -> None:
    with running_engine(settings(pages=20)) as listener:
        listener.load(models["llama"].folder)
        chat = Chat(listener, models["llama"])
        listener.submit(Pin("a", True))
        said, _ = chat.say(PROMPT, chat="a")
        _, report = chat.say((*said, *NEW), chat="a")  # 16 pages, of which it has 15
        assert report.cached_tokens == len(said) - 1
        listener.submit(Generate("other", tokens=tuple(reversed(PROMPT)), chat="b"))
        failed = listener.failed("other")
        assert failed.refusal is not None
        assert [way.chat for way in failed.refusal.ways_out if way.kind == "evict"] == ["a"]
