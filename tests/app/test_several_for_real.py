"""Several answers with the real engine and the guide: one is kept, and the pages of the others are free."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.chat.answers_view import AnswersView
from app.chat.token_path import tokens_along
from app.model_location import GUIDE
from app.wiring import Desktop
from engine import CacheReport, Engine, EngineSettings, Event, Finished, Freed, Stats
from tests.app.conftest import OpenDesktop

PAGE = 16


class Told:
    """A window with the real engine, and what the engine told it."""

    def __init__(self, open_desktop: OpenDesktop, qtbot: QtBot, home: Path) -> None:
        self.qtbot = qtbot
        self.events: list[Event] = []

        def make(emit: Callable[[Event], None]) -> Engine:
            def record(event: Event) -> None:
                self.events.append(event)
                emit(event)

            return Engine(record, EngineSettings(kv_bytes=64 << 20))

        self.desktop: Desktop = open_desktop(make, GUIDE, home)

    def until(self, phase: str) -> None:
        self.qtbot.waitUntil(lambda: self.desktop.conversation.state.phase == phase)

    def ask(self, count: int) -> AnswersView:
        """Ask from the composer's menu; returns the answers as the transcript shows them."""
        composer = self.desktop.pane.composer
        self.qtbot.keyClicks(composer.focusProxy(), "What is a page?")
        composer.several_button.menu().actions()[count - 2].trigger()
        shown = self.desktop.pane.transcript.findChild(AnswersView)
        assert isinstance(shown, AnswersView)
        return shown

    def last(self, kind: type[Event]) -> Event:
        return [event for event in self.events if isinstance(event, kind)][-1]

    def is_told_behind_the_end(self) -> bool:
        """Whether the newest figures are of after the answers: while those are written some pages lack."""
        places = {type(event): place for place, event in enumerate(list(self.events))}
        return places.get(Stats, 0) > places[Finished]

    def cached_pages(self) -> int:
        stats = self.last(Stats)
        assert isinstance(stats, Stats)
        return stats.cached_pages


@pytest.fixture
def told(open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path) -> Told:
    return Told(open_desktop, qtbot, tmp_path / "home")


def test_the_pages_of_what_is_not_kept_are_free(told: Told) -> None:
    shown = told.ask(3)
    told.until("choosing")
    end = told.last(Finished)
    assert isinstance(end, Finished)
    told.qtbot.waitUntil(told.is_told_behind_the_end)
    before = told.cached_pages()
    # The last token of an answer is never fed back, so it is in no page.
    chains = [end.prompt_tokens + tokens[:-1] for tokens in (end.tokens, *(o.tokens for o in end.others))]
    pages = [{chain[: begin + PAGE] for begin in range(0, len(chain), PAGE)} for chain in chains]
    assert before == len(pages[0] | pages[1] | pages[2])
    told.qtbot.mouseClick(shown.cards[1].keep_button, Qt.MouseButton.LeftButton)
    told.qtbot.waitUntil(lambda: any(isinstance(event, Freed) for event in told.events))
    freed = told.last(Freed)
    assert isinstance(freed, Freed)
    assert freed.pages == before - len(pages[1])
    told.qtbot.waitUntil(lambda: told.cached_pages() == len(pages[1]))
    told.qtbot.waitUntil(told.desktop.window.toast.isVisible)
    conversation = told.desktop.conversation
    assert tokens_along(conversation.messages) == end.prompt_tokens + end.others[0].tokens
    assert conversation.versions(conversation.messages[-1].id).count == 3
    assert conversation.send("And where are my chats saved?")
    told.until("idle")
    found = told.last(CacheReport)
    assert isinstance(found, CacheReport)
    assert found.cached_tokens >= len(chains[1])
    assert found.missed_from is None


def test_one_is_kept_while_all_are_being_written(told: Told) -> None:
    shown = told.ask(4)
    told.qtbot.waitUntil(lambda: shown.cards[3].keep_button.isEnabled())
    told.qtbot.mouseClick(shown.cards[3].keep_button, Qt.MouseButton.LeftButton)
    told.until("idle")
    end = told.last(Finished)
    assert isinstance(end, Finished)
    conversation = told.desktop.conversation
    assert conversation.messages[-1].text == end.others[2].text
    assert tokens_along(conversation.messages) == end.prompt_tokens + end.others[2].tokens
    kept = -(-(len(end.prompt_tokens) + len(end.others[2].tokens) - 1) // PAGE)
    told.qtbot.waitUntil(lambda: told.cached_pages() == kept)
