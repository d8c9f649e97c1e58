"""Models and chats that are wanted no more, at rest: what the engine's thread does when nobody asks."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from engine.commands import LoadModel
from engine.kv.page_data import ROOT_KEY
from engine.kv.ssd.folder import SsdFolder
from engine.kv.ssd.forgotten import Forgotten, forget_chats
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.tier import SsdTier
from engine.residents.residents import Residents
from engine.settings import EngineSettings
from tests.engine.kv.spilled import OTHER, owners_in, pages, spilled
from tests.fakes.on_the_spot import OnTheSpot
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
    monkeypatch.setattr("engine.kv.ssd.folder._LOCK_S", 0.0)
    monkeypatch.setattr("engine.rest.forgetting.ThreadPoolExecutor", OnTheSpot)
    ssd, clock = SsdSettings(tmp_path / "kv", floor_bytes=0), Clock()
    residents = beside_stored(ssd, tmp_path / "cache", clock)
    if is_loaded:
        residents.load(LoadModel("m", str(tiny)))
    quiet = residents.at_rest.patience
    with SsdFolder(ssd.folder, "", shutil.disk_usage).locked():
        residents.forget("secret")
        residents.at_rest.begins()
        for wait in (1.0, 2.0, 4.0):
            patience = residents.at_rest.patience
            assert patience is not None
            assert patience <= wait
            clock.now += wait
            residents.at_rest.look_after()
        assert owners_in(ssd.folder) == {"secret", "b"}
    clock.now += 7.9
    residents.at_rest.look_after()
    assert owners_in(ssd.folder) == {"secret", "b"}
    clock.now += 0.1
    residents.at_rest.look_after()
    assert owners_in(ssd.folder) == {"b"}
    if not is_loaded:
        assert residents.at_rest.patience is quiet is None
    residents.close()


@pytest.mark.parametrize("is_loaded", [False, True])
def test_files_of_a_deleted_chat_are_read_on_another_thread(
    is_loaded: bool, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssd, threads, is_done = SsdSettings(tmp_path / "kv", floor_bytes=0), list[str](), threading.Event()

    def seen(folder: SsdFolder, digests: frozenset[str], cap_bytes: int) -> Forgotten:
        threads.append(threading.current_thread().name)
        forgotten = forget_chats(folder, digests, cap_bytes)
        is_done.set()
        return forgotten

    residents = beside_stored(ssd, tmp_path / "cache", Clock())
    if is_loaded:
        residents.load(LoadModel("m", str(tiny)))
    monkeypatch.setattr("engine.kv.ssd.owners.forget_chats", seen)
    residents.forget("secret")
    assert is_done.wait(10)
    assert owners_in(ssd.folder) == {"b"}
    residents.close()
    assert [name.startswith("mlxr-forget") for name in threads] == [True]
    assert list(ssd.folder.glob("*.forgotten")) == []


def test_what_is_forgotten_at_the_end_is_gone_then(tiny: Path, tmp_path: Path) -> None:
    ssd = SsdSettings(tmp_path / "kv", floor_bytes=0)
    residents = beside_stored(ssd, tmp_path / "cache", Clock())
    residents.load(LoadModel("m", str(tiny)))
    residents.forget("secret")
    residents.close()
    assert owners_in(ssd.folder) == {"b"}
    assert list(ssd.folder.glob("*.forgotten")) == []


def beside_stored(ssd: SsdSettings, cache: Path, clock: Clock) -> Residents:
    """No model, and pages on SSD that are of the chats "secret" and "b"."""
    tier = SsdTier(ssd, OTHER)
    assert tier.put(spilled(ROOT_KEY, pages(0, 4), ("secret", "b")))
    tier.close(10)
    # Nothing is compiled at rest then: whoever tidies up may forget what is due in passing.
    settings = EngineSettings(executor="reference", ssd=ssd, unload_after=None, cache=cache)
    return Residents(settings, lambda _: None, lambda: False, lambda: None, clock=clock)
