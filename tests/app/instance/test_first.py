"""Several `mlxr` on one data folder: one opens the window, however close together they start."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from queue import SimpleQueue

import pytest

from app.errors import AppError
from app.instance.address import Claim
from app.instance.feed import LiveFeed
from app.instance.first import is_first
from app.instance.listener import Listener
from app.instance.protocol import Opening
from tests.app.instance.conftest import PATIENCE, connected, nothing

ROOT = Path(__file__).resolve().parents[3]


def test_who_comes_while_the_first_one_starts_waits_for_its_socket(tmp_path: Path, feed: LiveFeed) -> None:
    claim, wanted, said = Claim(tmp_path), SimpleQueue[Opening](), SimpleQueue[bool]()
    assert is_first(claim, tmp_path, Opening())
    opening = Opening("/models/other", "mlxr://model/lab/tiny")
    second = threading.Thread(target=lambda: said.put(is_first(Claim(tmp_path), tmp_path, opening)))
    second.start()
    listener = Listener(tmp_path, feed, wanted.put, claim)
    assert (said.empty(), wanted.empty()) == (True, True)
    listener.start()
    assert said.get(timeout=PATIENCE) is False
    assert wanted.get(timeout=PATIENCE) == opening
    second.join(PATIENCE)
    assert listener.close(PATIENCE)


def test_when_the_first_one_goes_the_next_is_first(tmp_path: Path, feed: LiveFeed) -> None:
    claim, next_claim = Claim(tmp_path), Claim(tmp_path)
    assert is_first(claim, tmp_path, Opening())
    listener = Listener(tmp_path, feed, nothing, claim)
    listener.start()
    connected(tmp_path).__exit__(None, None, None)
    assert not is_first(next_claim, tmp_path, Opening())
    assert listener.close(PATIENCE)
    assert is_first(next_claim, tmp_path, Opening())
    next_claim.release()


def test_one_that_never_listens_is_said(tmp_path: Path) -> None:
    claim = Claim(tmp_path)
    assert claim.take()
    with pytest.raises(AppError, match="started already"):
        is_first(Claim(tmp_path), tmp_path, Opening(), patience=0.1)
    claim.release()


def test_without_a_data_folder_the_window_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert is_first(Claim(tmp_path / "file" / "home"), tmp_path / "file" / "home", Opening())


def test_of_two_started_at_once_one_opens_the_window(tmp_path: Path) -> None:
    environment = {**os.environ, "MLXR_HOME": str(tmp_path / "home"), "QT_QPA_PLATFORM": "offscreen"}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "app"], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        ended = SimpleQueue[tuple[int, str]]()
        for place, process in enumerate(started):
            threading.Thread(
                target=lambda place=place, process=process: ended.put((place, process.communicate()[1]))
            ).start()
        place, words = ended.get(timeout=PATIENCE)
        assert words == "MLXR is running already: its window comes to the front.\n"
        assert started[place].returncode == 0
        first = started[1 - place]
        assert first.poll() is None
        first.terminate()
        place, words = ended.get(timeout=PATIENCE)
        offscreen = ("This plugin does not support raise()", "QBackingStore::flush()")  # Qt, without a screen
        assert not [line for line in words.splitlines() if not line.startswith(offscreen)]
        assert first.returncode == 0
    finally:
        for process in started:
            process.kill()
