"""Which build this is: of the repository, or as it was noted in the app."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from app.about.build import Build, commit_of, this_build, write_build


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "first")
    return tmp_path


def test_a_checkout_tells_its_commit_however_git_keeps_it(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    assert this_build(checkout) == Build(commit)
    git(checkout, "pack-refs", "--all")
    assert commit_of(checkout) == commit
    git(checkout, "checkout", "--quiet", "--detach")
    assert commit_of(checkout) == commit


def test_an_app_tells_what_was_noted_when_it_was_made(checkout: Path, tmp_path: Path) -> None:
    inside = tmp_path / "app"
    write_build(inside / "build.json", "linux-x86_64", checkout)
    assert this_build(inside) == Build(git(checkout, "rev-parse", "HEAD"), "linux-x86_64")


@pytest.mark.parametrize("note", [b"", b"[]", b"{}", b"\xff"])
def test_nothing_is_known_of_any_other_copy(tmp_path: Path, note: bytes) -> None:
    assert this_build(tmp_path) == Build()
    (tmp_path / "build.json").write_bytes(note)
    assert this_build(tmp_path) == Build()
