"""Three small models, and engines with room for two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine import EngineSettings, SsdSettings
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
