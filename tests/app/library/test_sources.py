"""Every source of models is asked, in the order in which they take names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from app.library.sources import find_everywhere
from tests.app.library.conftest import Account
from tests.fakes.models_elsewhere import cache_revision, ollama_model


def test_all_sources_are_asked_in_their_order(
    account: Account, folder_model: Path, gguf_bytes: bytes, tmp_path: Path
) -> None:
    cache_revision(account.cache, "some/Tiny-1B", "a" * 40, folder_model)
    studio = account.home / ".lmstudio" / "models" / "maker" / "Small-GGUF"
    studio.mkdir(parents=True)
    (studio / "Small-Q8_0.gguf").write_bytes(gguf_bytes)
    ollama_model(account.home / ".ollama" / "models", "library/llama3.2:1b", gguf_bytes)
    shutil.copytree(folder_model, tmp_path / "mine" / "Own")
    found = find_everywhere([tmp_path / "mine"], account.paths.library_links)
    sources = [candidate.source for candidate in found.candidates]
    assert sources == ["built in", "hugging face", "lm studio", "ollama", "folder"]
    assert (found.unread, found.notes) == ((), ())


def test_an_account_without_a_home_has_the_rest(
    account: Account, folder_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    shutil.copytree(folder_model, tmp_path / "mine" / "Own")
    found = find_everywhere([tmp_path / "mine"], account.paths.library_links)
    assert [candidate.source for candidate in found.candidates] == ["built in", "folder"]
