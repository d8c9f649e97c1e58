"""What a Linux desktop needs of the app: in its folder, and from there where READ-ME.txt puts it."""

from __future__ import annotations

import configparser
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def desktop_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    yield importlib.import_module("desktop_files")
    for name in ("desktop_files", "running"):
        sys.modules.pop(name, None)


@pytest.fixture
def app(desktop_files: ModuleType, tmp_path: Path) -> Path:
    """A folder like the app's, somewhere awkward, with a program that says how it was started."""
    folder = tmp_path / "Größe & klein" / "MLXR"
    folder.mkdir(parents=True)
    desktop_files.add_desktop_files(folder)
    program = folder / "mlxr"
    program.write_text('#!/bin/sh\necho "$(readlink -f "$0")" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return folder


def lines_of(app: Path) -> list[str]:
    """The commands of READ-ME.txt: its indented lines."""
    text = (app / "READ-ME.txt").read_text("utf-8")
    return [line.strip() for line in text.splitlines() if line.startswith("    ")]


def run(line: str, app: Path, home: Path) -> str:
    tools = home / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    for name in ("update-mime-database", "update-desktop-database"):  # a desktop brings them
        (tools / name).write_text("#!/bin/sh\ntest -d $1\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    path = f"{home}/.local/bin:{tools}:{os.environ['PATH']}"
    environment = {"HOME": str(home), "PATH": path}
    done = subprocess.run(
        ["sh", "-c", line], cwd=app, env=environment, check=True, capture_output=True, encoding="utf-8"
    )
    return done.stdout


def test_the_lines_of_the_read_me_bring_it_in_and_take_it_away(app: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    copying, telling, removing = lines_of(app)
    run(copying, app, home)
    run(telling, app, home)
    brought = {str(path.relative_to(home / ".local")) for path in (home / ".local").rglob("mlxr*")}
    assert {"bin/mlxr", "share/applications/mlxr.desktop", "share/mime/packages/mlxr.xml"} < brought
    assert run("mlxr --version", app, home) == f"{app / 'mlxr'} --version\n"
    (home / ".local" / "share" / "mlxr").mkdir()  # a person's chats
    run(removing, app, home)
    assert [str(path.relative_to(home / ".local")) for path in (home / ".local").rglob("mlxr*")] == [
        "share/mlxr"
    ]


def test_the_entry_starts_mlxr_and_its_icon_is_there(app: Path) -> None:
    entry = configparser.ConfigParser(interpolation=None)
    entry.read(app / "share" / "applications" / "mlxr.desktop", encoding="utf-8")
    values = entry["Desktop Entry"]
    assert values["Type"] == "Application"
    assert values["Exec"].split()[0] == "mlxr"
    assert (app / "share/icons/hicolor/scalable/apps" / f"{values['Icon']}.svg").is_file()


def test_each_kind_of_file_that_the_entry_opens_is_described(app: Path) -> None:
    root = ElementTree.parse(app / "share" / "mime" / "packages" / "mlxr.xml").getroot()
    described = {kind.get("type") for kind in root.findall("{*}mime-type")}
    entry = configparser.ConfigParser(interpolation=None)
    entry.read(app / "share" / "applications" / "mlxr.desktop", encoding="utf-8")
    opened = {kind for kind in entry["Desktop Entry"]["MimeType"].split(";") if kind}
    assert {kind for kind in opened if not kind.startswith("x-scheme-handler/")} <= described
    assert "x-scheme-handler/mlxr" in opened
