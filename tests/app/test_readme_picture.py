"""The picture in the README: the real window, engine and guide, saved to be looked at and copied."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.model_location import GUIDE
from engine import Engine, EngineSettings
from tests.app.conftest import OpenDesktop

PICTURE = Path(__file__).resolve().parents[2] / "build" / "screenshots" / "readme.png"
QUESTIONS = ("Are my chats private?", "Which models can I open?", "What is a page?")


def test_readme(open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path) -> None:
    desktop = open_desktop(lambda emit: Engine(emit, EngineSettings()), GUIDE, tmp_path / "home")
    desktop.window.resize(1080, 680)
    for question in QUESTIONS:
        assert desktop.conversation.send(question)
        qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    for _ in range(3):  # the layout settles in steps
        QApplication.processEvents()
    answers = [message.text for message in desktop.conversation.messages if message.role == "assistant"]
    assert len(answers) == len(QUESTIONS)
    assert all(answers)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    assert desktop.window.grab().toImage().save(str(PICTURE))
