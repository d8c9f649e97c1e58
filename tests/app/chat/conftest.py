"""A transcript for tests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat.edits import Edits
from app.chat.transcript import Transcript
from app.chat.tree import Versions
from app.store.records import ChatMessage
from tests.fakes.instant_store import InstantStore


class Alone:
    """Messages without versions, of which none was refused."""

    def versions(self, message_id: str) -> Versions:
        return Versions()

    def together(self, message_id: str) -> Sequence[ChatMessage]:
        return ()

    def ways_out(self, message_id: str) -> Sequence[str]:
        return ()


@pytest.fixture
def transcript(qtbot: QtBot, appearance: Appearance) -> Transcript:
    transcript = Transcript(appearance, Alone(), Edits(InstantStore()))
    qtbot.addWidget(transcript)
    transcript.resize(800, 600)
    transcript.show()
    return transcript
