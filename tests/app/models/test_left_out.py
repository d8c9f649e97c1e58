"""What lies among the models and is none: counted, told, and deleted with the space it took."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QLabel, QPushButton

from app.downloads.journal import Journal
from app.downloads.wanted import Wanted
from app.models.left_out_dialog import LeftOutDialog
from app.models.removal_dialog import RemovalDialog
from tests.app.conftest import OpenDesktop
from tests.app.models.conftest import OpenScene, Scene
from tests.fakes.models_elsewhere import cache_revision
from tests.hub.fixtures import HubHome

COMMIT = "a" * 40


def delete_left_out(scene: Scene) -> None:
    """Open what is told of it, and press the button of its only row."""
    scene.page.library.left_out.click()
    dialog = scene.page.findChild(LeftOutDialog)
    assert dialog
    (row,) = dialog.rows
    assert next(label.text() for label in row.findChildren(QLabel)) == "org/pickled · 2.0 MB"
    button = row.findChild(QPushButton)
    assert button
    button.click()
    QApplication.sendPostedEvents(dialog, QEvent.Type.DeferredDelete)


def test_what_is_not_whole_is_counted_and_no_model(scene: Scene, hub_home: HubHome, model: Path) -> None:
    snapshot = cache_revision(hub_home.cache, "org/half", COMMIT, model)
    next(snapshot.glob("tokenizer.*")).unlink()
    scene.page.library._again.menu().actions()[0].trigger()
    scene.wait(lambda: "1 more is not whole" in scene.page.library.note)
    assert list(scene.labels()) == ["guide"]
    scene.page.library.left_out.click()
    dialog = scene.page.findChild(LeftOutDialog)
    assert dialog
    assert any("tokenizer" in label.text() for label in dialog.rows[0].findChildren(QLabel))


def test_what_is_left_out_is_told_and_deleted_with_the_space_it_took(
    open_desktop: OpenDesktop, open_scene: OpenScene, hub_home: HubHome, tmp_path: Path
) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "pytorch_model.bin").write_bytes(b"\x80" * 2_000_000)
    folder = cache_revision(hub_home.cache, "org/pickled", COMMIT, tmp_path / "files").parent.parent
    scene = open_scene(open_desktop())
    pane = scene.page.library
    scene.wait(pane.left_out.isVisible)
    assert "1 more is not whole or not readable" in pane.note
    with closing(Journal(scene.desktop._paths.downloads)) as journal:
        entry = journal.add(Wanted("org/pickled"))
        delete_left_out(scene)
        scene.wait(scene.page.banner.isVisible)
        assert "mlxr pull org/pickled --cancel" in scene.page.banner.text
        assert "1 more is" in pane.note
        journal.forget(entry.id)
    delete_left_out(scene)
    scene.wait(lambda: scene.page.findChild(RemovalDialog) is not None)
    removal = scene.page.findChild(RemovalDialog)
    assert removal
    assert removal.words == f"2.0 MB will be freed by deleting {folder}."
    removal.delete_button.click()
    scene.wait(lambda: not pane.left_out.isVisible())
    assert scene.page.toast.text == "org/pickled is deleted: 2.0 MB freed"
    assert not folder.exists()
