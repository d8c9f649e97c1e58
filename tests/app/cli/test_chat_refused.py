"""A terminal chat that has become too long for its memory, or its model."""

from __future__ import annotations

import io

import pytest

from app.cli.chat import _answer
from app.cli.conversation import Conversation
from app.cli.session import Session
from app.cli.terminal import Terminal
from app.model_location import GUIDE
from engine import Engine, EngineSettings, SamplingParams

SENTENCE = "Please tell me everything that you know about pages, chats, models and settings. "
HINT = "/new starts a new chat"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("settings", [EngineSettings(kv_pages=8), EngineSettings(context=128)])
def test_it_is_told_of_a_new_one_and_a_message_that_is_too_long_is_not(
    settings: EngineSettings,
) -> None:
    screen = Screen()
    terminal = Terminal(io.StringIO(), screen, environ={})
    with Session(lambda emit: Engine(emit, settings)) as session:
        model = session.load(GUIDE, lambda _: None)
        chat = Conversation(session, model, terminal, SamplingParams(), None, None)
        _answer(chat, SENTENCE * 12, terminal)
        assert "error: " in screen.getvalue()
        assert HINT not in screen.getvalue()
        screen.truncate(0)
        _answer(chat, SENTENCE * 3, terminal)
        for _ in range(9):
            if "error: " not in screen.getvalue():
                _answer(chat, "hi", terminal)
        assert "error: " in screen.getvalue()
        assert screen.getvalue().endswith(f"{HINT}\n")
