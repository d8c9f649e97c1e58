"""A small model on disk and a running engine, for tests that speak to the engine as its callers do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import EngineSettings
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama named "tiny"."""
    return write_random_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def listener() -> Iterator[Listener]:
    """An engine that prefills in chunks of 16, and what it emits."""
    with running_engine(EngineSettings(prefill_chunk=16)) as listener:
        yield listener
