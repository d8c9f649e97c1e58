"""Removing models: what is said is what is freed, and nothing else is touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir

from app.downloads.cache_layout import CacheLayout
from app.downloads.repo_lock import repo_lock
from app.errors import DownloadFailed
from app.library.importing import take_in
from app.library.library import Library
from app.library.look import look
from app.library.records import LibraryError
from app.library.removal import Removal, carry_out, plan_leftover, plan_removal
from tests.app.library.conftest import Account, names
from tests.fakes.models_elsewhere import cache_revision, ollama_model

COMMITS = ["a" * 40, "b" * 40]


def used(folder: Path) -> int:
    """Bytes of all files in `folder`, each counted once."""
    sizes = {
        (s.st_dev, s.st_ino): s.st_size for f in folder.rglob("*") if not f.is_symlink() and (s := f.lstat())
    }
    return sum(sizes[key] for key in sizes) - sum(f.lstat().st_size for f in folder.rglob("*") if f.is_dir())


def plan(library: Library, name: str, *, files: bool = False) -> Removal:
    """What removing it would do, after a scan."""
    library.refresh(look)
    return plan_removal(library.named(name), library.models(), files=files)


def test_a_revision_goes_and_what_others_share_stays(
    library: Library, account: Account, folder_model: Path, tmp_path: Path
) -> None:
    first = cache_revision(account.cache, "some/Tiny", COMMITS[0], folder_model)
    newer = shutil.copytree(folder_model, tmp_path / "newer")
    (newer / "README.md").write_text("a card of its own")
    cache_revision(account.cache, "some/Tiny", COMMITS[1], newer)
    removal = plan(library, "tiny")
    before = used(account.cache)
    assert removal.freed == len("a card of its own") + len(COMMITS[1])  # its card, and the main branch's file
    assert removal.kept == removal.model.facts.size - removal.freed
    assert carry_out(removal, library) == removal.freed == before - used(account.cache)
    assert scan_cache_dir(account.cache).warnings == []
    library.refresh(look)
    assert [(model.name, model.path) for model in library.models()][1:] == [("tiny", first)]
    assert library.named("tiny").is_runnable


def test_the_last_revision_takes_the_whole_repository_along(
    library: Library, account: Account, folder_model: Path
) -> None:
    cache_revision(account.cache, "some/Tiny", COMMITS[0], folder_model)
    cache_revision(account.cache, "some/Other", COMMITS[1], folder_model)
    removal = plan(library, "tiny")
    before = used(account.cache)
    assert carry_out(removal, library) == before - used(account.cache)
    assert [folder.name for folder in account.cache.glob("models--*")] == ["models--some--Other"]
    assert names(library) == ["other"]


def test_a_repository_of_the_same_commit_is_left_alone(
    library: Library, account: Account, folder_model: Path
) -> None:
    for repository in ("old/Name", "new/Name"):  # a repository that was renamed has the same commits
        cache_revision(account.cache, repository, COMMITS[0], folder_model)
    library.refresh(look)
    for name in names(library):
        repository = library.named(name).origin
        carry_out(plan(library, name), library)
        assert not (account.cache / f"models--{repository.replace('/', '--')}").exists()
        library.refresh(look)
        assert all(model.is_runnable for model in library.models())


def test_one_quantisation_of_several_goes_and_the_last_takes_the_rest(
    library: Library, account: Account, gguf_bytes: bytes, tmp_path: Path
) -> None:
    (tmp_path / "made").mkdir()
    for quant in ("Q4_K_M", "Q8_0"):
        (tmp_path / "made" / f"tiny-{quant}.gguf").write_bytes(gguf_bytes + quant.encode())
    (tmp_path / "made" / "README.md").write_text("a card")
    cache_revision(account.cache, "some/Tiny-GGUF", COMMITS[0], tmp_path / "made")
    removal = plan(library, "tiny:q8_0")
    assert carry_out(removal, library) == removal.freed == len(gguf_bytes) + 4
    library.refresh(look)
    assert names(library) == ["tiny:q4_k_m"]
    carry_out(plan(library, "tiny:q4_k_m"), library)
    assert list(account.cache.glob("models--*")) == []


def test_a_blob_that_a_hard_link_keeps_frees_nothing(
    library: Library, account: Account, gguf_bytes: bytes, tmp_path: Path
) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "tiny.gguf").write_bytes(gguf_bytes)
    snapshot = cache_revision(account.cache, "some/Tiny-GGUF", COMMITS[0], tmp_path / "made")
    kept = tmp_path / "kept.gguf"
    kept.hardlink_to(os.path.realpath(snapshot / "tiny.gguf"))
    removal = plan(library, "tiny")
    assert removal.freed == len(COMMITS[0])
    assert removal.kept == len(gguf_bytes) - removal.freed
    carry_out(removal, library)
    assert kept.read_bytes() == gguf_bytes


def test_models_that_are_links_to_the_files_are_named_before(
    library: Library, account: Account, gguf_bytes: bytes, tmp_path: Path
) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "tiny.gguf").write_bytes(gguf_bytes)
    snapshot = cache_revision(account.cache, "some/Tiny-GGUF", COMMITS[0], tmp_path / "made")
    studio = account.home / ".lmstudio" / "models" / "maker" / "Linked"
    studio.mkdir(parents=True)
    (studio / "linked.gguf").symlink_to(snapshot / "tiny.gguf")
    assert plan(library, "tiny").also_lost == ("linked",)


def test_a_link_out_of_the_cache_is_refused(
    library: Library, account: Account, gguf_bytes: bytes, tmp_path: Path
) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "README.md").write_text("a card")
    snapshot = cache_revision(account.cache, "some/Tiny-GGUF", COMMITS[0], tmp_path / "made")
    (tmp_path / "precious.gguf").write_bytes(gguf_bytes)
    (snapshot / "tiny.gguf").symlink_to(tmp_path / "precious.gguf")
    with pytest.raises(LibraryError, match="is a link out of the cache"):
        plan(library, "tiny")
    assert (tmp_path / "precious.gguf").read_bytes() == gguf_bytes
    assert (snapshot / "tiny.gguf").is_symlink()


def test_a_cache_that_is_not_as_it_should_be_is_left_alone(
    library: Library, account: Account, gguf_bytes: bytes, tmp_path: Path
) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "tiny.gguf").write_bytes(gguf_bytes)
    snapshot = cache_revision(account.cache, "some/Tiny-GGUF", COMMITS[0], tmp_path / "made")
    (snapshot / "broken.txt").symlink_to("nowhere")
    with pytest.raises(LibraryError, match="not as the Hugging Face cache should be"):
        plan(library, "tiny")
    assert (snapshot / "tiny.gguf").exists()


def test_other_apps_keep_their_files(library: Library, account: Account, gguf_bytes: bytes) -> None:
    studio = account.home / ".lmstudio" / "models" / "maker" / "Small"
    studio.mkdir(parents=True)
    (studio / "small.gguf").write_bytes(gguf_bytes)
    blob = ollama_model(account.home / ".ollama" / "models", "library/llama:1b", gguf_bytes)
    for name, says in (("small", "belong to LM Studio"), ("llama:1b", "`ollama rm llama:1b`")):
        removal = plan(library, name)
        assert (removal.freed, removal.deletes) == (0, ())
        assert says in removal.why_kept
        with pytest.raises(LibraryError, match="belongs to"):
            plan(library, name, files=True)
        carry_out(removal, library)
        library.refresh(look)
    assert names(library) == []
    assert (studio / "small.gguf").read_bytes() == blob.read_bytes() == gguf_bytes


def test_an_imported_folder_is_forgotten_and_with_files_deleted(
    library: Library, folder_model: Path, tmp_path: Path
) -> None:
    mine = shutil.copytree(folder_model, tmp_path / "Mine")
    take_in(library, mine, look)
    carry_out(plan(library, "mine"), library)
    library.refresh(look)
    assert names(library) == []
    assert used(mine) == used(folder_model)
    take_in(library, mine, look)
    removal = plan(library, "mine", files=True)
    assert carry_out(removal, library) == removal.freed == used(folder_model)
    assert not mine.exists()


def test_what_is_not_the_models_own_stays(library: Library, folder_model: Path, tmp_path: Path) -> None:
    mine = shutil.copytree(folder_model, tmp_path / "Mine")
    (mine / "thesis.docx").write_text("years of work")
    (mine / "notes").mkdir()
    (mine / "notes" / "config.json").write_text("{}")
    take_in(library, mine, look)
    carry_out(plan(library, "mine", files=True), library)
    assert sorted(file.relative_to(mine).as_posix() for file in mine.rglob("*")) == [
        "notes",
        "notes/config.json",
        "thesis.docx",
    ]


def test_all_parts_of_a_file_go(library: Library, tmp_path: Path) -> None:
    from tests.engine.loading.gguf.writer import write_gguf_model

    write_gguf_model(tmp_path / "split.gguf", parts=2)
    (tmp_path / "split-00001-of-00003.gguf").write_bytes(b"another's")
    take_in(library, tmp_path / "split-00002-of-00002.gguf", look)
    carry_out(plan(library, "split", files=True), library)
    assert [file.name for file in tmp_path.glob("*.gguf")] == ["split-00001-of-00003.gguf"]


@pytest.mark.parametrize("linked", ["tokenizer.model", "model-00001-of-00002.safetensors"])
def test_a_link_out_of_an_imported_folder_is_refused(
    library: Library, folder_model: Path, tmp_path: Path, linked: str
) -> None:
    mine = shutil.copytree(folder_model, tmp_path / "Mine")
    (mine / linked).rename(tmp_path / "precious")
    (mine / linked).symlink_to(tmp_path / "precious")
    take_in(library, mine, look)
    with pytest.raises(LibraryError, match="is a link out of its folder"):
        plan(library, "mine", files=True)
    assert (tmp_path / "precious").exists()
    assert (mine / "config.json").exists()


def test_the_guide_stays_and_what_is_gone_is_only_forgotten(
    library: Library, gguf_bytes: bytes, tmp_path: Path
) -> None:
    with pytest.raises(LibraryError, match="part of MLXR"):
        plan(library, "guide")
    (tmp_path / "m.gguf").write_bytes(gguf_bytes)
    take_in(library, tmp_path / "m.gguf", look)
    (tmp_path / "m.gguf").unlink()
    removal = plan(library, "m", files=True)
    assert (removal.freed, removal.deletes) == (0, ())
    carry_out(removal, library)
    library.refresh(look)
    assert names(library) == []


def test_a_file_that_cannot_be_deleted_is_said_and_stays_listed(
    library: Library, gguf_bytes: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf_bytes)
    take_in(library, tmp_path / "m.gguf", look)
    removal = plan(library, "m", files=True)

    def refused(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(LibraryError, match=r"m\.gguf cannot be deleted: Permission denied"):
        carry_out(removal, library)
    assert names(library) == ["m"]


def test_a_repository_that_is_being_downloaded_into_is_left_alone(
    library: Library, account: Account, folder_model: Path
) -> None:
    snapshot = cache_revision(account.cache, "some/Tiny", COMMITS[0], folder_model)
    removal = plan(library, "tiny")
    with (
        repo_lock(CacheLayout(account.cache, "some/Tiny").lock, "some/Tiny"),
        pytest.raises(DownloadFailed, match="is downloading some/Tiny right now"),
    ):
        carry_out(removal, library)
    assert (snapshot / "config.json").exists()
    assert names(library) == ["tiny"]
    carry_out(removal, library)
    assert not snapshot.exists()


@pytest.mark.parametrize("ending", [".mlxr-part", ".0123abcd.incomplete"])
def test_what_is_still_coming_is_kept(
    library: Library, account: Account, folder_model: Path, ending: str
) -> None:
    snapshot = cache_revision(account.cache, "some/Tiny", COMMITS[0], folder_model)
    part = snapshot.parents[1] / "blobs" / ("f" * 64 + ending)
    part.write_bytes(b"half of it")
    removal = plan(library, "tiny")
    before = used(account.cache)
    assert carry_out(removal, library) == removal.freed == before - used(account.cache) > 700_000
    assert part.read_bytes() == b"half of it"
    library.refresh(look)
    assert names(library) == []


@pytest.mark.parametrize("missing", ["model-00001-of-00002.safetensors", "tokenizer.model"])
def test_what_an_interrupted_removal_left_is_removed_by_the_next(
    library: Library, folder_model: Path, tmp_path: Path, missing: str
) -> None:
    mine = shutil.copytree(folder_model, tmp_path / "Mine")
    take_in(library, mine, look)
    (mine / missing).unlink()
    (mine / "adapter.safetensors").write_text("another's")
    removal = plan(library, "mine", files=True)
    assert removal.model.state == "damaged"
    carry_out(removal, library)
    assert [file.name for file in mine.iterdir()] == ["adapter.safetensors"]


def test_a_damaged_file_can_be_removed(library: Library, gguf_bytes: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf_bytes)
    take_in(library, tmp_path / "m.gguf", look)
    (tmp_path / "m.gguf").write_bytes(gguf_bytes[:100])
    assert carry_out(plan(library, "m", files=True), library) == 100
    assert list(tmp_path.glob("*.gguf")) == []


@pytest.mark.parametrize("commit", COMMITS)
def test_what_came_while_a_person_was_asked_is_not_deleted(
    commit: str, library: Library, account: Account, folder_model: Path, tmp_path: Path
) -> None:
    cache_revision(account.cache, "some/Tiny", COMMITS[0], folder_model)
    removal = plan(library, "tiny")
    newer = tmp_path / "newer"
    if commit == COMMITS[0]:
        newer.mkdir()
    else:
        shutil.copytree(folder_model, newer)
    (newer / "another.gguf").write_text("of the same revision, or of a new one that shares the weights")
    snapshot = cache_revision(account.cache, "some/Tiny", commit, newer)
    with pytest.raises(LibraryError, match="has changed meanwhile; nothing was deleted"):
        carry_out(removal, library)
    assert all((snapshot / file.name).is_file() for file in newer.iterdir())
    assert carry_out(plan(library, "tiny"), library) > 0


def pickled(folder: Path) -> Path:
    """What a repository of pickled weights holds, without a hidden file that takes room."""
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04" * 800_000)
    (folder / "again.bin").write_bytes(b"\x80\x04" * 800_000)
    return folder


def leftover(library: Library, repository: str, waiting: tuple[str, ...] = ()) -> Removal:
    """What deleting it would do, after a scan."""
    library.refresh(look)
    (left,) = [one for one in library.left_out() if one.repository == repository]
    return plan_leftover(left, library.models(), waiting)


def test_a_repository_without_a_model_is_told_with_its_size_and_goes_whole(
    library: Library, account: Account, folder_model: Path, tmp_path: Path
) -> None:
    cache_revision(account.cache, "some/Tiny", COMMITS[0], folder_model)
    for commit in COMMITS:
        cache_revision(account.cache, "some/pickled", commit, pickled(tmp_path / commit))
    library.refresh(look)
    (left,) = library.left_out()
    assert left.path == account.cache / "models--some--pickled"
    assert left.size == 1_600_000 + len('{"model_type": "llama"}'), "what two names share is counted once"
    assert "some/pickled holds pickled weights only" in left.problem
    removal = leftover(library, "some/pickled")
    before = used(account.cache)
    assert carry_out(removal, library) == removal.freed == before - used(account.cache)
    assert not left.path.exists()
    assert library.left_out() == [], "it is known at once"
    library.refresh(look)
    assert (names(library), library.left_out()) == (["tiny"], [])


def test_what_is_small_and_no_model_is_not_worth_a_word(
    library: Library, account: Account, tmp_path: Path
) -> None:
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "tokenizer.json").write_text("{}")
    cache_revision(account.cache, "some/words", COMMITS[0], tmp_path / "small")
    library.refresh(look)
    assert library.left_out() == []


def test_beside_a_model_only_what_is_left_out_goes(
    library: Library, account: Account, gguf_bytes: bytes, tmp_path: Path
) -> None:
    (tmp_path / "gguf").mkdir()
    (tmp_path / "gguf" / "m.Q8_0.gguf").write_bytes(gguf_bytes)
    (tmp_path / "gguf" / "m.Q4_0.gguf").write_bytes(gguf_bytes[:-100])
    snapshot = cache_revision(account.cache, "some/m", COMMITS[0], tmp_path / "gguf")
    removal = leftover(library, "some/m")
    assert removal.freed == len(gguf_bytes) - 100
    carry_out(removal, library)
    assert [file.name for file in snapshot.iterdir()] == ["m.Q8_0.gguf"]
    library.refresh(look)
    assert (names(library), library.left_out()) == (["m:q8_0"], [])
    assert library.named("m:q8_0").is_runnable


def test_what_is_left_out_stays_while_it_is_downloaded_or_changes(
    library: Library, account: Account, tmp_path: Path
) -> None:
    snapshot = cache_revision(account.cache, "some/pickled", COMMITS[0], pickled(tmp_path / "p"))
    with pytest.raises(LibraryError, match="mlxr pull some/pickled --cancel"):
        leftover(library, "some/pickled", waiting=("some/pickled",))
    removal = leftover(library, "some/pickled")
    with (
        repo_lock(CacheLayout(account.cache, "some/pickled").lock, "some/pickled"),
        pytest.raises(DownloadFailed, match="another MLXR"),
    ):
        carry_out(removal, library)
    (snapshot / "new.bin").write_text("came meanwhile")
    with pytest.raises(LibraryError, match="changed meanwhile"):
        carry_out(removal, library)
    assert (snapshot / "pytorch_model.bin").exists()


def test_what_is_left_out_elsewhere_is_not_ours_to_delete(
    library: Library, tmp_path: Path, gguf_bytes: bytes
) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf_bytes[:-1])
    library.add_place(tmp_path / "m.gguf")
    library.refresh(look)
    (left,) = library.left_out()
    assert left.repository == ""
    with pytest.raises(LibraryError, match="not in the Hugging Face cache"):
        plan_leftover(left, library.models(), ())


def test_a_repository_that_is_a_link_is_refused(library: Library, account: Account, tmp_path: Path) -> None:
    elsewhere = cache_revision(tmp_path / "disk", "some/pickled", COMMITS[0], pickled(tmp_path / "p"))
    account.cache.mkdir(parents=True)
    (account.cache / "models--some--pickled").symlink_to(elsewhere.parent.parent)
    with pytest.raises(DownloadFailed, match="is a link"):
        leftover(library, "some/pickled")
    assert (elsewhere / "pytorch_model.bin").exists()
