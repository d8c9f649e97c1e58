"""Downloads in the window: folded from events, cancelled, failed in words, and going on after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt

from app.downloads.events import Failed, Finished, Paused, Prepared, Progress, Queued, Retrying, Verifying
from app.downloads.wanted import Plan, PlannedFile, Wanted
from app.models.downloads_view_model import DownloadState, fold
from app.models.model_words import download_words
from app.paths import Paths
from app.settings import SettingsFile
from app.widgets.settings_dialog import SettingsDialog
from tests.app.conftest import OpenDesktop
from tests.app.models.conftest import OpenScene, Scene
from tests.hub.faults import Fault
from tests.hub.fixtures import HubHome
from tests.hub.repos import HubFile, Repo
from tests.hub.server import HubServer

CONFIG = b'{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}'
WEIGHTS = "model.safetensors"
WANTED = Wanted("org/name", "q8")
PLAN = Plan("a" * 40, (PlannedFile(WEIGHTS, 2_000_000, "b" * 64),))
HALF = "1.0 MB of 2.0 MB"
STATE = DownloadState(1, WANTED, "queued")


@pytest.mark.parametrize(
    ("event", "phase", "words"),
    [
        (Queued(1, WANTED), "queued", f"Waiting · {HALF}"),
        (Progress(1, WEIGHTS, 10**6, 2 * 10**6, 1e6, 61.0), "running", f"{HALF} · 1.0 MB/s · 1 min 1 s left"),
        (Progress(1, WEIGHTS, 10**6, 2 * 10**6, 0, None), "running", HALF),
        (Retrying(1, WEIGHTS, "no network", 3), "retrying", f"{HALF} · Trying again: no network"),
        (Verifying(1, WEIGHTS), "verifying", f"Verifying · {HALF}"),
        (Paused(1), "paused", f"Paused · {HALF}"),
        (Failed(1, "the disk is full", is_resumable=True), "failed", "The disk is full"),
        (Finished(1, PLAN, Path("/x"), 5), "finished", "Ready · 2.0 MB"),
    ],
)
def test_events_become_words(event: Queued, phase: str, words: str) -> None:
    state = fold(STATE, Prepared(1, PLAN, "q8_0", 1_000_000, Path("/x")))
    assert state.title == "org/name:q8_0"
    state = fold(state, event)
    assert (state.phase, download_words(state)) == (phase, words)


def repo(name: str, size: int = 2_000_000) -> Repo:
    files = {
        "config.json": CONFIG,
        "tokenizer.json": b"{}",
        WEIGHTS: HubFile(bytes(range(250)) * (size // 250), lfs=True),
    }
    return Repo(name, files)


def begin(scene: Scene, name: str) -> int:
    """Find and download it; returns the download's number."""
    scene.search(name)
    scene.look_at(name)
    button = scene.page.discover.repo_pane.cards[0].button
    scene.wait(button.isEnabled)
    button.click()
    scene.wait(lambda: any(state.wanted.repo == name for state in scene.desk.downloads.states))
    return next(state.id for state in scene.desk.downloads.states if state.wanted.repo == name)


def test_a_download_goes_on_after_a_restart(
    open_desktop: OpenDesktop, open_scene: OpenScene, hub: HubServer, hub_home: HubHome, tmp_path: Path
) -> None:
    hub.update(repo("org/long"))
    hub.faults.add(stall := Fault(WEIGHTS, "stall", at=1_000_000))
    first = open_desktop(home=tmp_path / "home")
    scene = open_scene(first)
    id_ = begin(scene, "org/long")
    hub.faults.wait(stall)
    scene.wait(lambda: scene.desk.downloads.states[0].done == 1_000_000 + 2 + len(CONFIG))
    assert "1.0 MB of 2.0 MB" in scene.page.downloads.row(id_).words
    first.close()
    hub.faults.clear()
    again = open_desktop(home=tmp_path / "home")
    desks = again.models_door
    scene.qtbot.waitUntil(
        lambda: (
            desks.desk is not None and [state.phase for state in desks.desk.downloads.states] == ["finished"]
        ),
    )
    assert "org/long" in again.window.toast.text
    assert hub.bytes_sent("org/long", WEIGHTS) <= 1.05 * 2_000_000
    again.window.toast._button.click()
    scene.wait(lambda: again.models.state.phase == "ready")
    assert again.models.state.path.startswith(str(hub_home.cache))


def test_one_sees_that_the_keys_are_with_the_downloads(
    open_desktop: OpenDesktop, open_scene: OpenScene, hub: HubServer
) -> None:
    hub.update(repo("org/first"))
    hub.faults.add(stall := Fault(WEIGHTS, "stall", at=1_000_000))
    scene = open_scene(open_desktop())
    begin(scene, "org/first")
    hub.faults.wait(stall)
    strip, window = scene.page.downloads, scene.desktop.window
    window.activateWindow()
    scene.wait(lambda: window.isActiveWindow() and strip.isVisible())
    without = strip.grab().toImage()
    strip.setFocus(Qt.FocusReason.TabFocusReason)
    assert strip.hasFocus()
    ground, accent = (image.pixelColor(1, strip.height() // 2) for image in (without, strip.grab().toImage()))
    assert ground != accent
    assert accent.name() == scene.desktop.appearance.theme.accent


def test_one_is_cancelled_while_another_waits(
    open_desktop: OpenDesktop, open_scene: OpenScene, hub: HubServer, hub_home: HubHome
) -> None:
    for name in ("org/first", "org/second"):
        hub.update(repo(name))
    hub.faults.add(stall := Fault(WEIGHTS, "stall", at=1_000_000))
    scene = open_scene(open_desktop())
    first, second = begin(scene, "org/first"), begin(scene, "org/second")
    hub.faults.wait(stall)
    assert scene.page.downloads.row(second).words == "Waiting"
    scene.page.downloads.row(first).cancel.click()
    scene.wait(
        lambda: [(state.id, state.phase) for state in scene.desk.downloads.states] == [(second, "finished")]
    )
    assert not list((hub_home.cache / "models--org--first").rglob("*.mlxr-part"))
    scene.page.downloads.row(second).cancel.click()
    assert scene.page.downloads.isHidden()


def test_a_token_that_is_none_is_said(
    open_desktop: OpenDesktop, open_scene: OpenScene, hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.update(repo("org/name"))
    hub.faults.add(stall := Fault(WEIGHTS, "stall", at=1_000_000))
    scene = open_scene(open_desktop())
    id_ = begin(scene, "org/name")
    hub.faults.wait(stall)
    scene.page.downloads.row(id_).switch.click()
    scene.wait(lambda: scene.desk.downloads.states[0].phase == "paused")
    monkeypatch.setenv("HF_TOKEN", "two words")
    scene.page.downloads.row(id_).switch.click()
    scene.wait(lambda: scene.desk.downloads.states[0].phase == "failed")
    assert "HF_TOKEN holds no token" in scene.page.downloads.row(id_).words
    assert "two words" not in scene.page.downloads.row(id_).words
    scene.search("name")
    assert "HF_TOKEN holds no token" in scene.page.discover.note


def test_a_failure_is_said_and_can_be_tried_again(
    open_desktop: OpenDesktop, open_scene: OpenScene, hub: HubServer
) -> None:
    hub.update(repo("org/name"))
    scene = open_scene(open_desktop())
    hub.faults.add(fault := Fault(WEIGHTS, "status", status=403, times=None))
    id_ = begin(scene, "org/name")
    scene.wait(lambda: scene.desk.downloads.states[0].phase == "failed")
    row = scene.page.downloads.row(id_)
    assert "refuses" in row.words
    assert row.switch.accessibleName() == "Resume org/name"
    assert hub.faults.fired(fault)
    hub.faults.clear()
    row.switch.click()
    scene.wait(lambda: scene.desk.downloads.states[0].phase == "finished")
    assert scene.desk.downloads.states[0].words == ""


def test_how_many_files_come_at_once_is_set_in_the_window_holds_at_once_and_is_kept(
    open_desktop: OpenDesktop, open_scene: OpenScene, hub: HubServer, tmp_path: Path
) -> None:
    names = [f"m-Q8_0-{part:05}-of-00004.gguf" for part in range(1, 5)]
    files = {name: HubFile(bytes([at]) * 900_000, lfs=True) for at, name in enumerate(names)}
    hub.update(Repo("org/parts", files))
    hub.faults.add(halt := Fault("*.gguf", "stall", at=100_000, times=None))
    desktop = open_desktop(home=tmp_path / "home")
    scene = open_scene(desktop)
    scene.desk.downloads.add("org/parts", "")
    scene.wait(lambda: hub.faults.fired(halt) == 3)
    desktop.pane.settings_wanted.emit()
    dialog = desktop.window.findChild(SettingsDialog)
    assert dialog is not None
    assert dialog.downloads.row.current == "3"
    dialog.downloads.row.button("5").click()
    scene.wait(lambda: hub.faults.fired(halt) == 4)
    scene.desk.downloads.pause(scene.desk.downloads.states[0].id)
    scene.wait(lambda: scene.desk.downloads.states[0].phase == "paused")
    dialog.accept()
    desktop.close()
    assert SettingsFile(Paths(tmp_path / "home").settings).load().settings.files_at_once == "5"
    again = open_desktop(home=tmp_path / "home")
    again.pane.settings_wanted.emit()
    dialog = again.window.findChild(SettingsDialog)
    assert dialog is not None
    assert dialog.downloads.row.current == "5"
