"""The settings file: whatever it is like, the app gets settings and the user keeps what can be kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.settings import SETTINGS, LoadedSettings, Settings, SettingsFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "settings.json"


def test_without_a_file_the_defaults_hold_and_nothing_is_made(path: Path) -> None:
    assert SettingsFile(path).load() == LoadedSettings(Settings(last_model=None, theme="system"))
    assert not path.parent.exists()


def test_a_change_is_there_next_time(path: Path) -> None:
    assert SettingsFile(path).update(lambda s: replace(s, theme="dark")) == ""
    assert SettingsFile(path).update(lambda s: replace(s, last_model="/models/ü")) == ""
    assert SettingsFile(path).load() == LoadedSettings(Settings(last_model="/models/ü", theme="dark"))


def test_a_change_back_to_the_default_is_kept_too(path: Path) -> None:
    SettingsFile(path).update(lambda s: replace(s, theme="dark"))
    SettingsFile(path).update(lambda s: replace(s, theme="system"))
    assert SettingsFile(path).load().settings.theme == "system"


def test_what_another_version_wrote_stays(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(json.dumps({"future": {"a": 1}, "theme": "sepia"}))
    SettingsFile(path).update(lambda s: replace(s, last_model="/m"))
    assert json.loads(path.read_text()) == {"future": {"a": 1}, "theme": "sepia", "last_model": "/m"}


def test_a_value_that_makes_no_sense_is_named_and_the_others_hold(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(json.dumps({"theme": 3, "last_model": "/m"}))
    loaded = SettingsFile(path).load()
    assert loaded.settings == Settings(last_model="/m", theme="system")
    assert "theme" in loaded.problem
    assert "\n" not in loaded.problem


@pytest.mark.parametrize(
    ("name", "value"),
    [("ssd_cap", "3"), ("ssd_cap", 20), ("kv_memory", "1000"), ("kv_memory", "-1"), ("speculation", True)],
)
def test_a_size_or_switch_out_of_its_range_is_named_in_one_line(path: Path, name: str, value: object) -> None:
    path.parent.mkdir()
    path.write_text(json.dumps({name: value, "theme": "dark"}))
    loaded = SettingsFile(path).load()
    assert loaded.settings == Settings(theme="dark")
    assert loaded.problem == f"{path}: {name} has no valid value; the default is used"


def test_several_values_that_make_no_sense_are_named_in_one_line(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(json.dumps({"theme": 5, "kv_memory": "7"}))
    problem = SettingsFile(path).load().problem
    assert problem == f"{path}: theme, kv_memory have no valid values; the defaults are used"


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"null", b"[" * 100_000])
def test_a_broken_file_is_moved_aside(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    loaded = SettingsFile(path).load()
    assert loaded.settings == Settings()
    assert "settings.json.broken" in loaded.problem
    assert "\n" not in loaded.problem
    assert not path.exists()
    assert path.with_name("settings.json.broken").read_bytes() == content
    assert SettingsFile(path).load().problem == ""


def test_a_folder_that_cannot_be_written_is_reported_not_raised(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    file = SettingsFile(tmp_path / "file" / "settings.json")
    assert "settings.json" in file.update(lambda s: replace(s, theme="dark"))
    assert file.load().settings == Settings()


def test_a_file_that_cannot_be_read_is_not_overwritten(path: Path) -> None:
    path.mkdir(parents=True)  # a folder in its place cannot be read as a file
    file = SettingsFile(path)
    assert "cannot be read" in file.load().problem
    assert "cannot be read" in file.update(lambda s: replace(s, theme="dark"))
    assert path.is_dir()


def test_a_crash_while_writing_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SettingsFile(path)
    file.update(lambda s: replace(s, theme="dark"))

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    assert "No space left" in file.update(lambda s: replace(s, theme="light"))
    assert file.load().settings.theme == "dark"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    path.symlink_to(tmp_path / "elsewhere.json")
    SettingsFile(path).update(lambda s: replace(s, theme="dark"))
    assert path.is_symlink()
    assert json.loads((tmp_path / "elsewhere.json").read_text()) == {"theme": "dark"}


def test_every_setting_accepts_its_default_and_its_choices_alone() -> None:
    for name, setting in SETTINGS.items():
        assert setting.accepts(getattr(Settings(), name))
        assert all(setting.accepts(choice) for choice in setting.choices)
        assert setting.accepts("elsewhere") == (name == "last_model")
        assert setting.accepts(None) == (name == "last_model")
        assert not setting.accepts(1)
