"""The strip over the status line follows the engine, and puts trials off."""

from __future__ import annotations

from pathlib import Path

from app.first_run.trials_strip import TrialsStrip
from app.wiring import Desktop
from engine import KernelTrials, ModelUnloaded, PutOffTrials
from tests.app.conftest import OpenDesktop
from tests.fakes.scripted_engine import ScriptedEngine

MODEL = "/models/tiny-chat"


def tell(desktop: Desktop, done: int, total: int = 17, **more: bool) -> TrialsStrip:
    """Let the engine say how far it is; returns the strip."""
    desktop.trials.handle(KernelTrials(MODEL, done, total, **{"is_running": True, **more}))
    desktop.trials.flush()
    strip = desktop.pane.findChild(TrialsStrip)
    assert strip
    return strip


def test_it_comes_with_the_first_trial_and_goes_with_the_last(open_desktop: OpenDesktop) -> None:
    desktop = open_desktop()
    strip = desktop.pane.findChild(TrialsStrip)
    assert strip
    assert not strip.isVisible()
    tell(desktop, 0)
    assert strip.isVisible()
    assert "0 of 17" in strip.words
    assert strip.geometry().bottom() < desktop.pane.status_line.geometry().top() + 1
    tell(desktop, 4, is_running=False)
    assert "paused" in strip.words
    tell(desktop, 17, is_running=False)
    assert (strip.isVisible(), strip.words) == (False, "")


def test_later_puts_them_off(open_desktop: OpenDesktop) -> None:
    desktop = open_desktop()
    assert isinstance(desktop.engine, ScriptedEngine)
    strip = tell(desktop, 3)
    strip.later.click()
    assert desktop.engine.commands[-1] == PutOffTrials(True)
    tell(desktop, 3, is_running=False, are_put_off=True)
    assert not strip.isVisible()


def test_it_goes_with_its_model(open_desktop: OpenDesktop) -> None:
    desktop = open_desktop(model=Path(MODEL))
    strip = tell(desktop, 3)
    desktop.trials.handle(ModelUnloaded("/models/other"))
    desktop.trials.flush()
    assert strip.isVisible()
    desktop.trials.handle(ModelUnloaded(MODEL))
    desktop.trials.flush()
    assert not strip.isVisible()
