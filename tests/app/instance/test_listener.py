"""The socket of a data folder: who serves it, who may connect, and what those who connect are told."""

from __future__ import annotations

import json
import socket
import stat
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest

from app import VERSION
from app.errors import AppError
from app.instance.address import socket_path
from app.instance.client import LiveLines, NotRunning
from app.instance.feed import LiveFeed
from app.instance.listener import MOST_CLIENTS, MOST_WAITING, Listener
from engine import KernelsChosen, ModelReady, ModelUnloaded, TextChunk
from tests.app.instance.conftest import PATIENCE, connected, nothing, stats
from tests.fakes.scripted_engine import model_info


def as_told(value: object) -> object:
    """A value as it comes back from JSON."""
    return json.loads(json.dumps(value))


def test_who_connects_is_told_what_there_is_and_then_what_changes(home: Path, feed: LiveFeed) -> None:
    tiny, large = model_info("/models/tiny"), model_info("/models/large")
    feed.take(ModelReady("load", tiny))
    feed.take(ModelReady("load", large))
    feed.take(stats("/models/tiny"))
    with connected(home) as live:
        assert (live.app["mlxr"], live.app["models"]) == (VERSION, 2)
        first, second = live.next(PATIENCE), live.next(PATIENCE)
        assert first
        assert second
        assert (first["model"], first["stats"]) == (as_told(asdict(tiny)), as_told(asdict(stats())))
        assert (second["model"], second["stats"]) == (as_told(asdict(large)), None)
        feed.take(TextChunk("r", "secret", 1))
        feed.take(stats("/models/large", 8))
        news = live.next(PATIENCE)
        assert news
        assert news["stats"]["context_tokens"] == 8
        feed.take(ModelUnloaded("/models/large", "idle"))
        assert live.next(PATIENCE) == {"model": "/models/large", "unloaded": "idle"}
        assert live.next(0.05) is None


def test_a_model_loaded_anew_has_no_figures_of_before(home: Path, feed: LiveFeed) -> None:
    info = model_info("/models/tiny")
    for event in (ModelReady("load", info), stats(), ModelReady("load", info)):
        feed.take(event)
    with connected(home) as live:
        assert (live.next(PATIENCE) or {})["stats"] is None
        feed.take(stats())
        assert (live.next(PATIENCE) or {})["stats"]
        feed.take(KernelsChosen(info))  # the same model goes on
        assert (live.next(PATIENCE) or {})["stats"]


def test_nobody_is_woken_while_nobody_listens(feed: LiveFeed, home: Path) -> None:
    woken: list[None] = []
    feed.take(ModelReady("load", model_info("/models/tiny")))
    feed.take(stats())
    with connected(home) as live:
        live.next(PATIENCE)
    pause = threading.Event()
    while feed._on_news is not None:  # until it has noticed that the only one has left
        pause.wait(0.01)
    feed.watch(lambda: woken.append(None))
    feed.take(stats())
    feed.watch(None)
    feed.take(stats())
    assert len(woken) == 1


def test_the_socket_is_this_accounts_alone_and_goes_with_the_app(tmp_path: Path, feed: LiveFeed) -> None:
    listener = Listener(tmp_path, feed, nothing)
    listener.start()
    connected(tmp_path).__exit__(None, None, None)
    path = socket_path(tmp_path)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert listener.close(PATIENCE)
    assert not path.exists()
    with pytest.raises(NotRunning, match="start it with `mlxr`"):
        LiveLines(tmp_path)


def test_a_long_path_works_as_well(tmp_path: Path, feed: LiveFeed) -> None:
    home = tmp_path / ("long" * 30)
    listener = Listener(home, feed, nothing)
    listener.start()
    with connected(home) as live:
        assert live.app["models"] == 0
    assert listener.close(PATIENCE)
    assert not socket_path(home).exists()


def test_what_a_dead_app_left_is_cleared_away(tmp_path: Path, feed: LiveFeed) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(socket_path(tmp_path)))
    with pytest.raises(NotRunning):
        LiveLines(tmp_path)
    listener = Listener(tmp_path, feed, nothing)
    listener.start()
    connected(tmp_path).__exit__(None, None, None)
    assert listener.close(PATIENCE)


def test_the_first_app_is_the_one_that_answers(home: Path, feed: LiveFeed) -> None:
    feed.take(ModelReady("load", model_info("/models/tiny")))
    connected(home).__exit__(None, None, None)
    second = Listener(home, LiveFeed(), nothing)
    second.start()
    assert second.close(PATIENCE)
    with connected(home) as live:
        assert live.app["models"] == 1


@pytest.mark.parametrize(
    "asked",
    [
        b"rubbish\n",
        b"\xff\xfe\n",
        b'{"ask": "everything"}\n',
        b"[1]\n",
        b"[" * 20_000 + b"\n",
        b'{"ask": "open", "model": "/models/\\u0000", "open": null}\n',
        b'{"ask": "open", "model": null, "open": "/\\ud800.gguf"}\n',
        b"x" * 100_000,
    ],
    ids=[
        "no JSON",
        "no text",
        "unknown",
        "no object",
        "nested too deep",
        "NUL in a path",
        "half a character",
        "too long",
    ],
)
def test_nonsense_is_hung_up_on_and_hurts_nobody(home: Path, feed: LiveFeed, asked: bytes) -> None:
    with connected(home) as other, socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(PATIENCE)
        stranger.connect(str(socket_path(home)))
        with suppress(ConnectionResetError, BrokenPipeError):  # where it hung up before it had read all
            stranger.sendall(asked)
            assert stranger.recv(100) == b""
        feed.take(ModelReady("load", model_info("/models/tiny")))
        assert other.next(PATIENCE)


def test_who_does_not_read_holds_up_nobody(home: Path, feed: LiveFeed) -> None:
    model = "/models/" + "x" * 20_000
    feed.take(ModelReady("load", model_info(model)))
    with connected(home), connected(home) as reader:
        assert reader.next(PATIENCE)
        most = 40 * MOST_WAITING // 20_000  # far more than a socket and the listener keep
        for tokens in range(most):
            feed.take(stats(model, tokens))
            line = reader.next(PATIENCE)
            assert line
            assert line["stats"]["context_tokens"] == tokens


def test_who_reads_late_hears_of_the_last_change_of_every_model(home: Path, feed: LiveFeed) -> None:
    models = ["/models/" + letter * 20_000 for letter in "ab"]
    with connected(home) as late, connected(home) as reader:
        for tokens in range(40 * MOST_WAITING // 20_000):  # far more than a socket and the listener keep
            for model in models:
                feed.take(ModelReady("load", model_info(model)))
                feed.take(stats(model, tokens))
            while ((reader.next(PATIENCE) or {})["stats"] or {}).get("context_tokens") != tokens:
                pass
        for model in models:
            feed.take(ModelUnloaded(model, "idle"))
        left = set(models)
        while left:
            line = late.next(PATIENCE)
            assert line, "it was not told"
            left -= {line["model"]} if "unloaded" in line else set()
        assert late.next(0.05) is None


def has_room(home: Path) -> bool:
    """Whether it takes one more now; if not, a moment has gone by."""
    try:
        connected(home).__exit__(None, None, None)
    except AppError:
        threading.Event().wait(0.01)
        return False
    return True


def test_more_than_it_takes_are_told_so(home: Path) -> None:
    taken = [connected(home) for _ in range(MOST_CLIENTS)]
    with pytest.raises(AppError, match="end another"):
        LiveLines(home)
    for live in taken:
        live.__exit__(None, None, None)
    while not has_room(home):  # it hears of each that goes
        pass


def test_who_waits_is_told_when_the_app_ends(tmp_path: Path, feed: LiveFeed) -> None:
    listener = Listener(tmp_path, feed, nothing)
    listener.start()
    with connected(tmp_path) as live:
        assert listener.close(PATIENCE)
        with pytest.raises(EOFError):
            live.next(PATIENCE)


def test_an_app_of_another_kind_is_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(socket_path(tmp_path)))
        server.listen()

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b'{"mlxr": "9.9", "protocol": 99}\n')

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(AppError, match=r"version 9\.9"):
            LiveLines(tmp_path)
        thread.join(PATIENCE)


def test_a_socket_that_cannot_be_made_is_logged_and_missed_by_nobody(
    tmp_path: Path, feed: LiveFeed, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    listener = Listener(tmp_path / "file" / "home", feed, nothing)
    listener.start()
    assert listener.close(PATIENCE)
    feed.take(stats())
    assert "the local socket cannot be served" in caplog.text


def test_closing_what_never_started_is_nothing(tmp_path: Path, feed: LiveFeed) -> None:
    assert Listener(tmp_path, feed, nothing).close(PATIENCE)


def test_whoever_leaves_in_the_middle_hurts_nobody(home: Path, feed: LiveFeed) -> None:
    feed.take(ModelReady("load", model_info("/models/tiny")))
    ended = threading.Event()

    def busy() -> None:
        while not ended.is_set():
            feed.take(stats())

    engine = threading.Thread(target=busy)
    with connected(home) as stays:
        engine.start()
        for _ in range(100):
            with LiveLines(home) as leaves:
                leaves.next(PATIENCE)
        ended.set()
        engine.join(PATIENCE)
        feed.take(ModelUnloaded("/models/tiny", "room"))
        while (line := stays.next(PATIENCE)) and "unloaded" not in line:
            pass
        assert line == {"model": "/models/tiny", "unloaded": "room"}


def test_a_client_may_have_gone_before_its_turn_comes(tmp_path: Path, feed: LiveFeed) -> None:
    listener = Listener(tmp_path, feed, nothing)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(socket_path(tmp_path)))
    server.listen()
    theirs = socket.socket(socket.AF_UNIX)
    theirs.connect(str(socket_path(tmp_path)))
    theirs.sendall(b'{"ask": "live"}\n')
    listener._accept(server)
    (ours,) = listener._clients
    listener._attend(ours)
    theirs.close()
    feed.take(ModelReady("load", model_info("/models/tiny")))
    listener._awake.setblocking(False)
    listener._hear_news(listener._awake)  # finds out that it has gone
    listener._attend(ours)  # what was to be read from it came in the same turn
    assert listener._clients == {}
    server.close()
    assert listener.close(PATIENCE)
