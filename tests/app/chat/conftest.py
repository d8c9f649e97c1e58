"""A transcript for tests."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat.transcript import Transcript
from app.chat.tree import Versions


@pytest.fixture
def transcript(qtbot: QtBot, appearance: Appearance) -> Transcript:
    transcript = Transcript(appearance, lambda message_id: Versions(), lambda message_id: ())
    qtbot.addWidget(transcript)
    transcript.resize(800, 600)
    transcript.show()
    return transcript
