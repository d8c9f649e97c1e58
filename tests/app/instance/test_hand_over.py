"""A second `mlxr` leaves it to the one that runs: that one's window comes forward, and opens the model."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.errors import AppError
from app.instance import client
from app.instance.address import socket_path
from app.instance.client import hand_over
from app.instance.protocol import Opening
from tests.app.conftest import OpenDesktop
from tests.app.instance.conftest import PATIENCE, connected


def test_where_no_app_runs_there_is_nobody_to_leave_it_to(tmp_path: Path) -> None:
    assert not hand_over(tmp_path, Opening())


def test_the_window_comes_forward_and_opens_the_model(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    desktop = open_desktop(home=home)
    connected(home).__exit__(None, None, None)
    desktop.window.showMinimized()
    assert hand_over(home, Opening())
    qtbot.waitUntil(lambda: not desktop.window.isMinimized())
    assert desktop.models.state.path == "/models/tiny-chat"
    assert hand_over(home, Opening("/models/other"))
    qtbot.waitUntil(lambda: desktop.models.state.path == "/models/other")


def test_a_window_that_is_about_to_go_takes_nothing_over(
    open_desktop: OpenDesktop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    desktop = open_desktop(home=home)
    connected(home).__exit__(None, None, None)
    taken: list[bool] = []
    close = desktop.engine.close

    def slow(timeout: float | None = None) -> bool:
        taken.append(hand_over(home, Opening()))
        return close(timeout)

    monkeypatch.setattr(desktop.engine, "close", slow)
    desktop.close()
    assert taken == [False]


def _hang_up(connection: socket.socket) -> None:
    connection.recv(100)


def _answer_otherwise(connection: socket.socket) -> None:
    connection.recv(100)
    connection.sendall(b'{"done": false}\n')


def _keep_silent(connection: socket.socket) -> None:
    while connection.recv(100):
        pass


@pytest.mark.parametrize("behave", [_hang_up, _answer_otherwise, _keep_silent])
def test_an_app_that_does_not_listen_is_said(
    behave: Callable[[socket.socket], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.2)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(socket_path(tmp_path)))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                behave(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(AppError, match="end it and start it again"):
            hand_over(tmp_path, Opening())
        thread.join(PATIENCE)
