"""An account of its own: an empty home, Hugging Face cache and library, and models to put into them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from huggingface_hub import constants

from app.library.library import Library, open_library
from app.library.look import look
from app.library.records import Facts
from app.paths import Paths
from tests.engine.loading.gguf.writer import write_gguf_model
from tests.fakes.random_model import write_random_model


@dataclass(frozen=True, slots=True)
class Account:
    """Where things are: the home, the Hugging Face cache in it, and MLXR's data."""

    home: Path
    cache: Path
    paths: Paths


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    """An account that has nothing yet."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    cache = home / ".cache" / "huggingface" / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))  # the client reads the environment once
    return Account(home, cache, Paths(tmp_path / "mlxr-home"))


@pytest.fixture
def library(account: Account) -> Iterator[Library]:
    """The account's library, not yet scanned."""
    problems: list[str] = []
    with open_library(account.paths, problems.append) as library:
        yield library
    assert problems == []


class CountingLook:
    """The real look at headers, and at what it was made."""

    def __init__(self) -> None:
        self.at: list[Path] = []

    def __call__(self, path: Path) -> Facts:
        self.at.append(path)
        return look(path)


@pytest.fixture(scope="session")
def folder_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model in Hugging Face's form, of two shards."""
    return write_random_model(tmp_path_factory.mktemp("made") / "folder", shards=2)


@pytest.fixture(scope="session")
def gguf_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A random model in GGUF."""
    file = tmp_path_factory.mktemp("made") / "model.gguf"
    write_gguf_model(file)
    return file.read_bytes()


def names(library: Library) -> list[str]:
    """What is listed, without the guide."""
    return [model.name for model in library.models() if model.source != "built in"]
