"""Settings reach the engine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from app.engine_settings import GB, engine_settings, fit_settings, window_settings
from app.model_location import GUIDE
from app.paths import Paths
from app.settings import Settings, SettingsFile, Switch
from engine import (
    EngineSettings,
    Generate,
    SamplingParams,
    SsdSettings,
    Stats,
    inspect_model,
    model_fit,
)
from tests.engine.watched import guess_always
from tests.fakes.listener import running_engine


def test_the_disk_cache_is_in_the_data_folder_and_can_be_switched_off(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    assert engine_settings(paths, Settings()).ssd == SsdSettings(tmp_path / "kv-cache")
    assert engine_settings(paths, replace(Settings(), ssd_cache="off")).ssd is None


@pytest.mark.parametrize("is_linked", [False, True], ids=["in its place", "moved to another disk"])
def test_switched_off_nothing_of_a_chat_stays_on_disk(tmp_path: Path, is_linked: bool) -> None:
    paths = Paths(tmp_path / "home")
    moved = tmp_path / "moved"
    if is_linked:
        paths.kv_cache.parent.mkdir()
        moved.mkdir()
        paths.kv_cache.symlink_to(moved)
    settings = engine_settings(paths, Settings())
    assert settings.ssd is not None
    with running_engine(replace(settings, ssd=replace(settings.ssd, floor_bytes=0))) as listener:
        listener.load(GUIDE)
        listener.submit(Generate("a", tokens=tuple(range(3, 40)), max_tokens=1, chat="a chat"))
        listener.finished("a")
    written = (moved if is_linked else paths.kv_cache).rglob("*.safetensors")
    assert len([*written]) == 1
    engine_settings(paths, Settings())
    assert [*tmp_path.rglob("*.safetensors")]
    engine_settings(paths, replace(Settings(), ssd_cache="off"))
    assert not [*tmp_path.rglob("*.safetensors")]
    assert [path.name for path in paths.kv_cache.iterdir()] == ["lock"]


def test_the_kv_cache_is_as_computed_unless_asked_for_smaller(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    assert engine_settings(paths, Settings()).kv_bits is None
    assert engine_settings(paths, replace(Settings(), kv_cache="8")).kv_bits == 8


def test_what_is_automatic_is_as_the_engine_has_it(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    told, usual = engine_settings(paths, Settings()), EngineSettings()
    assert (told.kv_bytes, told.speculation) == (usual.kv_bytes, usual.speculation)
    assert told.ssd == SsdSettings(paths.kv_cache)


def test_a_small_budget_of_memory_gives_fewer_pages(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    SettingsFile(paths.settings).update(lambda settings: replace(settings, kv_memory="1"))
    pages: dict[str, int] = {}
    for name, settings in {"set": SettingsFile(paths.settings).load().settings, "usual": Settings()}.items():
        with running_engine(engine_settings(paths, settings)) as listener:
            model = listener.load(GUIDE).model
            pages[name] = model.total_pages
            assert model_fit(inspect_model(GUIDE), 64 * GB, settings=fit_settings(paths)).kv_budget == GB
    assert pages["set"] == GB // model.page_bytes < pages["usual"]


def test_a_cap_on_disk_is_kept_to(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    older, newer = (paths.kv_cache / ("0" * 32) / f"{name * 32}.safetensors" for name in "ab")
    older.parent.mkdir(parents=True)
    for used, path in enumerate((older, newer)):
        path.touch()
        os.truncate(path, 600_000_000)  # without a block on the disk
        os.utime(path, (used, used))
    for cap, kept in (("automatic", [True, True]), ("1", [False, True])):
        with running_engine(engine_settings(paths, Settings(ssd_cap=cap))) as listener:
            listener.load(GUIDE)
            listener.submit(Generate("a", prompt="Hello", max_tokens=1))
            told = listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
        assert isinstance(told, Stats)
        assert told.cache.ssd_cap_bytes == (GB if cap == "1" else SsdSettings(tmp_path).cap_bytes)
        assert [path.exists() for path in (older, newer)] == kept


@pytest.mark.parametrize("choice", ["on", "off"])
def test_guesses_can_be_switched_off(tmp_path: Path, choice: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    guess_always(monkeypatch)
    with running_engine(engine_settings(Paths(tmp_path), Settings(speculation=choice))) as listener:
        listener.load(GUIDE)
        text = "A page holds sixteen tokens, and a chat holds as many pages as it needs. " * 4
        greedy = SamplingParams(temperature=0)
        listener.submit(Generate("a", prompt=text, max_tokens=60, sampling=greedy, ignore_eos=True))
        assert (listener.finished("a").drafted_tokens > 0) == (choice == "on")


def test_a_model_rests_in_the_window_alone(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    assert engine_settings(paths, Settings()).unload_after is None
    assert window_settings(paths, Settings()).unload_after == 30 * 60
    assert window_settings(paths, replace(Settings(), unload_after="5")).unload_after == 5 * 60
    assert window_settings(paths, replace(Settings(), unload_after="off")).unload_after is None
