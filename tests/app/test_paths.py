"""Where the data lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import AppError
from app.paths import LINUX_HOME, MAC_HOME, default_paths


@pytest.mark.parametrize(("platform", "home"), [("darwin", MAC_HOME), ("linux", LINUX_HOME)])
def test_the_usual_place(monkeypatch: pytest.MonkeyPatch, platform: str, home: str) -> None:
    monkeypatch.delenv("MLXR_HOME")
    monkeypatch.setattr("sys.platform", platform)
    assert default_paths().home == Path(home).expanduser()


def test_the_variable_moves_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLXR_HOME", str(tmp_path))
    paths = default_paths()
    assert {paths.chats.parent, paths.settings.parent, paths.log.parent} == {tmp_path}


def test_a_relative_place_holds_when_the_folder_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLXR_HOME", "data")
    assert default_paths().home == tmp_path / "data"


def test_an_unknown_home_is_an_error_that_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXR_HOME", "~nobody-by-this-name/data")
    with pytest.raises(AppError, match="set MLXR_HOME"):
        default_paths()
