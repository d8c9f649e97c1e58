"""Discover: the short list, the search with its filters and pages, one repository, and what goes wrong."""

from __future__ import annotations

import socket
import threading
import time
from itertools import pairwise

import pytest
from huggingface_hub import constants
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from app.hub.curated import curated_models
from app.hub.search import Query
from app.models.card_blocks import NOTHING
from app.models.discover_pane import NOTHING_FOUND, SEARCHING, SHORT_LIST
from app.models.model_words import short_list
from app.models.token_dialog import TokenDialog
from tests.app.conftest import OpenDesktop
from tests.app.hub.test_token import MemoryKeychain
from tests.app.models.conftest import OpenScene, Scene
from tests.fakes.busy_thread import keep_busy
from tests.hub.faults import Fault
from tests.hub.fixtures import HubHome
from tests.hub.repos import HubFile, Repo
from tests.hub.server import HubServer

CONFIG = b'{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}'
FILES = {"config.json": CONFIG, "tokenizer.json": b"{}", "model.safetensors": HubFile(b"x" * 100, lfs=True)}
TAGS = ("mlx", "llama")
GATED = Repo("org/gated", FILES, gated="manual", license="llama3", card="# Gated")


@pytest.fixture
def scene(open_desktop: OpenDesktop, open_scene: OpenScene, hub: HubServer) -> Scene:
    return open_scene(open_desktop())


def searches(hub: HubServer) -> int:
    """How many times the hub was asked to search."""
    return sum(one.path == "/api/models" for one in hub.requests)


def test_the_short_list_needs_no_network_and_nothing_is_asked(scene: Scene, hub: HubServer) -> None:
    scene.show("discover")
    assert scene.page.discover.repos() == [one.repo for one in curated_models()]
    assert scene.page.discover.list.model().index(0, 0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert hub.requests == []


def test_a_search_has_its_filters_and_goes_on_at_its_end(scene: Scene, hub: HubServer, qtbot: QtBot) -> None:
    for number in range(70):
        hub.update(Repo(f"org/small-{number}", FILES, downloads=number, likes=99 - number, tags=TAGS))
    discover = scene.page.discover
    scene.search("small")
    assert len(discover.repos()) == 30
    assert discover.repos()[0] == "org/small-69"
    discover.list.scrollToBottom()
    scene.wait(lambda: len(discover.repos()) == 60)
    discover.list.scrollToBottom()
    scene.wait(lambda: len(discover.repos()) == 70)
    discover.list.scrollToBottom()
    assert len(set(discover.repos())) == 70
    assert not scene.desk.search.has_more
    assert searches(hub) == 3
    discover.sort.choose("likes")
    discover.weights.choose("2-5")
    discover.format.choose("mlx")
    discover.family.choose("qwen3")
    scene.wait(lambda: scene.desk.search.phase == "shown")
    assert scene.desk.search.query == Query("small", "likes", "mlx", "qwen3", 2 * 10**9, 5 * 10**9)
    assert discover.repos() == []
    discover.family.choose("llama")
    discover.weights.choose("")
    scene.wait(lambda: len(discover.repos()) == 30)
    assert discover.repos()[0] == "org/small-0"
    discover.search_field.clear()
    assert discover.repos() == [one.repo for one in curated_models()]


def test_a_narrow_window_shows_the_list_or_what_is_chosen(scene: Scene, hub: HubServer) -> None:
    hub.update(Repo("org/name", FILES))
    discover = scene.page.discover
    scene.search("name")
    scene.look_at("org/name")
    assert discover.list.isVisible()
    assert discover.repo_pane.isVisible()
    scene.desktop.window.resize(560, 420)
    scene.wait(lambda: not discover.list.isVisible())
    assert discover.repo_pane.back.isVisible()
    discover.repo_pane.back.click()
    assert discover.list.isVisible()
    assert not discover.repo_pane.isVisible()
    scene.look_at("org/name")
    scene.wait(discover.repo_pane.isVisible)
    scene.desktop.window.resize(1080, 720)
    scene.wait(discover.list.isVisible)
    assert not discover.repo_pane.back.isVisible()


def test_nothing_found_and_offline_are_said(scene: Scene, hub: HubServer) -> None:
    scene.search("no such model")
    assert scene.page.discover.note == NOTHING_FOUND
    hub.is_offline = True
    scene.search("anything")
    assert "refuses connections" in scene.page.discover.note
    hub.is_offline = False
    hub.update(Repo("org/anything", FILES))
    scene.page.discover._again.click()
    scene.wait(lambda: scene.page.discover.repos() == ["org/anything"])
    assert scene.page.discover.note == ""


def test_offline_by_wish_is_said(
    open_desktop: OpenDesktop, open_scene: OpenScene, hub_home: HubHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = open_scene(open_desktop())  # the hub was never connected: HF_HUB_OFFLINE is set
    scene.search("anything")
    assert "HF_HUB_OFFLINE is set" in scene.page.discover.note
    scene.page.discover.search_field.clear()
    assert scene.page.discover._title.text() == SHORT_LIST
    scene.look_at(curated_models()[0].repo)
    assert "HF_HUB_OFFLINE is set" in scene.page.discover.repo_pane.note


def test_a_hub_that_does_not_answer_holds_up_nothing(
    scene: Scene, hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.update(Repo("org/name", FILES))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        field = scene.page.discover.search_field
        scene.show("discover")
        field.setText("silence")
        field.returnPressed.emit()
        scene.wait(lambda: scene.page.discover.note == SEARCHING)
        asking, _ = silent.accept()
        with asking:  # it was asked, and says nothing
            monkeypatch.setattr(constants, "ENDPOINT", hub.url)
            scene.search("name")
            assert scene.page.discover.repos() == ["org/name"]
            assert sum(thread.name == "mlxr-search" for thread in threading.enumerate()) == 2
            assert asking.recv(1000).startswith(b"GET /api/models?")


def test_a_web_page_in_place_of_the_hub_is_said(scene: Scene, hub: HubServer) -> None:
    hub.faults.add(Fault("/api/models*", "html"))
    scene.search("anything")
    assert "sign in" in scene.page.discover.note


def test_a_card_fetches_nothing(scene: Scene, hub: HubServer) -> None:
    pictures = "![shot](https://example.org/a.png)\n<img src='http://example.org/b.png'>\n[x](file:///etc)"
    card = f"# Name\n{pictures}\n{'A paragraph. ' * 400}"
    hub.update(Repo("org/card", FILES, card=card))
    scene.search("card")
    scene.look_at("org/card")
    assert scene.page.discover.repo_pane.card.startswith("# Name\nshot")
    assert "http" not in scene.page.discover.repo_pane.card
    bar = scene.page.discover.repo_pane.verticalScrollBar()
    scene.wait(lambda: bar.maximum() > 0)
    bar.setValue(bar.maximum())
    hub.update(Repo("org/silent", FILES))
    scene.search("silent")
    scene.look_at("org/silent")
    assert bar.value() == 0
    assert scene.page.discover.repo_pane.card == ""
    assert NOTHING in scene.page.discover.repo_pane._prose._wanted[0].text


def test_what_does_not_run_says_why_and_cannot_be_downloaded(scene: Scene, hub: HubServer) -> None:
    files = FILES | {"config.json": b'{"model_type": "siglip", "architectures": ["Siglip"]}'}
    hub.update(Repo("org/vision", files))
    scene.search("vision")
    scene.look_at("org/vision")
    card = scene.page.discover.repo_pane.cards[0]
    assert "siglip" in card.words
    assert card.button.isHidden()


def test_fit_follows_the_chosen_length_of_a_chat(scene: Scene, hub: HubServer) -> None:
    # 80 KB a token: 4k of them fit anywhere, and 128 million nowhere.
    config = (
        b'{"model_type": "llama", "num_hidden_layers": 10, "num_key_value_heads": 8, "hidden_size": 1024,'
        b'"num_attention_heads": 8, "head_dim": 128, "vocab_size": 32000, "intermediate_size": 8192,'
        b'"max_position_embeddings": 134217728, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}'
    )
    hub.update(Repo("org/deep", FILES | {"config.json": config}, safetensors={"F32": 25}))
    scene.search("deep")
    scene.look_at("org/deep")
    pane = scene.page.discover.repo_pane
    scene.wait(lambda: bool(scene.desk.repo.shapes))
    assert scene.desk.repo.shapes["safetensors"]
    pane.context.choose("4096")
    short = pane.cards[0].fit_words
    pane.context.choose("0")
    whole = pane.cards[0].fit_words
    assert (short, whole) == ("Fits", "Tight")


def test_a_gated_model_leads_to_its_page_and_a_token_opens_it(
    open_desktop: OpenDesktop,
    open_scene: OpenScene,
    hub_home: HubHome,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keychain = MemoryKeychain()
    monkeypatch.setattr("app.models_desk.SystemKeychain", lambda: keychain)
    with HubServer([GATED], {"hf_good": {"name": "me", "may_read": {"org/gated"}}}) as hub:
        hub_home.connect(hub)
        scene = open_scene(open_desktop())
        scene.search("gated")
        scene.look_at("org/gated")
        pane = scene.page.discover.repo_pane
        scene.wait(lambda: scene.desk.repo.access is not None)
        assert scene.desk.repo.access
        assert scene.desk.repo.access.url == f"{hub.url}/org/gated"
        assert "accept its licence" in pane.gate.words
        assert not pane.cards[0].button.isEnabled()
        pane.gate.token.click()
        dialog = scene.page.findChild(TokenDialog)
        assert dialog
        button = dialog.keep.grab().toImage()
        ground = button.pixelColor(8, button.height() // 2)
        assert ground == QColor(scene.desktop.appearance.theme.hover), "it looks as if it could be pressed"
        dialog.field.setText("hf_wrong")
        dialog.keep.click()
        scene.wait(lambda: "does not take the token" in dialog.note)
        dialog.field.setText('  "hf_good"\n')
        dialog.keep.click()
        scene.wait(lambda: "The token of me is kept" in scene.page.toast.text)
        assert list(keychain.secrets.values()) == ["hf_good"]
        scene.wait(lambda: bool(pane.cards) and pane.cards[0].button.isEnabled())
        assert pane.gate.isHidden()
        pane.cards[0].button.click()
        scene.wait(lambda: [one.phase for one in scene.desk.downloads.states] == ["finished"])


def test_a_token_that_is_forgotten_right_before_the_end_is_gone(
    open_desktop: OpenDesktop, open_scene: OpenScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    keychain = MemoryKeychain()
    monkeypatch.setattr("app.models_desk.SystemKeychain", lambda: keychain)
    scene = open_scene(open_desktop())
    store = scene.desk.token._store
    keychain.set(store._account(), "hf_good")
    keep_busy(scene.desk.token._background, monkeypatch)
    scene.desk.token.forget()
    scene.desktop.close()
    assert keychain.secrets == {}


def test_the_short_list_says_what_fits_without_a_network(scene: Scene, hub: HubServer) -> None:
    scene.show("discover")
    rows = scene.page.discover.rows
    labels = {rows.listed(rows.index(place)).label for place in range(rows.rowCount())}
    assert labels <= {"Fits", "Tight", "Does not fit"}
    words = [one.label for one in short_list(curated_models(), 1_500_000_000)]
    assert (words[0], words[-1]) == ("Tight", "Does not fit")
    assert {one.label for one in short_list(curated_models(), 10**12)} == {"Fits"}
    assert hub.requests == []


def test_a_card_of_endless_tables_and_paragraphs_keeps_nobody_waiting(scene: Scene, hub: HubServer) -> None:
    table = "| a | b | c |\n|---|---|---|\n" + "| **one** | `two` | three |\n" * 1000
    card = "It was trained on text. " * 1000 + "\n\n" + table
    hub.update(Repo("org/long", {**FILES, "README.md": card.encode()}, tags=TAGS))
    scene.search("long")
    beats: list[float] = []
    heart = QTimer()
    heart.timeout.connect(lambda: beats.append(time.thread_time()))
    heart.start(0)
    scene.look_at("org/long")
    pane = scene.page.discover.repo_pane
    scene.wait(lambda: pane._prose.complete and pane.card.startswith("It was trained"))
    heart.stop()
    longest = max(after - before for before, after in pairwise(beats))
    assert longest < 0.15, f"{longest:.3f} s of work without a look at events"  # as one table: 0.9 s
