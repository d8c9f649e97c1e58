"""Settings reach the engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.engine_settings import engine_settings, window_settings
from app.paths import Paths
from app.settings import Settings
from engine import SsdSettings


def test_the_disk_cache_is_in_the_data_folder_and_can_be_switched_off(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    assert engine_settings(paths, Settings()).ssd == SsdSettings(tmp_path / "kv-cache")
    assert engine_settings(paths, replace(Settings(), ssd_cache="off")).ssd is None


def test_switched_off_nothing_of_a_chat_stays_on_disk(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    (paths.kv_cache / "model").mkdir(parents=True)
    (paths.kv_cache / "model" / "page.safetensors").write_bytes(b"pages")
    engine_settings(paths, Settings())
    assert paths.kv_cache.exists()
    engine_settings(paths, replace(Settings(), ssd_cache="off"))
    assert not paths.kv_cache.exists()
    assert tmp_path.exists()


def test_the_kv_cache_is_as_computed_unless_asked_for_smaller(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    assert engine_settings(paths, Settings()).kv_bits is None
    assert engine_settings(paths, replace(Settings(), kv_cache="8")).kv_bits == 8


def test_a_model_rests_in_the_window_alone(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    assert engine_settings(paths, Settings()).unload_after is None
    assert window_settings(paths, Settings()).unload_after == 30 * 60
    assert window_settings(paths, replace(Settings(), unload_after="5")).unload_after == 5 * 60
    assert window_settings(paths, replace(Settings(), unload_after="off")).unload_after is None
