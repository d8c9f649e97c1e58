"""Ollama's store: which manifests are models, and the links to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.library.library import Library
from app.library.look import look
from engine import inspect_model
from tests.app.library.conftest import Account, names
from tests.fakes.models_elsewhere import ollama_model


@pytest.fixture
def store(account: Account) -> Path:
    return account.home / ".ollama" / "models"


def test_a_model_is_opened_through_a_link_and_nothing_is_copied(
    library: Library, account: Account, store: Path, gguf_bytes: bytes
) -> None:
    blob = ollama_model(store, "library/llama3.2:latest", gguf_bytes)
    library.refresh(look)
    model = library.named("llama3.2")
    assert model.path.is_symlink()
    assert model.path.resolve() == blob
    assert model.path.is_relative_to(account.paths.home)
    assert inspect_model(model.path).name == "llama3.2-latest"


def test_a_tag_that_moves_on_keeps_its_name_and_loses_its_old_link(
    library: Library, account: Account, store: Path, gguf_bytes: bytes
) -> None:
    ollama_model(store, "library/llama:1b", gguf_bytes)
    library.refresh(look)
    library.rename(library.named("llama:1b"), "mine")
    newer = ollama_model(store, "library/llama:1b", gguf_bytes + b"newer")
    library.refresh(look)
    assert library.named("mine").path.resolve() == newer
    assert [link.resolve() for link in account.paths.library_links.glob("*/*")] == [newer]


def test_two_tags_of_one_file_are_two_models_of_one_fingerprint(
    library: Library, store: Path, gguf_bytes: bytes
) -> None:
    ollama_model(store, "library/llama:1b", gguf_bytes)
    ollama_model(store, "someone/llama:1b", gguf_bytes)
    library.refresh(look)
    assert names(library) == ["llama-someone:1b", "llama:1b"]
    assert len({model.facts.fingerprint for model in library.models()[1:]}) == 1


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        ({"digest": "sha256:../../../../precious"}, "no SHA-256 digest"),
        ({"digest": "sha256:" + "0" * 64}, "is missing in Ollama's store"),
        ({"size": 10**9}, "of 1000000000"),
        ({"digest": None}, "no SHA-256 digest"),
    ],
)
def test_what_is_not_whole_is_left_out_and_said(
    library: Library, store: Path, gguf_bytes: bytes, layer: dict[str, object], says: str
) -> None:
    ollama_model(store, "library/llama:1b", gguf_bytes, **layer)
    library.refresh(look)
    assert names(library) == []
    (left,) = library.left_out()
    assert says in left.problem


@pytest.mark.parametrize("manifest", [b"", b"{", b"[]", b'{"layers": 3}', b"[" * 100_000, b"\xff\xfe"])
def test_a_manifest_that_is_none_harms_nobody(
    library: Library, store: Path, gguf_bytes: bytes, manifest: bytes
) -> None:
    ollama_model(store, "library/good:1b", gguf_bytes)
    bad = store / "manifests" / "registry.example" / "library" / "bad" / "1b"
    bad.parent.mkdir()
    bad.write_bytes(manifest)
    library.refresh(look)
    assert names(library) == ["good:1b"]
    assert [one.path for one in library.left_out()] == [bad]


def test_models_of_other_forms_are_no_candidates(library: Library, store: Path, gguf_bytes: bytes) -> None:
    ollama_model(store, "library/tensors:1b", b"", mediaType="application/vnd.ollama.image.tensor")
    blob = ollama_model(store, "library/tuned:1b", gguf_bytes)
    manifest = store / "manifests" / "registry.example" / "library" / "tuned" / "1b"
    value = json.loads(manifest.read_text())
    value["layers"].append(
        {"mediaType": "application/vnd.ollama.image.adapter", "digest": blob.name, "size": 1}
    )
    manifest.write_text(json.dumps(value))
    library.refresh(look)
    assert names(library) == []
    assert "put together of several files" in library.left_out()[0].problem


def test_the_store_may_be_elsewhere(
    library: Library, gguf_bytes: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "store"))
    ollama_model(tmp_path / "store", "library/llama:1b", gguf_bytes)
    library.refresh(look)
    assert names(library) == ["llama:1b"]
