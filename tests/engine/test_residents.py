"""Models and chats that are wanted no more, at rest: what the engine's thread does when nobody asks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.commands import LoadModel
from engine.kv.page_data import ROOT_KEY
from engine.kv.ssd_folder import SsdFolder
from engine.kv.ssd_settings import SsdSettings
from engine.kv.ssd_tier import SsdTier
from engine.residents import Residents
from engine.settings import EngineSettings
from tests.engine.kv.spilled import OTHER, owners_in, pages, spilled
from tests.fakes.random_model import write_random_model


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.mark.parametrize("is_loaded", [False, True])
def test_what_could_not_be_forgotten_is_tried_again_at_rest_ever_more_seldom(
    is_loaded: bool, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.kv.ssd_folder._BRIEFLY_S", 0.0)
    ssd, clock = SsdSettings(tmp_path / "kv", floor_bytes=0), Clock()
    tier = SsdTier(ssd, OTHER)
    assert tier.put(spilled(ROOT_KEY, pages(0, 4), ("secret", "b")))
    tier.close(10)
    residents = Residents(
        EngineSettings(ssd=ssd, unload_after=None, cache=tmp_path / "cache"),
        lambda _: None,
        lambda: False,
        clock,
    )
    if is_loaded:
        residents.load(LoadModel("m", str(tiny)))
    quiet = residents.patience
    with SsdFolder(ssd.folder, "", shutil.disk_usage).locked():
        residents.forget("secret")
        residents.rest()
        for wait in (1.0, 2.0, 4.0):
            patience = residents.patience
            assert patience is not None
            assert patience <= wait
            clock.now += wait
            residents.look_after()
        assert owners_in(ssd.folder) == {"secret", "b"}
    clock.now += 7.9
    residents.look_after()
    assert owners_in(ssd.folder) == {"secret", "b"}
    clock.now += 0.1
    residents.look_after()
    assert owners_in(ssd.folder) == {"b"}
    if not is_loaded:
        assert residents.patience is quiet is None
    residents.close()
