"""The README holds: every command, file and link it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TARGETS = set((ROOT / "Makefile").read_text("utf-8").partition(".PHONY: ")[2].splitlines()[0].split())
CODE = re.compile(r"`([^`\n]+)`|^    (?:\$ )?(.+)$", re.MULTILINE)


def code_in(document: Path) -> list[str]:
    """Everything set as code: spans and indented lines."""
    text = document.read_text("utf-8")
    return [span or line for span, line in CODE.findall(text)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_make_target_exists(document: Path) -> None:
    named = {name for code in code_in(document) for name in re.findall(r"\bmake ([a-z][a-z-]*)", code)}
    assert named <= TARGETS


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_subcommand_exists(document: Path) -> None:
    named = {name for code in code_in(document) for name in re.findall(r"\bmlxr ([a-z]+)\b", code)}
    assert named <= {command.name for command in COMMANDS}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_named_exists(document: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)]+)\)", document.read_text("utf-8"))
    paths = [
        code
        for code in code_in(document)
        if re.fullmatch(r"(app|engine|metal|resources|packaging|tests|docs|\.ci|\.github)/[\w./-]*", code)
    ]
    absent = [link for link in links if not (document.parent / link).exists()]
    assert absent + [path for path in paths if not (ROOT / path).exists()] == []
