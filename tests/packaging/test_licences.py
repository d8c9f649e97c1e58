"""The licences of what is in the app: a part without a text ends the build by its name."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from app.about.distributions import OWN, part_of, runtime_distributions
from app.about.parts import read_parts
from app.errors import AppError

ROOT = Path(__file__).resolve().parent.parent.parent
MODULES = ("licences", "running")


@pytest.fixture
def licences(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The module, writing into a folder of the test."""
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    module = importlib.import_module("licences")
    monkeypatch.setattr(module, "FOLDER", tmp_path / "licences")
    yield module
    for name in MODULES:
        sys.modules.pop(name, None)


def of_package(name: str, file: str) -> tuple[str, str, str]:
    """An entry of a library that a Python package brought."""
    path = metadata.distribution(name).locate_file(file)
    (found,) = Path(str(path)).parent.glob(Path(file).name)
    return (file, str(found), "BINARY")


def system_library(name: str) -> tuple[str, str, str]:
    """An entry of a library that this process has loaded from the system, as PyInstaller would name it."""
    lines = Path("/proc/self/maps").read_text("utf-8").splitlines()
    path = next(line.split()[-1] for line in lines if f"/{name}" in line)
    return (Path(path).name, path, "BINARY")


def test_what_is_frozen_has_its_licences_beside_it(licences: ModuleType, tmp_path: Path) -> None:
    files = licences.licence_entries([of_package("numpy", "numpy/_core/_multiarray_umath*.so")])
    assert files[0][0] == "licences/licences.json"
    assert all(Path(source).is_file() and kind == "DATA" for _, source, kind in files)
    listed = json.loads(Path(files[0][1]).read_text("utf-8"))
    assert {entry["file"] for entry in listed} == {Path(name).name for name, _, _ in files[1:]}
    parts = {part.name: part for part in read_parts(tmp_path / "licences")}
    assert len(files) == len(parts) + 1
    assert {"MLXR", "Python", "numpy", "PySide6_Essentials", "pyinstaller"} <= set(parts)
    assert len(runtime_distributions() - {OWN}) <= len(parts)
    assert all(part.text.strip() for part in parts.values())
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in parts["PySide6_Essentials"].text
    assert "https://download.qt.io/" in parts["PySide6_Essentials"].note
    assert "OpenBLAS" in parts["numpy"].text  # what its wheel carries inside
    assert "PYTHON SOFTWARE FOUNDATION LICENSE" in parts["Python"].text


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="the system's packages are not Debian's")
def test_libraries_of_the_system_are_told_by_their_packages(licences: ModuleType) -> None:
    parts = {part.name: part for part in licences.parts_of([system_library("libstdc++.so.6")])}
    assert "GCC" in parts["libstdc++6"].text
    assert parts["libstdc++6"].version
    assert "GNU GENERAL PUBLIC LICENSE" in parts["Text of GPL-3"].text  # that file only names where it lies


def test_what_nobody_made_ends_the_build_by_its_name(licences: ModuleType, tmp_path: Path) -> None:
    stranger = tmp_path / "libstranger.so.3"
    stranger.write_bytes(b"\x7fELF")
    entries = [
        (stranger.name, str(stranger), "BINARY"),
        ("data.txt", str(stranger), "DATA"),
        ("pytest", pytest.__file__, "PYMODULE"),  # installed, and not needed
        ("json", json.__file__, "PYMODULE"),
    ]
    with pytest.raises(AppError, match=r"made libstranger\.so\.3, pytest;"):
        licences.parts_of(entries)


def test_a_package_without_a_text_ends_the_build_by_its_name(licences: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "bare-1.0.dist-info"
    folder.mkdir()
    fields = ("Metadata-Version: 2.4", "Name: bare", "Version: 1.0", "License-Expression: MIT", "")
    (folder / "METADATA").write_text("\n".join(fields))
    (folder / "RECORD").write_text("bare-1.0.dist-info/METADATA,,\n")
    bare = part_of(metadata.PathDistribution(folder))
    assert (bare.name, bare.version, bare.licence, bare.text) == ("bare", "1.0", "MIT", "")
    with pytest.raises(AppError, match="no text of a licence is known of bare;"):
        licences.complete([bare])


@pytest.mark.parametrize("keg", [True, False])
def test_libraries_of_a_macs_python_are_known(licences: ModuleType, tmp_path: Path, *, keg: bool) -> None:
    folder = tmp_path / ("Cellar/openssl@3/3.6.0" if keg else "Python.framework/Versions/3.12")
    library = folder / "lib" / "libssl.3.dylib"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    (folder / "LICENSE.txt").write_text("Apache License, as the keg has it")
    (part,), unknown = licences.system_parts([library])
    assert not unknown
    assert "Apache License" in part.text
    assert (part.name, part.version) == (("openssl@3", "3.6.0") if keg else ("OpenSSL", ""))


def test_each_text_that_is_named_is_there(licences: ModuleType) -> None:
    for _, _, file in licences.KNOWN_LIBRARIES.values():
        assert (licences.TEXTS / file).read_text("utf-8").strip()
