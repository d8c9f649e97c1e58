"""Every locked package has a wheel for Apple silicon on macOS 14, and on macOS 26, for each Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms
from packaging.utils import canonicalize_name, parse_wheel_filename

Load = Callable[[str], ModuleType]

ROOT = Path(__file__).resolve().parent.parent.parent
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
TARGETS = {"14": (14, 0), "26": (26, 0)}
PYTHONS = ["3.11", "3.12", "3.13"]
RENEW = "run .venv/bin/python packaging/macos/wheels.py"


def mac(python: str) -> dict[str, str]:
    """The values of a Mac that markers ask for."""
    return {
        "sys_platform": "darwin",
        "platform_system": "Darwin",
        "platform_machine": "arm64",
        "os_name": "posix",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "python_version": python,
        "python_full_version": f"{python}.0",
    }


def locked_for(python: str) -> dict[str, tuple[str, set[str]]]:
    """Version and hashes by name of what a Mac installs."""
    found: dict[str, tuple[str, set[str]]] = {}
    for entry in re.split(r"\n(?=[a-z0-9])", LOCK):
        if entry.startswith("#"):
            continue
        wanted = Requirement(entry.split(" \\\n")[0])
        if wanted.marker is None or wanted.marker.evaluate(mac(python)):
            hashes = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
            found[canonicalize_name(wanted.name)] = (str(wanted.specifier).removeprefix("=="), hashes)
    return found


def tags_of(macos: tuple[int, int], python: str) -> set[Tag]:
    version = tuple(map(int, python.split(".")))
    platforms = list(mac_platforms(macos, "arm64"))
    interpreter = "cp" + python.replace(".", "")
    return {*cpython_tags(version, platforms=platforms), *compatible_tags(version, interpreter, platforms)}


def table_of(target: str) -> Path:
    return ROOT / "packaging" / "macos" / f"wheels-macos{target}.txt"


def table(target: str) -> list[tuple[str, str]]:
    """Hash and file name of every wheel."""
    lines = table_of(target).read_text(encoding="utf-8").splitlines()
    return [(digest, name) for digest, _, name in (line.partition("  ") for line in lines)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("python", PYTHONS)
def test_every_locked_package_has_a_wheel(python: str, target: str) -> None:
    supported = tags_of(TARGETS[target], python)
    usable: set[tuple[str, str, str]] = set()
    for digest, file_name in table(target):
        name, version, _, tags = parse_wheel_filename(file_name)
        if tags & supported:
            usable.add((name, str(version), digest))
    locked = locked_for(python)
    assert {"mlx", "mlx-metal", "pyside6-essentials", "sentencepiece"} <= set(locked)
    for name, (version, hashes) in locked.items():
        fits = [digest for of, at, digest in usable if (of, at) == (name, version) and digest in hashes]
        assert fits, f"{name} {version} has no wheel for macOS {target} and Python {python}: {RENEW}"


@pytest.mark.parametrize(("target", "others"), [("14", ["26"]), ("26", [])])
def test_shaders_are_those_of_the_system(target: str, others: list[str]) -> None:
    names = {name for _, name in table(target)}
    for package in ("mlx_metal", "mlx"):
        mine = [name for name in names if name.startswith(f"{package}-") and f"macosx_{target}_0" in name]
        assert mine, RENEW
        for other in others:
            assert not [name for name in names if name.startswith(package) and f"macosx_{other}" in name]


@pytest.mark.parametrize("target", TARGETS)
def test_the_table_holds_nothing_that_is_not_locked(target: str) -> None:
    hashes = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", LOCK))
    assert [name for digest, name in table(target) if digest not in hashes] == [], RENEW


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_the_table_is_what_the_index_says_today(macos_module: Load, target: str) -> None:
    """Needs the network: uv asks the package index."""
    wanted = macos_module("targets").TARGETS[target]
    assert macos_module("wheels").table(wanted) == table_of(target).read_text(encoding="utf-8")
