"""requirements.lock: complete, hashed, and free of addresses."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent.parent
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKED: list[tuple[str, str, str]] = [
    (requirement.name, str(requirement.specifier).removeprefix("=="), entry)
    for entry in re.split(r"\n(?=[a-z0-9])", LOCK)
    if not entry.startswith("#")
    for requirement in [Requirement(re.split(r" \\\n", entry)[0])]
]
DECLARED = [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]]


@pytest.mark.parametrize("declared", DECLARED)
def test_every_declared_dependency_is_locked_within_its_range(declared: str) -> None:
    wanted = Requirement(declared)
    versions = [version for name, version, _ in LOCKED if name == canonicalize_name(wanted.name)]
    assert versions, f"{wanted.name} is not in requirements.lock; run make lock"
    for version in versions:
        assert Version(version) in wanted.specifier


def test_every_locked_package_has_hashes() -> None:
    assert [name for name, _, entry in LOCKED if "--hash=sha256:" not in entry] == []


def test_both_systems_have_their_mlx_backend() -> None:
    names = {name for name, _, _ in LOCKED}
    assert {"mlx-cpu", "mlx-metal"} <= names


def test_it_names_no_address() -> None:
    assert not re.search(r"https?://|index-url|find-links", LOCK)
