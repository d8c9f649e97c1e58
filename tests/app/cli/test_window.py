"""`mlxr` without a subcommand, where the app runs already."""

from __future__ import annotations

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
