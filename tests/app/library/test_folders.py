"""LM Studio's folders, and folders that the user named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.library.folders import find_in_folder, lm_studio_folders
from app.library.importing import checked_place, take_in
from app.library.library import Library
from app.library.look import look
from app.library.records import LibraryError
from tests.app.library.conftest import Account, names
from tests.fakes.models_elsewhere import cache_revision


def test_lm_studios_folders_are_found_as_it_says(tmp_path: Path) -> None:
    for folder in (".lmstudio/models", ".cache/lm-studio/models", "moved/models", "chosen"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".lmstudio-home-pointer").write_text(f"{tmp_path / 'moved'}\n")
    (tmp_path / "moved" / "settings.json").write_text(
        json.dumps({"downloadsFolder": str(tmp_path / "chosen")})
    )
    found = [folder.relative_to(tmp_path).as_posix() for folder in lm_studio_folders(tmp_path)]
    assert found == ["chosen", "moved/models", ".lmstudio/models", ".cache/lm-studio/models"]


@pytest.mark.parametrize(
    "settings", ["", "{", "[]", '{"downloadsFolder": 3}', '{"downloadsFolder": ""}', "[" * 99999]
)
def test_settings_of_lm_studio_that_say_nothing_are_passed_over(tmp_path: Path, settings: str) -> None:
    (tmp_path / ".lmstudio" / "models").mkdir(parents=True)
    (tmp_path / ".lmstudio" / "settings.json").write_text(settings)
    (tmp_path / ".lmstudio-home-pointer").write_text("")
    assert lm_studio_folders(tmp_path) == [tmp_path / ".lmstudio" / "models"]


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    found = find_in_folder(tmp_path / "gone", "folder")
    assert (found.candidates, found.unread) == ((), ())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the path is empty"),
        ("/nowhere/at/all", "no such file or folder"),
        (__file__, "is no .gguf file"),
        ("~no-such-user/x", "no model can be there"),
        ("x" * 5000, "no model can be there"),
        ("a\x00b", "no such file or folder"),
    ],
)
def test_what_cannot_be_imported_is_one_line_with_advice(text: str, says: str) -> None:
    with pytest.raises(LibraryError, match=says):
        checked_place(text)


def test_a_place_without_a_model_is_not_kept(library: Library, tmp_path: Path, gguf_bytes: bytes) -> None:
    with pytest.raises(LibraryError, match="holds no model"):
        take_in(library, tmp_path, look)
    (tmp_path / "cut.gguf").write_bytes(gguf_bytes[:-1])
    with pytest.raises(LibraryError, match="cut short"):
        take_in(library, tmp_path / "cut.gguf", look)
    assert library.places() == []


def test_a_place_that_is_known_from_elsewhere_is_not_kept_either(
    library: Library, account: Account, folder_model: Path
) -> None:
    snapshot = cache_revision(account.cache, "some/Tiny", "a" * 40, folder_model)
    imported = take_in(library, snapshot, look)
    assert [(model.name, model.source) for model in imported.models] == [("tiny", "hugging face")]
    assert library.places() == []


def test_new_models_in_a_named_folder_are_found_later(
    library: Library, tmp_path: Path, gguf_bytes: bytes
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "Model.gguf").write_bytes(gguf_bytes)
    take_in(library, mine, look)
    (mine / "model.GGUF").write_bytes(gguf_bytes)  # differs only in case
    library.refresh(look)
    assert names(library) == ["mine", "mine-2"]


def test_a_link_in_a_circle_ends(library: Library, tmp_path: Path, gguf_bytes: bytes) -> None:
    mine = tmp_path / "mine"
    (mine / "a").mkdir(parents=True)
    (mine / "a" / "m.gguf").write_bytes(gguf_bytes)
    (mine / "a" / "up").symlink_to(mine)
    assert [model.name for model in take_in(library, mine, look).models] == ["m"]


def test_a_cache_that_was_imported_names_models_after_their_repositories(
    library: Library, folder_model: Path, gguf_bytes: bytes, tmp_path: Path
) -> None:
    other, files = tmp_path / "other disk" / "hub", tmp_path / "files"
    (files / "4bit").mkdir(parents=True)
    (files / "Some-Q8_0.gguf").write_bytes(gguf_bytes)
    shutil.copytree(folder_model, files / "4bit", dirs_exist_ok=True)
    cache_revision(other, "me/Tiny-1B", "a" * 40, folder_model)
    cache_revision(other, "you/Some-GGUF", "b" * 40, files)
    taken = take_in(library, other, look)
    assert sorted(model.name for model in taken.models) == ["some:4bit", "some:q8_0", "tiny-1b"]
    assert {model.source for model in taken.models} == {"folder"}
    inner = next(other.glob("models--me--Tiny-1B/snapshots/*"))
    library.forget_place(other)
    assert [model.name for model in take_in(library, inner, look).models] == ["tiny-1b"]
