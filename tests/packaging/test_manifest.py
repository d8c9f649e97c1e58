"""What tells of a release: made of its files and the changelog, signed, and taken by the apps it is for."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from nacl.signing import SigningKey

from app import VERSION
from app.updates.channel import Channel
from app.updates.choice import SYSTEMS
from app.updates.envelope import opened
from app.updates.manifest import decoded

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "packaging" / "manifest.py"
NOW = datetime(2026, 11, 22, 10, 30, 5, 999, tzinfo=UTC)
CHANGES = f"# Changelog\n\n## [Unreleased]\n\n## [{VERSION}] - 2026-11-22\n\n### Added\n- Wings\n"


@pytest.fixture
def manifest(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    yield importlib.import_module("manifest")
    for name in ("manifest", "download_page"):
        sys.modules.pop(name, None)


@pytest.fixture
def folder(tmp_path: Path, manifest: ModuleType) -> Path:
    """A release's files, each with other bytes."""
    for number, name in enumerate(manifest.FILES.values(), 1):
        (tmp_path / name).write_bytes(bytes([number]) * number * 1_000_000)
    return tmp_path


@pytest.fixture
def key() -> SigningKey:
    return SigningKey.generate()


def channel(*keys: SigningKey) -> Channel:
    return Channel("https://example.org/releases.json", "https://example.org/", tuple(map(public, keys)))


def public(key: SigningKey) -> str:
    return bytes(key.verify_key).hex()


def test_the_list_is_what_the_files_and_the_changelog_say(
    manifest: ModuleType, folder: Path, key: SigningKey
) -> None:
    manifest.publish(manifest.release(folder, CHANGES, NOW), folder, [key], channel(key), "")
    read = decoded(opened((folder / "releases.json").read_bytes(), [public(key)]))
    assert (read.version, read.date) == (VERSION, NOW.replace(microsecond=0))
    assert read.notes[0].text == "### Added\n- Wings"
    assert tuple(one.system for one in read.artefacts) == SYSTEMS
    for artefact in read.artefacts:
        data = (folder / artefact.file).read_bytes()
        assert (artefact.size, artefact.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert [one.minimum_macos for one in read.artefacts] == ["14.0", "26.0", ""]


def test_several_keys_sign_while_one_replaces_another(
    manifest: ModuleType, folder: Path, key: SigningKey
) -> None:
    new = SigningKey.generate()
    keys = manifest.signing_keys({"MLXR_RELEASE_KEY": f"{bytes(key).hex()}, {bytes(new).hex()}"})
    manifest.publish(manifest.release(folder, CHANGES, NOW), folder, keys, channel(key, new), "")
    data = (folder / "releases.json").read_bytes()
    assert opened(data, [public(key)]) == opened(data, [public(new)])


def test_a_key_that_no_app_knows_signs_nothing(manifest: ModuleType, folder: Path, key: SigningKey) -> None:
    made = manifest.release(folder, CHANGES, NOW)
    for apps in (channel(), channel(SigningKey.generate())):
        with pytest.raises(ValueError, match=r"belongs into keys of app/updates/channel\.py"):
            manifest.publish(made, folder, [key], apps, "")
    assert not (folder / "releases.json").exists()


def test_without_a_key_it_says_what_is_missing(
    manifest: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert manifest.signing_keys({}) == []
    manifest.publish(manifest.release(folder, CHANGES, NOW), folder, [], channel(), "")
    assert capsys.readouterr().err == (
        "note: MLXR_RELEASE_KEY is not set, so releases.json is not made: "
        f"no MLXR will be told of {VERSION}\n"
    )
    assert (folder / "download.html").is_file()
    assert not (folder / "releases.json").exists()


def test_what_is_no_key_is_refused_and_not_shown(manifest: ModuleType) -> None:
    with pytest.raises(ValueError, match="64 hexadecimal digits") as caught:
        manifest.signing_keys({"MLXR_RELEASE_KEY": "secret"})
    assert "secret" not in str(caught.value)


def test_a_missing_file_is_named(manifest: ModuleType, folder: Path) -> None:
    (folder / "MLXR-macos26-arm64.dmg").unlink()
    with pytest.raises(ValueError, match=r"has no MLXR-macos26-arm64\.dmg;"):
        manifest.release(folder, CHANGES, NOW)


@pytest.mark.parametrize("changes", ["", CHANGES.replace(VERSION, "9.9.9")])
def test_a_changelog_without_this_version_is_refused(
    manifest: ModuleType, folder: Path, changes: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(f"## [{VERSION}] - 2026-11-22")):
        manifest.release(folder, changes, NOW)


def test_the_page_links_each_file_and_loads_nothing(manifest: ModuleType, folder: Path) -> None:
    made = manifest.release(folder, CHANGES, NOW)
    manifest.publish(made, folder, [], channel(), "https://example.org/v1/")
    html = (folder / "download.html").read_text("utf-8")
    links: list[str] = []
    loaded: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            links.extend(str(value) for name, value in attrs if tag == "a" and name == "href")
            loaded.extend(tag for name, _ in attrs if name == "src" or tag in ("script", "link"))

    Reader().feed(html)
    assert links == [f"https://example.org/v1/{name}" for name in manifest.FILES.values()]
    assert loaded == []
    assert "url(" not in html
    assert all(one.sha256 in html for one in made.artefacts)
    assert "22 November 2026" in html


def test_as_a_program_it_says_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    environment = {**os.environ, "MLXR_RELEASE_KEY": ""}
    command = [sys.executable, SCRIPT, tmp_path / "nowhere"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_a_new_key_is_one_and_both_halves_belong_together(manifest: ModuleType) -> None:
    shown = subprocess.run([sys.executable, SCRIPT, "--new-key"], capture_output=True, text=True, check=True)
    secret, told = shown.stdout.splitlines()
    (key,) = manifest.signing_keys(dict([secret.split("=")]))
    assert told.endswith(public(key))
