"""Pictures of the models page in every state a person meets, beside those of test_screenshots.py."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QDialog, QLabel, QPushButton, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from app.downloads.events import Failed, Finished, Paused, Prepared, Progress, Queued
from app.downloads.wanted import Plan, PlannedFile, Wanted
from app.model_location import GUIDE
from app.models.library_view import DELETE, LibraryView
from app.wiring import Desktop
from engine import LoadProgress
from tests.app.conftest import OpenDesktop
from tests.app.models.conftest import Scene
from tests.app.models.conftest import hub_home as hub_home
from tests.app.models.conftest import own_home as own_home
from tests.app.test_screenshots import FOLDER, save
from tests.engine.loading.gguf.writer import WIDE, q4_k_m, write_gguf_model
from tests.fakes.models_elsewhere import cache_revision
from tests.fakes.random_model import write_random_model
from tests.hub.fixtures import HubHome
from tests.hub.repos import HubFile, Repo
from tests.hub.server import HubServer

SIZES = ((1080, 720), (720, 520), (560, 420))
CONFIG = b'{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}'
CARD = (
    """# Small, but awake
A **small** model that answers in *short* sentences; see [its page](https://example.org).

| Version | Size | Good for |
|---|---:|---|
| Q4_K_M | 2.0 GB | most machines |
| Q8_0 | 3.4 GB | those with room |

```python
print("hello")
```
"""
    + "It was trained on text that its authors wrote, and says when it does not know. " * 12
)
QUANTS = (("Q2_K", 1.36), ("Q3_K_M", 1.69), ("Q4_K_M", 2.02), ("Q5_K_M", 2.32), ("Q8_0", 3.42), ("f16", 6.43))


@pytest.fixture(params=["light", pytest.param("dark", marks=pytest.mark.long)])
def look(request: pytest.FixtureRequest) -> str:
    """Both themes."""
    return request.param


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GGUF model, written once."""
    file = tmp_path_factory.mktemp("gguf") / "helper-3B-Q4_K_M.gguf"
    write_gguf_model(file, types=q4_k_m, **WIDE)
    return file


def repos(gguf_file: Path) -> list[Repo]:
    """What the hub has: a model in many versions, a gated one, one that does not run, and many more."""
    begin = gguf_file.read_bytes()[: 1 << 16]
    weights = HubFile(random.Random(1).randbytes(1000), lfs=True, listed_size=14_000_000_000)
    files = {"config.json": CONFIG, "tokenizer.json": b"{}", "model.safetensors": weights}
    versions = {
        f"Llama-Small-3B-Instruct-{name}.gguf": HubFile(begin, lfs=True, listed_size=int(size * 1e9))
        for name, size in QUANTS
    }
    gguf = {"architecture": "llama", "total": 3_212_749_888, "context_length": 131_072}
    vision = {"config.json": b'{"model_type": "siglip"}', "model.safetensors": weights}
    return [
        Repo(
            "maker/Llama-Small-3B-Instruct-GGUF",
            versions,
            downloads=250_000,
            likes=133,
            license="llama3.2",
            card=CARD,
            gguf=gguf,
        ),
        Repo(
            "large-lab/Llama-Gated-7B-Instruct",
            files,
            gated="manual",
            downloads=900_000,
            likes=5000,
            license="llama3",
            card="# Gated",
            safetensors={"BF16": 7_000_000_000},
        ),
        Repo("lab/llama-vision-tower", vision, downloads=800, license="apache-2.0"),
        *(
            Repo(f"maker{number % 7}/llama-{number}-instruct-with-a-long-name-4bit", files, downloads=number)
            for number in range(20)
        ),
    ]


@pytest.fixture
def scene(
    open_desktop: OpenDesktop,
    qtbot: QtBot,
    hub_home: HubHome,
    own_home: Path,
    gguf_file: Path,
    look: str,
) -> Iterator[Scene]:
    """The page with the guide loaded, beside a hub."""
    with HubServer(repos(gguf_file)) as hub:
        hub_home.connect(hub)
        desktop = open_desktop(model=GUIDE)
        desktop.appearance.choose("light" if look == "light" else "dark")
        scene = Scene(desktop, qtbot)
        scene.hub = hub
        yield scene


def picture(scene: Scene, name: str) -> None:
    """Save what the window shows, wide and narrow; nothing may be cut off at the sides."""
    look = "dark" if scene.desktop.appearance.theme.dark else "light"
    for size in SIZES:
        scene.desktop.window.resize(*size)
        save(scene.desktop, f"{look}-models-{name}-{size[0]}")
        assert scene.desktop.window.size().toTuple() == size
        for widget in cut_off(scene.page):
            raise AssertionError(f"{widget.objectName()} {widget.accessibleName()} is cut off in {name}")


def cut_off(page: QWidget) -> Iterator[QWidget]:
    """Words and buttons on show that are seen in part of their width only."""
    for kind in (QLabel, QPushButton, QToolButton):
        for widget in page.findChildren(kind):
            seen = widget.visibleRegion().boundingRect()
            if widget.isVisible() and not seen.isEmpty() and seen.width() < widget.width():
                yield widget
    for label in page.findChildren(QLabel):
        if label.isVisible() and label.wordWrap() and label.height() < label.heightForWidth(label.width()):
            yield label


def picture_of(dialog: QWidget, name: str) -> None:
    """Save what a dialog or a menu shows."""
    for _ in range(3):
        QApplication.processEvents()
    FOLDER.mkdir(parents=True, exist_ok=True)
    assert dialog.grab().save(str(FOLDER / f"{name}.png"))


def fill_library(desktop: Desktop, hub_home: HubHome, tmp_path: Path, gguf_file: Path) -> Path:
    """Models in every state; returns the one that will be gone."""
    mine = tmp_path / "mine"
    write_random_model(mine / "story-teller-1B")
    write_random_model(mine / "odd-model")
    config = json.loads((mine / "odd-model" / "config.json").read_text())
    (mine / "odd-model" / "config.json").write_text(json.dumps(config | {"model_type": "mamba"}))
    shutil.copy(gguf_file, mine)
    gone = cache_revision(hub_home.cache, "maker/soon-gone", "b" * 40, mine / "story-teller-1B")
    cache_revision(hub_home.cache, "maker/Assistant-7B-Instruct", "a" * 40, mine / "story-teller-1B")
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled" / "pytorch_model.bin").write_bytes(b"\x80" * 1_200_000)
    cache_revision(hub_home.cache, "large-lab/Speaks-13B", "c" * 40, tmp_path / "pickled")
    (mine / "half.gguf").write_bytes(gguf_file.read_bytes()[:5000])
    desk = desktop.models_door.desk
    assert desk
    desk.library.take_in(str(mine))
    return gone.parents[1]


def test_library(scene: Scene, hub_home: HubHome, tmp_path: Path, gguf_file: Path, look: str) -> None:
    picture(scene, "few")
    gone = fill_library(scene.desktop, hub_home, tmp_path, gguf_file)
    scene.wait(lambda: len(scene.labels()) == 6)
    shutil.rmtree(gone)
    scene.desk.library.scan()
    scene.wait(lambda: scene.labels().get("soon-gone") == "Gone")
    model = scene.desk.library.find("hf:maker/Assistant-7B-Instruct")
    assert model
    scene.desk.library.set_favourite(model, True)
    view = scene.page.library.list
    scene.wait(lambda: view.names()[0] == model.name)
    scene.desktop.models.open(str(model.path))
    scene.wait(lambda: scene.labels()[model.name] == "Loaded")
    view.setCurrentIndex(view.rows.index(1))
    picture(scene, "library")
    scene.desktop.window.resize(*SIZES[0])
    menus_and_dialogs(scene, view, look)


def menus_and_dialogs(scene: Scene, view: LibraryView, look: str) -> None:
    menu = view.menu_for(view.rows.index(0))
    menu.popup(scene.page.mapToGlobal(scene.page.rect().center()))
    picture_of(menu, f"{look}-models-menu")
    next(action for action in menu.actions() if action.text() == DELETE).trigger()
    menu.close()
    for open_it, name in (
        (lambda: None, "delete"),
        (lambda: view.settings_wanted.emit(view.rows.model(view.rows.index(0))), "settings"),
        (scene.page.token_wanted.emit, "token"),
        (scene.page.library.left_out.click, "left-out"),
    ):
        open_it()
        scene.wait(lambda: any(dialog.isVisible() for dialog in scene.page.findChildren(QDialog)))
        dialog = next(dialog for dialog in scene.page.findChildren(QDialog) if dialog.isVisible())
        picture_of(dialog, f"{look}-models-{name}")
        assert not list(cut_off(dialog)), name
        dialog.reject()


def test_discover(scene: Scene, look: str) -> None:
    scene.show("discover")
    picture(scene, "short-list")
    scene.search("llama")
    picture(scene, "results")
    scene.look_at("large-lab/Llama-Gated-7B-Instruct")
    scene.wait(lambda: scene.desk.repo.access is not None)
    picture(scene, "gated")
    scene.look_at("maker/Llama-Small-3B-Instruct-GGUF")
    scene.wait(lambda: len(scene.page.discover.repo_pane.cards) == len(QUANTS))
    picture(scene, "repository")
    pane = scene.page.discover.repo_pane
    pane.verticalScrollBar().setValue(pane.verticalScrollBar().maximum())
    picture(scene, "card")
    scene.search("no such model")
    picture(scene, "nothing-found")


def test_downloads(scene: Scene, look: str) -> None:
    scene.show("discover")
    plan = Plan("a" * 40, (PlannedFile("model.gguf", 4_100_000_000, "b" * 64),))
    for number, repo in enumerate(("maker/Llama-8B-GGUF", "maker/Qwen-4B", "maker/Mistral-7B", "maker/Tiny")):
        scene.desk.downloads.handle(Queued(number, Wanted(repo)))
        scene.desk.downloads.handle(Prepared(number, plan, "q4_k_m" * (not number), 2_000_000_000, Path()))
    scene.desk.downloads.handle(Progress(0, "model.gguf", 2_700_000_000, 4_100_000_000, 34e6, 41.0))
    scene.desk.downloads.handle(Paused(1))
    full = "the disk of /models has 1.2 GB free; 2.1 GB are still to come: make 2.9 GB of room, then go on"
    scene.desk.downloads.handle(Failed(2, full, is_resumable=True))
    picture(scene, "downloads")
    scene.desk.downloads.handle(Finished(0, plan, Path("/models/x.gguf"), 5))
    for number in (1, 2, 3):
        scene.desk.downloads.put_away(number)
    picture(scene, "downloaded")


def test_problems(scene: Scene, look: str) -> None:
    scene.hub.is_offline = True
    scene.search("llama")
    picture(scene, "offline")
    scene.page.say_problem(
        "/data/library.sqlite3 is held by another process; close it, then try again: nothing is lost"
    )
    scene.show("library")
    scene.desktop.models.handle(LoadProgress("", 1, 2))
    picture(scene, "problem")
