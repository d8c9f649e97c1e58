"""Licences as the window gets them: gathered in a checkout, read in the app."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import VERSION
from app.about.licences import licences
from app.about.parts import LIST, Part, read_parts, write_parts
from app.errors import AppError

PARTS = [Part("MLXR", "0.1.0", "MIT", "Permission…"), Part("Tcl/Tk x", "", "", "Text", "Said of it")]


def test_a_checkout_gathers_them_and_mlxr_comes_first(tmp_path: Path) -> None:
    found = licences(tmp_path / "licences")
    assert (found[0].name, found[0].version, found[0].licence) == ("MLXR", VERSION, "MIT")
    assert found[1].name == "Python"
    names = [part.name.lower() for part in found[2:]]
    assert names == sorted(names, key=lambda name: name.replace("_", "-").replace(".", "-"))
    assert all(part.text.strip() and part.licence for part in found)


def test_the_app_reads_what_was_gathered(tmp_path: Path) -> None:
    write_parts(PARTS, tmp_path)
    assert licences(tmp_path) == PARTS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["MLXR.txt", "Tcl-Tk-x.txt", LIST]


def test_a_text_that_is_gone_is_named_in_one_line(tmp_path: Path) -> None:
    write_parts(PARTS, tmp_path)
    (tmp_path / "MLXR.txt").unlink()
    with pytest.raises(AppError, match=r"MLXR\.txt.*install MLXR anew") as caught:
        read_parts(tmp_path)
    assert "\n" not in str(caught.value)
