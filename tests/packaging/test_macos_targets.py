"""The two apps for Macs: which is asked for, what uv installs for it, and where it can be made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Load = Callable[[str], ModuleType]

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "packaging" / "macos"


@pytest.mark.parametrize(("asked", "oldest"), [({}, "14.0"), ({"MLXR_MACOS": "26"}, "26.0")])
def test_the_environment_chooses(macos_module: Load, asked: dict[str, str], oldest: str) -> None:
    target = macos_module("targets").chosen(asked)
    assert target.oldest == oldest
    assert target.wheels.is_file()


def test_a_target_that_is_none_is_an_error_in_one_line() -> None:
    environment = {**os.environ, "MLXR_MACOS": "15"}
    command = [sys.executable, FOLDER / "freezing.py"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == "error: MLXR_MACOS is 15; it is one of 14 and 26\n"


@pytest.mark.parametrize("name", ["14", "26"])
def test_the_plist_asks_for_the_system_of_the_wheels(name: str, tmp_path: Path) -> None:
    import plistlib

    command = [sys.executable, FOLDER / "bundle_info.py", tmp_path / "Info.plist"]
    subprocess.run(command, env={**os.environ, "MLXR_MACOS": name}, check=True)
    info = plistlib.loads((tmp_path / "Info.plist").read_bytes())
    assert info["LSMinimumSystemVersion"] == f"{name}.0"


@pytest.mark.parametrize(
    ("name", "macos", "words"),
    [
        ("26", "15.5", "the app for macOS 26 is made on macOS 26 or later; this is 15.5"),
        ("14", "", "MLXR.app is made on a Mac"),
    ],
)
def test_where_it_cannot_be_made_is_said(macos_module: Load, name: str, macos: str, words: str) -> None:
    target = macos_module("targets").TARGETS[name]
    with pytest.raises(ValueError, match=words):
        macos_module("freezing").check_machine(target, macos)


@pytest.mark.parametrize(("name", "macos"), [("14", "14.0"), ("14", "26.1"), ("26", "26.0")])
def test_where_it_can_be_made_nothing_is_said(macos_module: Load, name: str, macos: str) -> None:
    macos_module("freezing").check_machine(macos_module("targets").TARGETS[name], macos)


def test_each_target_has_folders_of_its_own_and_all_of_the_lock(macos_module: Load) -> None:
    freezing, targets = macos_module("freezing"), macos_module("targets").TARGETS
    made = {name: freezing.environment_commands(target) for name, target in targets.items()}
    assert made["14"] != made["26"]
    for commands in made.values():
        sync = next(command for command in commands if command[:2] == ["pip", "sync"])
        assert {"--require-hashes", "requirements.lock", "aarch64-apple-darwin"} <= set(sync)
    frozen = [freezing.freeze_command(target, Path("python")) for target in targets.values()]
    assert frozen[0] != frozen[1]
    assert all((ROOT / command[-1]).is_file() for command in frozen)


@pytest.mark.parametrize(("installed", "is_right"), [("14_0", False), ("15_0", False), ("26_0", True)])
def test_other_shaders_than_the_targets_are_no_app(
    macos_module: Load, tmp_path: Path, installed: str, *, is_right: bool
) -> None:
    wheel = tmp_path / "lib" / "python3.12" / "site-packages" / "mlx_metal-0.32.4.dist-info" / "WHEEL"
    wheel.parent.mkdir(parents=True)
    wheel.write_text(f"Wheel-Version: 1.0\nTag: py3-none-macosx_{installed}_arm64\n")
    freezing, target = macos_module("freezing"), macos_module("targets").TARGETS["26"]
    if is_right:
        freezing.check_wheel(target, tmp_path / "bin" / "python")
    else:
        with pytest.raises(ValueError, match="macosx_26_0_arm64"):
            freezing.check_wheel(target, tmp_path / "bin" / "python")
