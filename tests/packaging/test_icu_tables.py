"""ICU's data without what Qt does not read: every language sorts as it did."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import PySide6
import pytest

ROOT = Path(__file__).resolve().parents[2]
QT = Path(PySide6.__file__).parent / "Qt" / "lib"

# Prints how each language that Qt knows sorts words of many of them.
SORTING = """
import json
from functools import cmp_to_key
from PySide6.QtCore import QCollator, QLocale
words = '''zebra ärger arger Öl ol ñu nz ch cz ll lz ålder aa žena zx жук ёлка ель 日本 中国 한국 かな カナ
ไทย a10 a9 é e É E ß ss ı i İ ő ö ø ж ა ب ا α ά β'''.split()
every = (QLocale.Language.AnyLanguage, QLocale.Script.AnyScript, QLocale.Country.AnyCountry)
sorted_words = {}
for locale in QLocale.matchingLocales(*every):
    collator = QCollator(locale)
    collator.setNumericMode(True)
    sorted_words[locale.name()] = sorted(words, key=cmp_to_key(collator.compare))
print(json.dumps(sorted_words))
"""

pytestmark = [
    pytest.mark.skipif(not list(QT.glob("libicudata.so.*")), reason="Qt uses the system's sorting here"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="a library is made"),
]


@pytest.fixture
def icu_tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    yield importlib.import_module("icu_tables")
    sys.modules.pop("icu_tables", None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a copy of Qt's library of ICU's data."""
    (library,) = QT.glob("libicudata.so.*")
    shutil.copy(library, tmp_path)
    return tmp_path


def sorting(folder: Path | None = None) -> dict[str, list[str]]:
    """How each language sorts, with the library in `folder` in the place of Qt's."""
    libraries = [str(path) for path in folder.iterdir()] if folder else []
    environment = {**os.environ, "LD_PRELOAD": " ".join(libraries)}
    done = subprocess.run(
        [sys.executable, "-c", SORTING], env=environment, check=True, capture_output=True, encoding="utf-8"
    )
    return json.loads(done.stdout)


def test_a_sixth_of_it_sorts_every_language_as_before(icu_tables: ModuleType, folder: Path) -> None:
    (library,) = folder.iterdir()
    before = library.stat().st_size
    saved = icu_tables.shorten(folder)
    assert saved == before - library.stat().st_size > before * 4 / 5
    expected = sorting()
    assert len({tuple(words) for words in expected.values()}) > 20
    assert sorting(folder) == expected


def test_without_the_tables_of_sorting_languages_sort_otherwise(
    icu_tables: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above reads the library it means to."""
    monkeypatch.setattr(icu_tables, "KEPT", ("icuver.res",))
    icu_tables.shorten(folder)
    assert sorting(folder) != sorting()


def test_what_is_kept_is_found_under_its_name(icu_tables: ModuleType) -> None:
    items = {"icudt73l/coll/de.res": b"ABC", "icudt73l/root.res": b"0" * 16, "icudt73l/uprops.icu": b"x" * 17}
    header = b"\x20\x00" + icu_tables.MAGIC + b"\0" * 8 + icu_tables.FORMAT + b"\0" * 16
    found = icu_tables.read_items(icu_tables.write_items(header, items))
    assert {name: data.rstrip(b"\0") for name, data in found.items()} == items


@pytest.mark.parametrize("content", [b"", b"no table at all", b"\x20\x00\xda\x27" + b"\0" * 40])
def test_another_format_is_refused(icu_tables: ModuleType, content: bytes) -> None:
    with pytest.raises(icu_tables.IcuError, match="format"):
        icu_tables.read_items(content)


def test_a_library_without_the_table_is_refused(icu_tables: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(icu_tables.IcuError, match="0 files"):
        icu_tables.shorten(tmp_path)
    shutil.copy(next(QT.glob("libicuuc.so.*")), tmp_path / "libicudata.so.1")
    with pytest.raises(icu_tables.IcuError, match="no table"):
        icu_tables.shorten(tmp_path)
