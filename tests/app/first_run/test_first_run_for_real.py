"""A first start with the real engine and the guide: kernels are tried beside the first chat."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.first_run.trials_strip import TrialsStrip
from app.model_location import GUIDE
from app.paths import Paths
from engine import Engine, EngineSettings
from engine.settings import ExecutorChoice
from tests.app.conftest import OpenDesktop
from tests.engine.kernels.test_idle_trials import COMMAND

NEEDS_EMULATOR = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("g++") is None, reason="the emulator needs Linux and g++"
)


@NEEDS_EMULATOR
def test_the_first_chat_goes_on_beside_trials_and_they_can_be_put_off(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = ExecutorChoice("emulated", "as a GPU would", is_forced=False)
    monkeypatch.setattr("engine.loading.executor.choose_executor", lambda _: choice)
    monkeypatch.setattr("engine.kernels.idle_trials.REST_S", 0.05)
    monkeypatch.setenv("MLXR_ACTS", json.dumps({"matvec": "sleep"}))  # it is never through
    home = tmp_path / "home"
    settings = EngineSettings(cache=Paths(home).kernels, trial_command=COMMAND)
    desktop = open_desktop(lambda emit: Engine(emit, settings), GUIDE, home)
    strip = desktop.pane.findChild(TrialsStrip)
    assert strip
    qtbot.waitUntil(lambda: " of " in strip.words and ": 0 of" not in strip.words)
    assert desktop.conversation.send("What is a page?")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    assert desktop.conversation.messages[-1].text
    trials = desktop.trials.trials
    assert trials is not None
    assert trials.done < trials.total
    strip.later.click()
    qtbot.waitUntil(lambda: not strip.isVisible())
    assert desktop.trials.trials is not None
    assert desktop.trials.trials.are_put_off
    done = desktop.trials.trials.done
    assert desktop.conversation.send("Where are my chats saved?")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    assert desktop.trials.trials.done == done


def test_without_a_gpu_there_is_nothing_to_try_and_nothing_is_shown(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.kernels.idle_trials.REST_S", 0.0)
    home = tmp_path / "home"
    settings = EngineSettings(cache=Paths(home).kernels, executor="reference")
    desktop = open_desktop(lambda emit: Engine(emit, settings), GUIDE, home)
    assert desktop.conversation.send("What is a page?")
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    strip = desktop.pane.findChild(TrialsStrip)
    assert strip
    assert (strip.isVisible(), desktop.trials.trials) == (False, None)


def test_the_first_window_leads_to_models_that_fit(open_desktop: OpenDesktop, qtbot: QtBot) -> None:
    desktop = open_desktop(model=GUIDE)
    desktop.pane.empty_state.find_model.click()
    qtbot.waitUntil(lambda: not desktop.window.is_chat_shown)
    desk = desktop.models_door.desk
    assert desk
    assert desk.page.tab == "discover"
