"""The library over its life: models come, change, go and come back; names and marks stay."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from app.library.importing import checked_place, take_in
from app.library.library import Library, open_library
from app.library.look import look
from app.library.records import Facts, LibraryError, ModelSettings
from app.model_location import GUIDE
from tests.app.library.conftest import Account, CountingLook, names
from tests.fakes.models_elsewhere import cache_revision, ollama_model

COMMITS = ["a" * 40, "b" * 40]


def test_an_empty_account_has_the_guide(library: Library) -> None:
    assert library.refresh(look) == ()
    (guide,) = library.models()
    assert (guide.name, guide.path, guide.is_runnable) == ("guide", GUIDE, True)
    assert guide.facts.parameters > 1_000_000


def test_models_of_all_sources_are_found_where_they_lie(
    library: Library, account: Account, folder_model: Path, gguf_bytes: bytes, tmp_path: Path
) -> None:
    cache_revision(account.cache, "some/Tiny-1B", COMMITS[0], folder_model)
    studio = account.home / ".lmstudio" / "models" / "maker" / "Small-GGUF"
    studio.mkdir(parents=True)
    (studio / "Small-Q8_0.gguf").write_bytes(gguf_bytes)
    blob = ollama_model(account.home / ".ollama" / "models", "library/llama3.2:1b", gguf_bytes)
    shutil.copytree(folder_model, tmp_path / "mine" / "Own")
    library.add_place(tmp_path / "mine")
    library.refresh(look)
    found = {model.name: model for model in library.models()}
    assert set(found) == {"guide", "tiny-1b", "small:q8_0", "llama3.2:1b", "own"}
    sources = {name: (model.source, model.origin) for name, model in found.items()}
    assert sources["tiny-1b"] == ("hugging face", "some/Tiny-1B")
    assert sources["small:q8_0"] == ("lm studio", "maker/Small-GGUF")
    assert sources["llama3.2:1b"] == ("ollama", "llama3.2:1b")
    assert sources["own"] == ("folder", str(tmp_path / "mine"))
    assert all(model.is_runnable for model in found.values())
    assert found["tiny-1b"].revision == COMMITS[0]
    assert os.path.realpath(found["llama3.2:1b"].path) == str(blob)
    assert found["small:q8_0"].facts.size == len(gguf_bytes)
    assert found["tiny-1b"].facts.fingerprint == found["own"].facts.fingerprint


def test_a_second_scan_reads_no_headers(library: Library, account: Account, folder_model: Path) -> None:
    cache_revision(account.cache, "some/Tiny", COMMITS[0], folder_model)
    first, second, third = CountingLook(), CountingLook(), CountingLook()
    library.refresh(first)
    library.refresh(second)
    library.refresh(third, again=True)
    assert len(first.at) == len(third.at) == 2  # it and the guide
    assert second.at == []


def test_two_hundred_models_are_rescanned_at_once(
    library: Library, account: Account, gguf_bytes: bytes
) -> None:
    studio = account.home / ".lmstudio" / "models"
    original = studio / "maker" / "m0" / "m0.gguf"
    original.parent.mkdir(parents=True)
    original.write_bytes(gguf_bytes)
    for number in range(1, 200):
        folder = studio / "maker" / f"m{number}"
        folder.mkdir()
        (folder / f"m{number}.gguf").hardlink_to(original)
    library.refresh(look)
    assert len(names(library)) == 200
    again = CountingLook()
    began = time.thread_time()
    library.refresh(again)
    assert len(library.models()) == 201
    assert time.thread_time() - began < 1.0
    assert again.at == []


def test_a_change_is_noticed_and_the_name_stays(library: Library, tmp_path: Path, folder_model: Path) -> None:
    mine = shutil.copytree(folder_model, tmp_path / "Mine")
    library.add_place(mine)
    library.refresh(look)
    library.rename(library.named("mine"), "Best")
    before = library.named("best").facts
    config = mine / "config.json"
    changed = json.loads(config.read_text()) | {"max_position_embeddings": 512}
    config.write_text(json.dumps(changed))
    library.refresh(look)
    after = library.named("best").facts
    assert (before.context_length, after.context_length) == (1024, 512)


def test_what_went_away_is_gone_and_comes_back_as_it_was(
    library: Library, account: Account, gguf_bytes: bytes
) -> None:
    drive = account.home / ".lmstudio" / "models"
    (drive / "maker" / "Tiny").mkdir(parents=True)
    (drive / "maker" / "Tiny" / "tiny.gguf").write_bytes(gguf_bytes)
    library.refresh(look)
    library.rename(library.named("tiny"), "travelling")
    library.set_favourite(library.named("travelling"), True)
    drive.rename(account.home / "unplugged")
    library.refresh(look)
    gone = library.named("travelling")
    assert (gone.state, gone.is_runnable, gone.facts.size) == ("gone", False, len(gguf_bytes))
    (account.home / "unplugged").rename(drive)
    look_again = CountingLook()
    library.refresh(look_again)
    back = library.named("travelling")
    assert (back.state, back.favourite) == ("here", True)
    assert look_again.at == []


def test_a_place_that_is_closed_for_a_while_loses_nothing(
    library: Library, account: Account, gguf_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = account.home / ".lmstudio" / "models" / "maker" / "Tiny"
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(gguf_bytes)
    library.refresh(look)
    scandir = os.scandir

    def closed(path: str | Path) -> object:
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    notes = library.refresh(look)
    assert notes == (f"{folder} cannot be looked into; check its permissions",)
    assert library.named("tiny").state == "here"


@pytest.mark.parametrize("cut", [0, 1, 4, 100, 4000, -4000, -1])
def test_no_part_of_a_file_is_a_model(library: Library, tmp_path: Path, gguf_bytes: bytes, cut: int) -> None:
    (tmp_path / "part.gguf").write_bytes(gguf_bytes[:cut])
    library.add_place(tmp_path / "part.gguf")
    library.refresh(look)
    assert names(library) == []
    assert [one.path.name for one in library.left_out()] == ["part.gguf"]
    (tmp_path / "part.gguf").write_bytes(gguf_bytes)
    library.refresh(look)
    assert names(library) == ["part"]
    assert library.left_out() == []


@pytest.mark.parametrize("missing", ["model-00002-of-00002.safetensors", "tokenizer.model"])
def test_a_repository_that_is_still_coming_is_no_model(
    library: Library, account: Account, folder_model: Path, missing: str
) -> None:
    snapshot = cache_revision(account.cache, "some/Tiny", COMMITS[0], folder_model)
    (snapshot / missing).unlink()
    library.refresh(look)
    assert names(library) == []
    assert [one.path for one in library.left_out()] == [snapshot]


def test_a_file_that_is_damaged_later_is_said_to_be(
    library: Library, tmp_path: Path, gguf_bytes: bytes
) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf_bytes)
    library.add_place(tmp_path / "m.gguf")
    library.refresh(look)
    (tmp_path / "m.gguf").write_bytes(gguf_bytes[:-10])
    library.refresh(look)
    model = library.named("m")
    assert (model.state, model.is_runnable) == ("damaged", False)
    assert "cut short" in model.facts.problem


def test_a_newer_revision_takes_over_the_name_and_the_older_one_gets_its_own(
    library: Library, account: Account, folder_model: Path, tmp_path: Path
) -> None:
    cache_revision(account.cache, "some/Tiny", COMMITS[0], folder_model)
    library.refresh(look)
    library.set_favourite(library.named("tiny"), True)
    newer = shutil.copytree(folder_model, tmp_path / "newer")
    (newer / "README.md").write_text("---\nlicense: mit\n---\n")
    cache_revision(account.cache, "some/Tiny", COMMITS[1], newer)
    library.refresh(look)
    assert sorted(names(library)) == ["tiny", "tiny@aaaaaaa"]
    main, older = library.named("tiny"), library.named("tiny@aaaaaaa")
    assert (main.revision, main.favourite, main.facts.licence) == (COMMITS[1], True, "mit")
    assert (older.revision, older.favourite) == (COMMITS[0], False)


def test_an_update_on_its_way_does_not_hide_the_revision_that_is_whole(
    library: Library, account: Account, folder_model: Path
) -> None:
    cache_revision(account.cache, "some/Tiny", COMMITS[0], folder_model)
    library.refresh(look)
    newer = cache_revision(account.cache, "some/Tiny", COMMITS[1], folder_model)
    (newer / "model-00002-of-00002.safetensors").unlink()
    library.refresh(look)
    assert names(library) == ["tiny"]
    assert library.named("tiny").revision == COMMITS[0]


def test_two_models_of_one_title_have_two_names(
    library: Library, account: Account, folder_model: Path
) -> None:
    cache_revision(account.cache, "one/Tiny", COMMITS[0], folder_model)
    cache_revision(account.cache, "other/tiny", COMMITS[1], folder_model)
    library.refresh(look)
    assert names(library) == ["tiny", "tiny-other"]


def test_names_are_one_whatever_the_case(library: Library, account: Account, folder_model: Path) -> None:
    cache_revision(account.cache, "one/Tiny", COMMITS[0], folder_model)
    cache_revision(account.cache, "one/Other", COMMITS[1], folder_model)
    library.refresh(look)
    with pytest.raises(LibraryError, match="another model is called TINY"):
        library.rename(library.named("other"), "TINY")
    library.rename(library.named("tiny"), "TINY")  # its own name in another case is no clash
    assert library.named("Tiny").name == "TINY"
    with pytest.raises(LibraryError, match="did you mean other"):
        library.named("othr")


def test_a_forgotten_model_stays_away_until_it_is_named_again(
    library: Library, tmp_path: Path, gguf_bytes: bytes
) -> None:
    (tmp_path / "many").mkdir()
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / "many" / name).write_bytes(gguf_bytes)
    library.add_place(tmp_path / "many")
    library.refresh(look)
    library.forget(library.named("a"))
    library.refresh(look)
    assert names(library) == ["b"]
    library.add_place(tmp_path / "many")
    library.refresh(look)
    assert names(library) == ["a", "b"]


def test_what_was_opened_is_noted_also_before_it_was_found(
    library: Library, account: Account, gguf_bytes: bytes, folder_model: Path, tmp_path: Path
) -> None:
    snapshot = cache_revision(account.cache, "some/Tiny", COMMITS[0], folder_model)
    began = time.time()
    library.note_use(snapshot)
    library.refresh(look)
    used = library.named("tiny").last_used
    assert used is not None
    assert began <= used <= time.time()
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "m.gguf").write_bytes(gguf_bytes)
    library.add_place(tmp_path / "one")
    library.refresh(look)
    assert library.named("m").last_used is None
    library.note_use(tmp_path / "one")  # the only model in that folder
    assert library.named("m").last_used is not None


def test_a_folder_with_a_gguf_file_beside_its_weights_is_the_model_that_was_opened(
    library: Library, gguf_bytes: bytes, folder_model: Path, tmp_path: Path
) -> None:
    both = shutil.copytree(folder_model, tmp_path / "both")
    (both / "beside.gguf").write_bytes(gguf_bytes)
    library.add_place(both)
    library.refresh(look)
    library.note_use(both)
    library.save_settings(library.named("both"), ModelSettings(context=77))
    assert library.named("both").last_used is not None
    assert library.named("beside").last_used is None
    assert library.settings_at(both).context == 77


def test_the_registry_outlives_its_process(account: Account, gguf_bytes: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf_bytes)
    with open_library(account.paths) as library:
        library.add_place(tmp_path / "m.gguf")
        library.refresh(look)
        library.rename(library.named("m"), "kept")
    again = CountingLook()
    with open_library(account.paths) as library:
        library.refresh(again)
        assert names(library) == ["kept"]
    assert again.at == []


def test_a_look_that_is_interrupted_is_taken_up_where_it_ended(
    account: Account, gguf_bytes: bytes, tmp_path: Path
) -> None:
    for name in "abc":
        (tmp_path / f"{name}.gguf").write_bytes(gguf_bytes)
    looked = CountingLook()

    def until_interrupted(path: Path) -> object:
        if path.name == "c.gguf":
            raise KeyboardInterrupt
        return looked(path)

    with open_library(account.paths) as library:
        library.add_place(tmp_path)
        with pytest.raises(KeyboardInterrupt):
            library.refresh(until_interrupted)  # pyright: ignore[reportArgumentType]
        library.refresh(looked)
        assert names(library) == ["a", "b", "c"]
    assert [path.name for path in looked.at] == ["model", "a.gguf", "b.gguf", "c.gguf"]


def test_a_damaged_registry_is_put_aside_and_the_models_are_found_anew(
    account: Account, folder_model: Path
) -> None:
    cache_revision(account.cache, "some/Tiny", COMMITS[0], folder_model)
    account.paths.home.mkdir()
    account.paths.library.write_bytes(b"this is no database at all" * 300)
    said: list[str] = []
    with open_library(account.paths, said.append) as library:
        library.refresh(look)
        assert names(library) == ["tiny"]
    assert len(said) == 1
    assert "was damaged" in said[0]


def test_another_process_may_write_at_the_same_time(
    account: Account, library: Library, tmp_path: Path
) -> None:
    library.refresh(look)
    other = sqlite3.connect(account.paths.library, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO places VALUES (?, 1)", (str(tmp_path / "theirs"),))
    other.execute("COMMIT")
    other.close()
    assert library.places() == [tmp_path / "theirs"]


def test_names_that_are_no_text_harm_nothing(
    account: Account, library: Library, gguf_bytes: bytes, tmp_path: Path
) -> None:
    bad = os.fsdecode(b"bad-\xff")
    for folder in (tmp_path / "mine", account.cache / f"models--{bad}", tmp_path / "mine" / bad):
        folder.mkdir(parents=True)
        (folder / f"{bad}.gguf").write_bytes(gguf_bytes)
    (tmp_path / "mine" / "good\nname.gguf").write_bytes(gguf_bytes)
    take_in(library, tmp_path / "mine", look)
    assert names(library) == ["good-name"]
    with pytest.raises(LibraryError, match="no UTF-8 text"):
        checked_place(str(tmp_path / "mine" / bad))


def test_a_library_that_another_process_holds_is_one_line(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.store.database.BUSY_SECONDS", 0.05)
    database = account.paths.library

    def refresh_while_held() -> None:
        with open_library(account.paths) as library, closing(sqlite3.connect(database)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            library.refresh(look)

    def open_while_held() -> None:
        with closing(sqlite3.connect(database)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            with open_library(account.paths, must_save=True):
                raise AssertionError("it was opened")

    with pytest.raises(LibraryError, match=r"cannot be used now \(database is locked\)"):
        refresh_while_held()
    with pytest.raises(LibraryError, match=r"cannot be saved .*locked"):
        open_while_held()
    with open_library(account.paths) as library:
        library.refresh(look)
        assert library.named("guide").is_runnable


def test_the_guide_keeps_its_name(library: Library) -> None:
    library.refresh(look)
    with pytest.raises(LibraryError, match="keeps its name"):
        library.rename(library.named("guide"), "mine")


def test_a_repository_that_was_typed_is_answered_with_its_models_names(
    library: Library, account: Account, folder_model: Path
) -> None:
    cache_revision(account.cache, "some/Tiny-1B", COMMITS[0], folder_model)
    library.refresh(look)
    library.rename(library.named("tiny-1b"), "mine")
    for typed in ("some/tiny-1b", "Some/Tiny-1B:q4"):
        assert "did you mean mine?" in library.missing(typed)


def test_a_closed_folder_is_not_called_empty(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(path: str | Path) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(LibraryError, match="cannot be looked into; check its permissions"):
        take_in(library, tmp_path, look)
    assert library.places() == []


def test_an_import_that_is_interrupted_leaves_no_place_behind(
    library: Library, tmp_path: Path, gguf_bytes: bytes
) -> None:
    library.refresh(look)
    (tmp_path / "m.gguf").write_bytes(gguf_bytes)

    def interrupted(path: Path) -> Facts:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take_in(library, tmp_path, interrupted)
    assert library.places() == []
    library.refresh(look)
    assert names(library) == []
    take_in(library, tmp_path, look)
    (tmp_path / "m.gguf").write_bytes(gguf_bytes + b"\0")
    with pytest.raises(KeyboardInterrupt):
        take_in(library, tmp_path, interrupted)
    assert library.places() == [tmp_path], "it was there before"
