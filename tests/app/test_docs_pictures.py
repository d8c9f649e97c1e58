"""The pictures in docs/: real windows with the real engine, saved to be looked at and copied.

make screenshots
cp build/screenshots/docs-dashboard.png docs/dashboard.png
cp build/screenshots/docs-models.png docs/models.png
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.model_location import GUIDE
from engine import Engine, EngineSettings, Generate
from tests.app.conftest import OpenDesktop
from tests.app.dashboard.watched import Watched
from tests.app.models.conftest import OpenScene
from tests.app.models.conftest import hub as hub
from tests.app.models.conftest import hub_home as hub_home
from tests.app.models.conftest import open_scene as open_scene
from tests.app.models.conftest import own_home as own_home
from tests.app.test_screenshots import save
from tests.hub.server import HubServer

SIZE = (1080, 720)
LONG = 1200
QUESTIONS = ("What is a page?", "Where are my chats saved?", "Who can read my chats?")


@pytest.mark.long
def test_dashboard(open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path) -> None:
    watched = Watched(open_desktop, qtbot, tmp_path)
    desktop = watched.desktop
    desktop.window.resize(*SIZE)
    chats: list[str] = []
    for question in QUESTIONS:
        desktop.conversation.new_chat()
        chats.append(watched.say(question))
    watched.look("Live")
    watched.live.cards["decode"].click()
    for place, chat in enumerate(chats):
        tokens = tuple(3 + (11 * step * (place + 1)) % 290 for step in range(100 + 200 * place))
        desktop.engine.submit(
            Generate(f"{place}", tokens=tokens, max_tokens=LONG, ignore_eos=True, chat=chat)
        )

    def are_all_long() -> bool:
        counts = [request.generated_tokens for request in watched.last_stats().requests]
        return len(counts) == len(chats) and min(counts) > 100

    watched.wait(are_all_long)
    save(desktop, "docs-dashboard")


@pytest.mark.long
def test_models(open_desktop: OpenDesktop, open_scene: OpenScene, hub: HubServer, tmp_path: Path) -> None:
    desktop = open_desktop(lambda emit: Engine(emit, EngineSettings()), GUIDE, tmp_path / "home")
    desktop.window.resize(*SIZE)
    scene = open_scene(desktop)
    scene.show("discover")
    scene.wait(lambda: bool(scene.page.discover.repos()))
    save(desktop, "docs-models")
