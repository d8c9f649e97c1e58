"""Three small models, and engines with room for two of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine import EngineSettings, SsdSettings
from engine.loading.weights import LoadLedger
from tests.engine.residents.two_models import ONE
from tests.engine.watched import restore_always
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Three models of the same shape with other weights."""
    folder = tmp_path_factory.mktemp("models")
    return tuple(
        write_random_model(folder / name, seed=seed, max_position_embeddings=512)
        for seed, name in enumerate("abc")
    )  # type: ignore[return-value]


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """One whose context an answer does not come to the end of."""
    return write_random_model(tmp_path / "endless", seed=5, max_position_embeddings=1 << 17)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is not set, a load waits for a tensor."""
    add, gives = LoadLedger.add, threading.Event()
    gives.set()

    def slow(ledger: LoadLedger, *given: object) -> None:
        assert gives.wait(60)
        add(ledger, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(LoadLedger, "add", slow)
    return gives


@pytest.fixture
def listener() -> Iterator[Listener]:
    """An engine with room for a chat of the whole context on two models, and on no third."""
    with running_engine(EngineSettings(prefill_chunk=64, kv_bytes=2 * ONE)) as listener:
        yield listener


@pytest.fixture
def with_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., EngineSettings]:
    """Settings with an SSD cache, from which everything is read back."""
    restore_always(monkeypatch)
    ssd = SsdSettings(tmp_path / "kv", cap_bytes=64 << 20, floor_bytes=0)

    def settings(**more: object) -> EngineSettings:
        return EngineSettings(ssd=ssd, prefill_chunk=64, cache=tmp_path / "cache", **more)  # type: ignore[arg-type]

    return settings
