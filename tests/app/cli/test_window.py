"""`mlxr` without a subcommand: where the app runs already, and with something to open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from app.instance.feed import LiveFeed
from app.instance.listener import Listener
from app.instance.protocol import Opening
from app.paths import default_paths
from tests.app.cli.conftest import Run
from tests.app.instance.conftest import PATIENCE, connected


@pytest.mark.parametrize("with_model", [False, True])
def test_a_second_mlxr_says_so_and_ends(mlxr: Run, tmp_path: Path, with_model: bool) -> None:
    home, wanted = default_paths().home, SimpleQueue[Opening]()
    listener = Listener(home, LiveFeed(), wanted.put)
    listener.start()
    connected(home).__exit__(None, None, None)
    (tmp_path / "model").mkdir()
    done = mlxr(*(["--model", tmp_path / "model"] if with_model else []))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "MLXR is running already: its window comes to the front.\n"
    assert wanted.get(timeout=PATIENCE) == Opening(str(tmp_path / "model") if with_model else None)
    gone = mlxr("--model", tmp_path / "gone")
    assert gone.returncode == 1
    assert wanted.empty()
    assert listener.close(PATIENCE)


@pytest.fixture
def told() -> Iterator[SimpleQueue[Opening]]:
    """What the app that runs is asked to open."""
    home, wanted = default_paths().home, SimpleQueue[Opening]()
    listener = Listener(home, LiveFeed(), wanted.put)
    listener.start()
    connected(home).__exit__(None, None, None)
    yield wanted
    assert listener.close(PATIENCE)


def test_links_and_files_are_left_to_the_app_that_runs(
    mlxr_here: Run, told: SimpleQueue[Opening], tmp_path: Path
) -> None:
    chat, model = tmp_path / "Über.mlxrchat", tmp_path / "a b.gguf"
    chat.write_text("{}")
    model.write_bytes(b"GGUF")
    (folder := tmp_path / "model").mkdir()
    for arguments, opening in (
        (["mlxr://model/lab/tiny"], Opening(wanted="mlxr://model/lab/tiny")),
        (["mlxr://nonsense"], Opening(wanted="mlxr://nonsense")),
        ([chat], Opening(wanted=str(chat))),
        ([chat.as_uri()], Opening(wanted=str(chat))),
        ([os.path.relpath(chat)], Opening(wanted=str(Path.cwd() / os.path.relpath(chat)))),
        (["--model", model, chat], Opening(str(model), str(chat))),
        ([model], Opening(str(model))),
        ([model.as_uri()], Opening(str(model))),
        ([folder], Opening(str(folder))),
        ([f"{os.path.relpath(folder)}/"], Opening(str(Path.cwd() / os.path.relpath(folder)))),
    ):
        assert mlxr_here(*arguments).returncode == 0
        assert told.get(timeout=PATIENCE) == opening


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["/nowhere/a.mlxrchat"], 1, "no such file"),
        (["file://server/a.mlxrchat"], 1, "not the address of a file on this machine"),
        (["/nowhere/a.gguf"], 1, "no such file"),
        (["/nowhere/model"], 1, "no such file"),
        (["--model", "b", "a.gguf"], 2, "two models"),
        (["--model", "b", "/"], 2, "two models"),
        (["a.gguf", "b.mlxrchat"], 2, "invalid choice"),
    ],
)
def test_files_that_are_not_there_are_said_at_once(
    mlxr_here: Run, told: SimpleQueue[Opening], arguments: list[str], code: int, words: str
) -> None:
    done = mlxr_here(*arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert told.empty()


def test_without_a_window_a_link_leads_nowhere(mlxr: Run) -> None:
    done = mlxr(
        "mlxr://model/lab/tiny", env={"QT_QPA_PLATFORM": None, "DISPLAY": None, "WAYLAND_DISPLAY": None}
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: mlxr://model/lab/tiny opens in the window, and none can open: ")
