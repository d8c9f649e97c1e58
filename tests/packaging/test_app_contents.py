"""What goes into the frozen app: decided from the declared dependencies and the code."""

from __future__ import annotations

import ast
import ctypes
import importlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent.parent
MODULES = (
    "app_contents",
    "desktop_files",
    "freeze",
    "frozen_main",
    "icu_tables",
    "linux_libraries",
    "running",
    "size_report",
    "stripping",
)
PLUGINS = "PySide6/Qt/plugins"


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules that build the app, as they import each other."""
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    yield {name: importlib.import_module(name) for name in MODULES}
    for name in MODULES:
        sys.modules.pop(name, None)


def is_program(path: Path) -> bool:
    """Whether `python -m` of this module does something."""
    tests = (node.test for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.If))
    return any(ast.unparse(test) == "__name__ == '__main__'" for test in tests)


def test_every_module_that_is_a_program_can_be_run_by_the_app(build: dict[str, ModuleType]) -> None:
    paths = [path for folder in ("app", "engine", "metal") for path in (ROOT / folder).rglob("*.py")]
    programs = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths if is_program(path)}
    by_hand = {"metal.roofline"}  # for whoever works on kernels; MLXR never starts it
    assert {name.removesuffix(".__main__") for name in programs} - by_hand == build["frozen_main"].MODULES


def test_what_mlxr_declares_is_in_and_what_only_developers_need_is_out(build: dict[str, ModuleType]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    declared = [Requirement(line) for line in project["project"]["dependencies"]]
    here = {canonicalize_name(one.name) for one in declared if one.marker is None or one.marker.evaluate()}
    assert here <= build["app_contents"].runtime_distributions()
    left_out = set(build["app_contents"].left_out())
    assert {"mlx_lm", "transformers", "pytest", "ruff", "PyInstaller", "PySide6.QtQml"} <= left_out
    assert not left_out & {"mlx", "numpy", "keyring", "app", "engine", "metal", "PySide6", "PySide6.QtSvg"}


@pytest.mark.parametrize(("about", "expected"), [("GNU readline interface.", ["readline"]), ("libedit", [])])
def test_a_library_under_the_gpl_stays_out(
    build: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch, about: str, expected: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "readline", ModuleType("readline", about))
    assert build["app_contents"].gnu_readline() == expected


def test_files_that_are_read_beside_the_code_are_in(build: dict[str, ModuleType]) -> None:
    inside = {f"{folder}/{Path(path).name}" for path, folder in build["app_contents"].data_files()}
    kernels = {str(path.relative_to(ROOT)) for path in (ROOT / "metal").rglob("*.metal")}
    assert kernels
    assert kernels <= inside
    assert {"resources/guide/model/model.safetensors", "metal/emulator/emulator.cpp"} <= inside
    assert not {name for name in inside if name.endswith((".py", ".pyc", ".jsonl"))}


def test_a_library_goes_with_the_last_plugin_that_needs_it(build: dict[str, ModuleType]) -> None:
    linked = {"/xcb": ["libX11.so.6"], "/gtk": ["libgtk.so.3", "libX11.so.6"], "/libgtk": ["libcairo.so.2"]}
    entries = [
        (f"{PLUGINS}/platforms/libqxcb.so", "/xcb", "BINARY"),
        (f"{PLUGINS}/platformthemes/libqgtk3.so", "/gtk", "BINARY"),
        ("libX11.so.6", "/libX11", "BINARY"),
        ("libgtk.so.3", "/libgtk", "BINARY"),
        ("libcairo.so.2", "/libcairo", "BINARY"),
        ("libopenblas.so.0", "/libopenblas", "BINARY"),
        ("PySide6/Qt/lib/libQt6Pdf.so.6", "/libQt6Pdf", "BINARY"),
        ("libQt6Pdf.so.6", "PySide6/Qt/lib/libQt6Pdf.so.6", "SYMLINK"),
        ("PySide6/Qt/translations/qtbase_de.qm", "/de", "DATA"),
        ("base_library.zip", "/base", "DATA"),
    ]

    def libraries_of(path: str) -> list[tuple[str, None]]:
        return [(name, None) for name in linked.get(path, ())]

    kept = build["app_contents"].wanted(entries, libraries_of)
    names = ["libqxcb.so", "libX11.so.6", "libopenblas.so.0", "base_library.zip"]
    assert [Path(name).name for name, _, _ in kept] == names


def test_nothing_runs_before_the_program_in_vain(build: dict[str, ModuleType]) -> None:
    scripts = [
        ("pyi_rth_pyside6", "/a", "PYSOURCE"),
        ("pyi_rth_new", "/b", "PYSOURCE"),
        ("main", "/c", "PYSOURCE"),
    ]
    assert [name for name, _, _ in build["app_contents"].started(scripts)] == ["pyi_rth_new", "main"]


def test_mlxs_blas_and_lapack_are_openblas(build: dict[str, ModuleType]) -> None:
    libs = "mlx_cpu.libs"
    entries = [
        ("libopenblas.so.0", "/libopenblas", "BINARY"),
        (f"{libs}/libblas-bd8a.so.3", "/libblas", "BINARY"),
        (f"{libs}/liblapack-86b2.so.3", "/liblapack", "BINARY"),
        (f"{libs}/libgfortran-f737.so.5", "/libgfortran", "BINARY"),
        ("numpy.libs/libgfortran-0400.so.5", "/numpys", "BINARY"),
        ("liblapack-86b2.so.3", f"{libs}/liblapack-86b2.so.3", "SYMLINK"),
        ("libgfortran-f737.so.5", f"{libs}/libgfortran-f737.so.5", "SYMLINK"),
    ]
    links = [
        (f"{libs}/libblas-bd8a.so.3", "../libopenblas.so.0", "SYMLINK"),
        (f"{libs}/liblapack-86b2.so.3", "../libopenblas.so.0", "SYMLINK"),
    ]
    found = build["app_contents"].with_one_blas(entries)
    assert found == [entries[0], *links, entries[4], ("liblapack-86b2.so.3", "libopenblas.so.0", "SYMLINK")]

    def libraries_of(_: str) -> tuple[()]:
        return ()

    assert build["app_contents"].wanted(found, libraries_of) == found


@pytest.mark.skipif(shutil.which("g++") is None, reason="a library is made")
def test_symbols_go_and_the_library_still_works(build: dict[str, ModuleType], tmp_path: Path) -> None:
    text, lib = tmp_path / "answer.cpp", tmp_path / "lib"
    text.write_text('extern "C" int answer() { return 42; }\n', encoding="utf-8")
    made = {name: lib / name / "_answer.so" for name in ("own", "PySide6", "numpy.libs", "numpy")}
    for name, path in made.items():
        path.parent.mkdir(parents=True)
        flags = ["-Wl,-rpath,$ORIGIN/../numpy.libs"] if name == "numpy" else []
        subprocess.run(["g++", "-g", "-shared", "-fPIC", *flags, "-o", path, text], check=True)
    (lib / "own" / "_link.so").symlink_to("_answer.so")
    before = {name: path.read_bytes() for name, path in made.items()}
    saved = build["stripping"].strip_symbols(lib)
    assert saved == len(before["own"]) - made["own"].stat().st_size > 0
    assert ctypes.CDLL(str(made["own"])).answer() == 42
    assert b".symtab" not in made["own"].read_bytes()
    assert [name for name, path in made.items() if path.read_bytes() != before[name]] == ["own"]


def test_sizes_add_up_and_links_count_nothing(build: dict[str, ModuleType], tmp_path: Path) -> None:
    for name, size in {
        "mlxr": 5,
        "lib/numpy/core.so": 10,
        "lib/numpy.libs/blas.so": 20,
        "lib/libz.so.1": 7,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"\0" * size)
    (tmp_path / "lib" / "libz.so").symlink_to("libz.so.1")
    found = build["size_report"].sizes(tmp_path)
    assert found == {"numpy": 30, "libraries of the system": 7, "program and Python modules": 5}


def test_an_app_that_grew_too_large_is_no_app(build: dict[str, ModuleType], tmp_path: Path) -> None:
    app = tmp_path / "MLXR"
    app.mkdir()
    library = app / "libnew.so"
    library.touch()
    os.truncate(library, 1_000_000 * build["size_report"].MOST["folder"])
    build["freeze"].report(app)
    os.truncate(library, library.stat().st_size + 1)
    with pytest.raises(build["freeze"].FreezeError, match=r"folder takes 300\.0 MB, more than 300"):
        build["freeze"].report(app)
    assert json.loads((tmp_path / "sizes.json").read_text("utf-8"))["total"] == library.stat().st_size
