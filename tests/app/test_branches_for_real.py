"""Edits, new answers and branches with the real engine and the guide: only what is new is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app import text
from app.chat import prediction
from app.chat.cache_words import MISS_WORDS, place_of
from app.chat.token_path import tokens_along
from app.model_location import GUIDE
from app.paths import Paths
from app.wiring import Desktop
from engine import CacheReport, Engine, EngineSettings, Event, Finished, SsdSettings
from tests.app.conftest import OpenDesktop
from tests.app.test_branches import view_of
from tests.engine.watched import restore_always

LONG = 3_600_000  # ms
KV_BYTES = 64 << 20


class Real:
    """A window with the real engine, and what the engine told it."""

    def __init__(
        self, open_desktop: OpenDesktop, qtbot: QtBot, home: Path, ssd: SsdSettings | None = None
    ) -> None:
        self.qtbot = qtbot
        self.events: list[Event] = []

        def make(emit: Callable[[Event], None]) -> Engine:
            def record(event: Event) -> None:
                self.events.append(event)
                emit(event)

            # Of its own home is what it learns, too: what others met decides nothing here.
            return Engine(record, EngineSettings(kv_bytes=KV_BYTES, ssd=ssd, cache=Paths(home).kernels))

        self.desktop: Desktop = open_desktop(make, GUIDE, home)
        self.chat = self.desktop.conversation

    def type(self, words: str) -> None:
        self.qtbot.keyClicks(self.desktop.pane.composer.focusProxy(), words)

    def say(self, words: str) -> None:
        self.type(words)
        self.qtbot.keyClick(self.desktop.pane.composer.focusProxy(), Qt.Key.Key_Return)
        self.done()

    def done(self) -> None:
        self.qtbot.waitUntil(lambda: not self.chat.state.busy)
        assert self.chat.messages[-1].status == "complete", self.chat.messages[-1].error

    def found(self) -> CacheReport:
        """What the last request found in the cache."""
        return [event for event in self.events if isinstance(event, CacheReport)][-1]

    def computed(self) -> Finished:
        """How the last request ended; the tokens on show are exactly those."""
        end = [event for event in self.events if isinstance(event, Finished)][-1]
        assert tokens_along(self.chat.messages) == end.prompt_tokens + end.tokens
        return end


@pytest.fixture
def real(open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path) -> Real:
    real = Real(open_desktop, qtbot, tmp_path / "home")
    real.say("What is a page?")
    return real


def test_the_next_turn_finds_all_that_was_read_and_written(real: Real) -> None:
    before = real.computed()
    known = len(before.prompt_tokens) + len(before.tokens)
    line = real.desktop.pane.status_line
    real.type("Where are my chats saved?")
    real.qtbot.waitUntil(lambda: "tokens cached" in line.words)
    predicted = line.words
    real.say("")
    after = real.computed()
    assert after.prompt_tokens[:known] == before.prompt_tokens + before.tokens
    found = real.found()
    # The last generated token was never fed back to the model: its keys and values are not there.
    assert known - 1 <= found.cached_tokens <= known
    assert found.missed_from is None
    assert f"{found.cached_tokens:,} of {found.prompt_tokens:,} tokens cached" in predicted


def test_another_answer_reads_one_token(real: Real) -> None:
    prompt = real.computed().prompt_tokens
    assert real.chat.regenerate(real.chat.messages[-1].id)
    real.done()
    assert real.computed().prompt_tokens == prompt
    assert real.found().cached_tokens == len(prompt) - 1


def test_an_edit_reads_from_the_place_that_differs(real: Real) -> None:
    real.say("Where are my chats saved?")
    first = tokens_along(real.chat.messages[:2])
    assert real.chat.edit(real.chat.messages[2].id, "Where is my data kept?")
    real.done()
    assert real.computed().prompt_tokens[: len(first)] == first
    assert real.found().cached_tokens >= len(first)
    real.chat.switch(real.chat.messages[2].id, -1)
    assert real.chat.messages[2].text == "Where are my chats saved?"


def test_why_an_edited_question_is_read_anew_is_said_under_its_answer(real: Real) -> None:
    real.say("Where are my chats saved?")
    before = real.computed().prompt_tokens
    assert real.chat.edit(real.chat.messages[2].id, "Where is my data kept?")
    real.done()
    pairs = zip(before, real.computed().prompt_tokens, strict=False)
    differs = next(place for place, (old, new) in enumerate(pairs) if old != new)
    assert (real.found().missed_from, real.found().reason) == (differs, "edited")
    said = text.MISSED_NEW.format(token=differs, reason=MISS_WORDS["edited"])
    shown = view_of(real.desktop, real.chat.messages[-1].text).findChildren(QLabel)
    assert said in "\n".join(label.text() for label in shown).split("\n")


def test_a_branch_finds_what_its_chat_has_read(real: Real) -> None:
    known = len(tokens_along(real.chat.messages))
    real.say("Where are my chats saved?")
    real.chat.branch(real.chat.messages[1].id)
    real.say("How do I open another model?")
    real.computed()
    assert known - 1 <= real.found().cached_tokens
    assert real.found().missed_from is None


def test_a_branch_is_in_memory_at_once_and_stays_when_its_chat_is_deleted(real: Real) -> None:
    real.say("Where are my chats saved?")
    known, old, chats = len(tokens_along(real.chat.messages)), real.chat.chat, real.desktop.chats
    real.chat.branch(real.chat.messages[-1].id)
    new = real.chat.chat
    assert old
    assert new
    real.qtbot.waitUntil(lambda: new.id in chats.memory)
    assert place_of(chats.memory[new.id]) == "memory"
    chats.delete(old.id)
    real.qtbot.waitUntil(lambda: old.id not in chats.memory)
    real.say("How do I open another model?")
    page = EngineSettings().page_size
    assert real.found().cached_tokens == known // page * page
    assert known >= 3 * page


def test_what_a_deleted_chat_had_is_not_promised_to_a_new_one(real: Real) -> None:
    before, old, line = real.computed(), real.chat.chat, real.desktop.pane.status_line
    assert old
    real.chat.new_chat()
    real.type("What is a page?")
    prompt = len(before.prompt_tokens)
    real.qtbot.waitUntil(lambda: f"{prompt - 1} of {prompt} tokens cached" in line.words)
    real.desktop.chats.delete(old.id)
    real.qtbot.waitUntil(lambda: f"0 of {prompt} tokens cached" in line.words)
    real.say("")
    assert real.found().cached_tokens == 0


def test_a_dot_comes_with_the_pages_and_goes_with_the_chat(real: Real) -> None:
    chat = real.chat.chat
    assert chat
    chats = real.desktop.chats
    real.qtbot.waitUntil(lambda: chat.id in chats.memory)
    assert chats.memory[chat.id].memory_bytes > 0
    chats.delete(chat.id)
    real.qtbot.waitUntil(lambda: chat.id not in chats.memory)


def test_a_chat_is_on_ssd_after_a_restart_and_comes_back(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_always(monkeypatch)
    monkeypatch.setattr(prediction, "PAUSE_MS", LONG)  # else it may come back while the message is typed
    ssd = SsdSettings(tmp_path / "pages", floor_bytes=0)
    first = Real(open_desktop, qtbot, tmp_path / "home", ssd)
    first.say("What is a page?")
    first.say("Where are my chats saved?")
    first.desktop.close()
    again = Real(open_desktop, qtbot, tmp_path / "home", ssd)
    chats = again.desktop.chats
    qtbot.waitUntil(lambda: bool(chats.rows and chats.memory))
    chat = chats.rows[0].chat
    assert place_of(chats.memory[chat.id]) == "ssd"
    again.desktop.window.sidebar.chosen.emit(chat.id)
    qtbot.waitUntil(lambda: len(again.chat.messages) == 4)
    again.say("How do I open another model?")
    again.computed()
    assert again.found().restored_tokens > 0
    assert again.found().missed_from is None
    qtbot.waitUntil(lambda: place_of(chats.memory[chat.id]) == "memory")
