"""From an empty library to an answer and back, through the window: real engine, real weights, a local hub."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.model_location import GUIDE
from app.models.removal_dialog import RemovalDialog
from engine import Engine, EngineSettings
from tests.app.conftest import OpenDesktop
from tests.app.models.conftest import OpenScene
from tests.hub.faults import Fault
from tests.hub.fixtures import HubHome
from tests.hub.repos import Repo
from tests.hub.server import HubServer

REPO = "org/small-model"
WEIGHTS = "model.safetensors"


def test_search_download_pause_resume_load_chat_delete(
    open_desktop: OpenDesktop,
    open_scene: OpenScene,
    qtbot: QtBot,
    hub: HubServer,
    hub_home: HubHome,
    tmp_path: Path,
) -> None:
    hub.update(Repo.from_folder(REPO, GUIDE, card="# Small\nIt is **small**.", license="mit"))
    # However often it is asked: a window that takes long has the download ask once more.
    halts = [Fault(WEIGHTS, "stall", at=millions * 1_000_000, times=None) for millions in (1, 2, 3)]
    hub.faults.add(*halts)
    home = tmp_path / "home"
    desktop = open_desktop(lambda emit: Engine(emit, EngineSettings(kv_bytes=64 << 20)), GUIDE, home)
    desktop.window.activateWindow()
    qtbot.waitUntil(desktop.window.isActiveWindow)
    modifiers = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    qtbot.keyClick(desktop.window, Qt.Key.Key_M, modifiers)
    qtbot.waitUntil(lambda: not desktop.window.is_chat_shown)
    qtbot.keyClick(desktop.window, Qt.Key.Key_M, modifiers)
    qtbot.waitUntil(lambda: desktop.window.is_chat_shown)
    scene = open_scene(desktop)
    assert scene.labels() == {"guide": "Loaded"}

    scene.search("small")
    assert scene.page.discover.repos() == [REPO]
    scene.look_at(REPO)
    assert "Licence: mit" in scene.page.discover.repo_pane.words
    assert scene.page.discover.repo_pane.card == "# Small\nIt is **small**."

    card = scene.page.discover.repo_pane.cards[0]
    scene.wait(card.button.isEnabled)
    card.button.click()
    scene.wait(lambda: bool(scene.desk.downloads.states))
    row = scene.page.downloads.row(scene.desk.downloads.states[0].id)
    for halt in halts:  # it goes on when the window has shown how far it is
        scene.wait(lambda halt=halt: row.bar.value() >= 1000 * halt.at // 7_600_000)
        assert row.bar.value() < 1000 * (halt.at + 1_000_000) // 7_500_000
        assert "of 7.5 MB" in row.words
        scene.wait(lambda: "/s" in row.words)
        if halt is not halts[-1]:
            hub.faults.release()
    row.switch.click()
    scene.wait(lambda: scene.desk.downloads.states[0].phase == "paused")
    assert "Paused" in row.words
    assert row.bar.value() > 300
    sent = hub.bytes_sent(REPO, WEIGHTS)
    hub.faults.clear()
    assert scene.desk.library.find(f"hf:{REPO}") is None, "a partial file is listed as a model"
    row.switch.click()
    scene.wait(lambda: scene.desk.downloads.states[0].phase == "finished")
    whole = (GUIDE / WEIGHTS).stat().st_size
    assert hub.bytes_sent(REPO, WEIGHTS) <= 1.1 * whole, f"begun anew: {sent} of {whole} had come"

    scene.show("library")
    scene.wait(lambda: "small-model" in scene.labels())
    scene.wait(lambda: desktop.window.isVisible() and scene.page.toast.isVisible())
    row.open.click()
    scene.wait(lambda: scene.labels()["small-model"] == "Loaded")
    assert scene.labels()["guide"] == "Loaded", "both fit"
    assert desktop.models.state.path.startswith(str(hub_home.cache))

    scene.page.left.emit()
    assert desktop.window.is_chat_shown
    assert desktop.conversation.send("What is a page?")
    scene.wait(lambda: not desktop.conversation.state.busy)
    assert desktop.conversation.messages[-1].status == "complete"
    assert desktop.conversation.messages[-1].text

    scene = open_scene(desktop)
    view = scene.page.library.list
    model = scene.desk.library.find(f"hf:{REPO}")
    assert model
    assert model.last_used
    view.removal_wanted.emit(model, False)
    scene.wait(lambda: scene.page.findChild(RemovalDialog) is not None)
    dialog = scene.page.findChild(RemovalDialog)
    assert dialog
    assert "7.5 MB will be freed" in dialog.words
    dialog.delete_button.click()
    scene.wait(lambda: list(scene.labels()) == ["guide"])
    assert not any(path.is_file() for path in hub_home.cache.rglob("*.safetensors"))
    scene.wait(lambda: desktop.models.is_guide)
    assert scene.labels() == {"guide": "Loaded"}
