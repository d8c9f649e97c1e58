"""What a Linux desktop is told of MLXR: its entry, its links and its kinds of files."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from app.opening.link import SCHEME
from app.opening.target import GGUF
from app.store.chat_file import SUFFIX

ROOT = Path(__file__).resolve().parent.parent.parent
ENTRY = ROOT / "packaging" / "linux" / "mlxr.desktop"
MIME = ROOT / "packaging" / "linux" / "mlxr.xml"
NAMESPACE = {"mime": "http://www.freedesktop.org/standards/shared-mime-info"}


def entry() -> dict[str, str]:
    """The keys of the desktop entry."""
    parser = configparser.RawConfigParser(delimiters=("=",), strict=True)
    parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    parser.read(ENTRY, "utf-8")
    assert parser.sections() == ["Desktop Entry"]
    return dict(parser["Desktop Entry"])


def types() -> dict[str, list[str]]:
    """The kinds of files that are declared, with their names' patterns."""
    root = ElementTree.parse(MIME).getroot()
    return {
        one.attrib["type"]: [glob.attrib["pattern"] for glob in one.findall("mime:glob", NAMESPACE)]
        for one in root.findall("mime:mime-type", NAMESPACE)
    }


def test_the_entry_opens_links_and_files_with_the_program() -> None:
    keys = entry()
    assert (keys["Type"], keys["Name"], keys["Exec"], keys["Terminal"]) == (
        "Application",
        "MLXR",
        "mlxr %u",
        "false",
    )
    assert keys["Icon"] == "mlxr"
    assert keys["Categories"].endswith(";")
    wanted = keys["MimeType"].removesuffix(";").split(";")
    assert wanted == [f"x-scheme-handler/{SCHEME.removesuffix(':')}", *types()]


def test_the_kinds_of_files_are_those_that_mlxr_opens() -> None:
    assert [pattern for patterns in types().values() for pattern in patterns] == [f"*{SUFFIX}", f"*{GGUF}"]


@pytest.mark.skipif(not shutil.which("desktop-file-validate"), reason="desktop-file-utils is not installed")
def test_the_entry_is_valid() -> None:
    done = subprocess.run(["desktop-file-validate", ENTRY], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(not shutil.which("update-mime-database"), reason="shared-mime-info is not installed")
def test_a_desktop_knows_the_files_by_name_and_by_content(tmp_path: Path) -> None:
    mime = tmp_path / "mime"
    (mime / "packages").mkdir(parents=True)
    shutil.copy(MIME, mime / "packages")
    done = subprocess.run(
        ["update-mime-database", mime],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    globs = (mime / "globs2").read_text("utf-8").splitlines()
    assert f"50:application/vnd.mlxr.chat+json:*{SUFFIX}" in globs
    assert f"50:application/x-gguf:*{GGUF}" in globs
    assert b"application/x-gguf" in (mime / "magic").read_bytes()
    assert "application/vnd.mlxr.chat+json application/json" in (mime / "subclasses").read_text("utf-8")
