"""Settings of one model: read from words, checked, kept."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from app.library.importing import take_in
from app.library.library import open_library
from app.library.look import look
from app.library.lookup import choose_kv_cache, own_at, settings_at
from app.library.model_settings import ENTRIES, from_json, to_json, with_setting
from app.library.records import NOTHING_SET, LibraryError, ModelSettings, Own
from app.library.schema import LIBRARY
from app.store.schema import migrate
from engine import outline_model
from tests.app.library.conftest import Account


@pytest.mark.parametrize(
    ("name", "words", "value"),
    [
        ("context", "4096", 4096),
        ("kv-cache", "8", "8"),
        ("kv_cache", "full", "full"),
        ("system", "Be brief.\nAlways.", "Be brief.\nAlways."),
        ("draft-model", "tiny", "tiny"),
        ("temperature", "0", 0.0),
        ("top-k", "40", 40),
        ("top-p", "0.95", 0.95),
        ("min-p", "1", 1.0),
        ("repetition-penalty", "1.1", 1.1),
    ],
)
def test_words_become_settings_and_no_words_set_them_back(name: str, words: str, value: object) -> None:
    settings = with_setting(NOTHING_SET, name, words)
    assert getattr(settings, name.replace("-", "_")) == value
    assert from_json(to_json(settings)) == settings
    assert with_setting(settings, name, "") == NOTHING_SET


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("context", "0"),
        ("context", "many"),
        ("kv-cache", "16"),
        ("system", "x" * 100_001),
        ("draft-model", "x" * 1001),
        ("system", "Sei h\udcf6flich"),
        ("temperature", "-1"),
        ("temperature", "nan"),
        ("temperature", "inf"),
        ("top-k", "1.5"),
        ("top-p", "0"),
        ("top-p", "1.01"),
        ("min-p", "2"),
        ("repetition-penalty", "0"),
        ("colour", "red"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, words: str) -> None:
    with pytest.raises(LibraryError, match=f"^{name}"):
        with_setting(NOTHING_SET, name, words)


def test_every_field_has_an_entry_and_what_is_unknown_is_passed_over() -> None:
    assert set(ENTRIES) == set(ModelSettings.__dataclass_fields__)
    assert from_json('{"context": 5, "colour": "red", "top_p": 9}') == ModelSettings(context=5)


def test_they_stay_with_the_model(account: Account, gguf_bytes: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf_bytes)
    own = ModelSettings(context=64, system="Be brief.")
    with open_library(account.paths) as library:
        take_in(library, tmp_path / "m.gguf", look)
        library.save_settings(library.named("m"), own)
    with open_library(account.paths) as library:
        library.refresh(look)
        assert library.settings_at(tmp_path / "m.gguf") == library.named("m").settings == own
        assert library.settings_at(tmp_path / "other.gguf") == NOTHING_SET


def test_a_kv_cache_of_its_own_is_changed_and_nothing_is_set_where_there_is_none(
    account: Account, gguf_bytes: bytes, tmp_path: Path
) -> None:
    place = tmp_path / "m.gguf"
    place.write_bytes(gguf_bytes)
    assert choose_kv_cache(place, account.paths, "8") is None, "there is no library yet"
    with open_library(account.paths) as library:
        take_in(library, place, look)
        library.save_settings(library.named("m"), ModelSettings(context=64))
    assert choose_kv_cache(place, account.paths, "8") is None
    assert settings_at(place, account.paths) == ModelSettings(context=64)
    with open_library(account.paths) as library:
        library.save_settings(library.named("m"), ModelSettings(context=64, kv_cache="full"))
    assert choose_kv_cache(place, account.paths, "8") == ModelSettings(context=64, kv_cache="8")
    assert settings_at(place, account.paths) == ModelSettings(context=64, kv_cache="8")


def test_a_draft_model_is_kept_by_its_name_and_found_by_it(
    account: Account, gguf_bytes: bytes, tmp_path: Path
) -> None:
    large, small = tmp_path / "large.gguf", tmp_path / "small.gguf"
    with open_library(account.paths) as library:
        for place in (large, small):
            place.write_bytes(gguf_bytes)
            take_in(library, place, look)
        with pytest.raises(LibraryError, match="did you mean small"):
            library.save_settings(library.named("large"), ModelSettings(draft_model="smal"))
        assert library.settings_at(large) == NOTHING_SET
        library.save_settings(library.named("large"), ModelSettings(draft_model=str(small)))
        assert library.settings_at(large).draft_model == "small"
        assert own_at(large, account.paths) == Own(ModelSettings(draft_model="small"), small)
        library.rename(library.named("small"), "tiny")
        assert own_at(large, account.paths) == Own(ModelSettings(draft_model="tiny"), small)
        small.unlink()
        gone = own_at(large, account.paths)
        assert gone.draft is None
        assert "its draft model tiny is not there any more" in gone.problem
        library.refresh(look)
        assert own_at(large, account.paths) == gone
        kept = ModelSettings(draft_model="tiny", context=64)  # what is set beside it can be kept
        assert library.save_settings(library.named("large"), kept) == kept
    assert own_at(tmp_path / "other.gguf", account.paths) == Own()


def test_a_library_of_an_earlier_version_reads_anew_which_vocabularies_there_are(
    account: Account, gguf_bytes: bytes, tmp_path: Path
) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf_bytes)
    with open_library(account.paths) as library:
        take_in(library, tmp_path / "m.gguf", look)
        rows = library.named("m").facts.vocab_size
    old = sqlite3.connect(account.paths.library, isolation_level=None)
    old.execute("ALTER TABLE facts DROP COLUMN vocab_size")
    old.execute(f"PRAGMA user_version = {len(LIBRARY.migrations) - 1}")
    old.close()
    with open_library(account.paths) as library:
        assert library.named("m").facts.vocab_size == 0
        library.refresh(look)
        assert (
            library.named("m").facts.vocab_size == rows == outline_model(tmp_path / "m.gguf").vocab_size > 0
        )


def test_a_library_of_the_first_version_is_brought_up_with_what_it_holds(account: Account) -> None:
    account.paths.library.parent.mkdir(parents=True, exist_ok=True)
    old = sqlite3.connect(account.paths.library, isolation_level=None)
    migrate(old, LIBRARY.migrations[:1])
    old.execute(
        "INSERT INTO models(key, name, folded, path, source, origin, revision, added, favourite) "
        "VALUES ('guide', 'guide', 'guide', 'x', 'built in', 'MLXR', '', 1.0, 1)"
    )
    old.close()
    with open_library(account.paths) as again:
        again.refresh(look)
        assert again.named("guide").settings == NOTHING_SET
        assert again.named("guide").favourite
