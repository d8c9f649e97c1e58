"""Sound models to damage, and the process that opens what is left of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.bases import BASES
from tests.fuzz.opener import Opener


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sound model of every kind, by its name in BASES."""
    folder = tmp_path_factory.mktemp("sound")
    for name, write in BASES.items():
        write(folder / name)
    return folder


@pytest.fixture(scope="session")
def opener(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    """A process that opens models."""
    opener = Opener(sound / "plain", tmp_path_factory.mktemp("opener") / "errors")
    yield opener
    opener.close()


@pytest.fixture
def model(request: pytest.FixtureRequest, sound: Path, tmp_path: Path) -> Path:
    """A copy of the model that the test's parameter names, or of the plainest."""
    return shutil.copytree(sound / getattr(request, "param", "plain"), tmp_path / "model")
