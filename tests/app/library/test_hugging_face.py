"""The Hugging Face cache as its own client leaves it, from a local hub."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

from app.library.library import Library
from app.library.look import look
from app.library.removal import carry_out, plan_removal
from tests.app.library.conftest import Account, names
from tests.fakes.models_elsewhere import cache_revision
from tests.hub.faults import Fault
from tests.hub.fixtures import HubHome
from tests.hub.fixtures import hub_home as hub_home
from tests.hub.repos import HubFile, Repo
from tests.hub.server import HubServer


def repository(folder: Path, **changes: bytes) -> Repo:
    """A repository with the files of `folder`, weights beside git."""
    files: dict[str, bytes | HubFile] = {
        file.name: HubFile(file, lfs=True) if file.suffix == ".safetensors" else file.read_bytes()
        for file in folder.iterdir()
    }
    return Repo("maker/Tiny-Chat", {**files, **changes}, license="apache-2.0", card="# Tiny")


def test_what_the_client_downloads_is_a_model_and_goes_again(
    account: Account, hub_home: HubHome, library: Library, folder_model: Path
) -> None:
    with HubServer([repository(folder_model)]) as hub:
        hub_home.connect(hub)
        snapshot = Path(snapshot_download("maker/Tiny-Chat"))
        library.refresh(look)
        model = library.named("tiny-chat")
        assert (model.path, model.origin, model.revision) == (snapshot, "maker/Tiny-Chat", snapshot.name)
        assert (model.facts.licence, model.is_runnable) == ("apache-2.0", True)
        hub.update(repository(folder_model, **{"notes.txt": b"a new commit"}))
        newer = Path(snapshot_download("maker/Tiny-Chat"))
    library.refresh(look)
    assert names(library) == ["tiny-chat", f"tiny-chat@{snapshot.name[:7]}"]
    assert library.named("tiny-chat").path == newer
    for name in names(library):
        carry_out(plan_removal(library.named(name), library.models(), files=False), library)
    assert [folder.name for folder in hub_home.cache.iterdir() if folder.name.startswith("models--")] == []


def test_a_download_that_was_cut_off_is_no_model(
    account: Account, hub_home: HubHome, library: Library, folder_model: Path
) -> None:
    shard = "model-00002-of-00002.safetensors"
    with HubServer([repository(folder_model)]) as hub:
        hub_home.connect(hub)
        hub.faults.add(Fault(path=shard, kind="status", status=404, times=100))
        with pytest.raises(LocalEntryNotFoundError):
            snapshot_download("maker/Tiny-Chat")
        library.refresh(look)
        assert names(library) == []
        hub.faults.clear()
        snapshot_download("maker/Tiny-Chat")
    library.refresh(look)
    assert names(library) == ["tiny-chat"]


@pytest.mark.parametrize("main", [True, False])
def test_without_a_main_branch_the_newest_revision_has_the_name(
    account: Account, library: Library, folder_model: Path, main: bool
) -> None:
    cache_revision(account.cache, "some/Tiny", "a" * 40, folder_model, main=main)
    cache_revision(account.cache, "some/Tiny", "b" * 40, folder_model, main=False)
    library.refresh(look)
    assert library.named("tiny").revision == ("a" if main else "b") * 40


@pytest.mark.parametrize(
    "name", ["models--", "models--..--..", "models--a", "datasets--a--b", "models--x--y.txt"]
)
def test_folders_that_are_no_repositories_harm_nothing(account: Account, library: Library, name: str) -> None:
    (account.cache / name / "snapshots").mkdir(parents=True)
    (account.cache / "models--file").write_text("not a folder")
    (account.cache / "models--a--no-folder").mkdir()
    (account.cache / "models--a--no-folder" / "snapshots").write_text("")
    assert library.refresh(look) == ()
    assert names(library) == []
