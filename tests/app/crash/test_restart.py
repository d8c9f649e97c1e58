"""MLXR is started again as it was, but not in safe mode, in each form it comes in."""

from __future__ import annotations

import pytest

from app.crash.restart import restart_command

MAC = "/Applications/My Apps/MLXR.app/Contents/MacOS/MLXR"


@pytest.mark.parametrize(
    ("arguments", "executable", "is_frozen", "platform", "command"),
    [
        (["--safe"], "/venv/python", False, "linux", ["/venv/python", "-m", "app"]),
        (
            ["--model", "m", "--safe"],
            "/venv/python",
            False,
            "darwin",
            ["/venv/python", "-m", "app", "--model", "m"],
        ),
        (["--safe"], "/opt/MLXR/mlxr", True, "linux", ["/opt/MLXR/mlxr"]),
        (["--safe"], MAC, True, "darwin", ["/usr/bin/open", "-n", "/Applications/My Apps/MLXR.app"]),
        (
            ["--model", "m"],
            MAC,
            True,
            "darwin",
            ["/usr/bin/open", "-n", "/Applications/My Apps/MLXR.app", "--args", "--model", "m"],
        ),
        ([], "/opt/mlxr", True, "darwin", ["/opt/mlxr"]),
    ],
)
def test_what_is_started(
    arguments: list[str], executable: str, is_frozen: bool, platform: str, command: list[str]
) -> None:
    assert restart_command(arguments, executable, is_frozen, platform) == command
