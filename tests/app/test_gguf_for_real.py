"""A GGUF file dropped on the window: it chats, and a damaged one is told of in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.wiring import Desktop
from engine import Engine, EngineSettings
from tests.app.conftest import OpenDesktop
from tests.engine.loading.gguf.writer import WIDE, write_gguf_model
from tests.fakes.dragging import drop


@pytest.fixture
def desktop(open_desktop: OpenDesktop, tmp_path: Path) -> Desktop:
    """A window without a model."""
    settings = EngineSettings(kv_bytes=1 << 20, speculation=False)
    return open_desktop(lambda emit: Engine(emit, settings), None, tmp_path / "home", wait=False)


def test_a_split_file_is_opened_by_any_of_its_parts_and_chats(
    desktop: Desktop, qtbot: QtBot, tmp_path: Path
) -> None:
    write_gguf_model(tmp_path / "small", parts=2, **WIDE)
    assert drop(desktop.window, tmp_path / "small-00002-of-00002.gguf")
    qtbot.waitUntil(lambda: desktop.models.state.phase == "ready")
    assert desktop.pane.model_button.text() == "small"
    assert desktop.conversation.send("hello")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    answer = desktop.conversation.messages[-1]
    assert answer.status in ("complete", "length")
    assert answer.generated_tokens > 0
    assert desktop.models.recent == (str(tmp_path / "small-00001-of-00002.gguf"),)


def test_a_damaged_file_is_told_of_in_one_line(desktop: Desktop, qtbot: QtBot, tmp_path: Path) -> None:
    file = tmp_path / "cut.gguf"
    write_gguf_model(file, **WIDE)
    file.write_bytes(file.read_bytes()[:-1000])
    assert drop(desktop.window, file)
    qtbot.waitUntil(lambda: desktop.models.state.phase == "failed")
    told = desktop.pane.model_banner.text
    assert desktop.pane.model_banner.isVisible()
    assert "cut.gguf" in told
    assert "\n" not in told
