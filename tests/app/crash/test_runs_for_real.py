"""The whole app, started, ended and started again: crashes, safe mode by each way into it, and out of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from app.crash.boot import boot_id, memory_kills
from app.crash.crash_words import SAFE_ASKED, SAFE_KEY
from app.crash.inquest import MARKER, NOTES, inquire
from app.crash.last_words import read_last_words
from app.crash.marker import Marker, read_marker
from app.crash.session import RUNNING
from app.paths import Paths

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 60.0
on_x11 = pytest.mark.skipif(
    shutil.which("Xvfb") is None or shutil.which("xdotool") is None, reason="needs Xvfb and xdotool"
)
pytestmark = pytest.mark.long


def wait(until: Callable[[], bool]) -> None:
    """Look again and again."""
    end = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


class App:
    """Starts of MLXR on one data folder."""

    def __init__(self, home: Path) -> None:
        self.paths = Paths(home)
        self.here = self.paths.crashes / RUNNING
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start it, and wait until the guide is ready."""
        process = self.open("app", *arguments, **environ)
        wait(lambda: self.marker().pid == process.pid and bool(self.doing().get("model")))
        return process

    def open(self, module: str, *arguments: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start this module, and do not wait."""
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, "MLXR_HOME": str(self.paths.home), **environ},
            stderr=subprocess.DEVNULL,
        )
        self.started.append(process)
        return process

    def end_what_runs(self) -> None:
        """Also one that another has started."""
        marker = self.marker()
        if marker.pid and marker.ending == "":
            with suppress(ProcessLookupError):
                os.kill(marker.pid, signal.SIGKILL)

    def marker(self) -> Marker:
        return read_marker(self.here / MARKER) or Marker()

    def doing(self) -> dict[str, dict[str, str]]:
        return read_last_words(self.here / NOTES)

    def reports(self) -> list[Path]:
        return sorted(self.paths.crashes.glob("report-*"))


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> int:
    process.send_signal(number)
    return process.wait(PATIENCE)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    app = App(tmp_path / "home")
    yield app
    for process in app.started:
        process.kill()
        process.wait()
    app.end_what_runs()


@pytest.fixture
def display(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """An X server of our own, and its name."""
    reader, writer = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writer), "-screen", "0", "1280x800x24", "-noreset"],
        pass_fds=[writer],
        stderr=subprocess.DEVNULL,
    )
    os.close(writer)
    with os.fdopen(reader) as said:
        name = f":{said.readline().strip()}"
    yield server, name
    server.kill()
    server.wait()


def test_two_crashes_lead_into_safe_mode_and_a_good_end_out_of_it(app: App) -> None:
    assert end(app.start(), signal.SIGSEGV) == -signal.SIGSEGV
    second = app.start()
    wait(lambda: len(app.reports()) == 1)
    assert app.marker().safe == ""
    assert end(second, signal.SIGABRT) == -signal.SIGABRT
    third = app.start()
    assert "2 times in a row" in app.marker().safe
    model = app.doing()["model"]
    assert (model["executor"], model["reason"]) == ("reference", f"safe mode, since {app.marker().safe}")
    wait(lambda: len(app.reports()) == 2)
    doctor = subprocess.run(
        [sys.executable, "-m", "app", "doctor"],
        cwd=ROOT,
        env={**os.environ, "MLXR_HOME": str(app.paths.home)},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert "safe mode" in doctor
    assert "2 reports" in doctor
    assert end(third, signal.SIGTERM) == 0
    app.start()
    assert app.marker().safe == ""
    report = app.reports()[0].read_text("utf-8")
    assert "app/running.py" in report
    assert "Asked last: LoadModel" in report


def test_safe_mode_is_left_by_its_banner_which_starts_mlxr_again(app: App) -> None:
    first = app.open("tests.app.crash.leaving_child")
    wait(lambda: app.marker().pid == first.pid and app.marker().safe == SAFE_ASKED)
    assert first.wait(PATIENCE) == 0
    wait(lambda: app.marker().pid not in (0, first.pid) and bool(app.doing().get("model")))
    assert app.marker().safe == ""
    assert app.doing()["model"]["reason"] != f"safe mode, since {SAFE_ASKED}"
    os.kill(app.marker().pid, signal.SIGTERM)
    wait(lambda: app.marker().ending == "done")
    assert app.reports() == []


def test_a_second_one_leaves_no_mark(app: App) -> None:
    first = app.start()
    before = app.marker()
    second = app.open("app", "--safe")
    assert second.wait(PATIENCE) == 0
    assert app.marker() == before
    assert end(first, signal.SIGKILL) == -signal.SIGKILL
    app.start()
    assert app.marker().early_crashes == 1
    wait(lambda: len(app.reports()) == 1)
    assert "ended from outside" in app.reports()[0].read_text("utf-8")


@on_x11
def test_a_key_that_is_held_at_the_start_means_safe_mode(
    app: App, display: tuple[subprocess.Popen[bytes], str]
) -> None:
    x11 = {"QT_QPA_PLATFORM": "xcb", "DISPLAY": display[1]}
    subprocess.run(["xdotool", "keydown", "shift"], env={**os.environ, **x11}, check=True)
    held = app.start(**x11)
    assert app.marker().safe == SAFE_KEY
    assert end(held, signal.SIGTERM) == 0
    subprocess.run(["xdotool", "keyup", "shift"], env={**os.environ, **x11}, check=True)
    app.start(**x11)
    assert app.marker().safe == ""


@on_x11
def test_a_screen_that_goes_away_is_no_crash(app: App, display: tuple[subprocess.Popen[bytes], str]) -> None:
    server, name = display
    process = app.start(QT_QPA_PLATFORM="xcb", DISPLAY=name)
    server.terminate()
    process.wait(PATIENCE)
    assert inquire(app.here, boot_id(), memory_kills()).ending is None
