"""The set-up's modules, importable as they import each other: from the folder `packaging` itself."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.packaging.frozen_app import confined as confined
from tests.packaging.frozen_app import frozen as frozen
from tests.packaging.frozen_app import frozen_build as frozen_build
from tests.packaging.frozen_app import frozen_folder as frozen_folder
from tests.packaging.frozen_app import unfrozen as unfrozen

ROOT = Path(__file__).resolve().parent.parent.parent
MODULES = ("linux_libraries", "pythons", "running", "setup", "uv_tool")


def forget_modules() -> None:
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what set-up reads, with no environment made yet."""
    copy = tmp_path / "checkout"
    shutil.copytree(ROOT / "packaging", copy / "packaging", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "requirements.lock", "Makefile"):
        shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture
def setup_modules(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The set-up's modules, loaded from the copy."""
    monkeypatch.syspath_prepend(str(checkout / "packaging"))
    forget_modules()
    yield {name: importlib.import_module(name) for name in MODULES}
    forget_modules()


@pytest.fixture
def macos_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Loads a module of packaging/macos by its name."""
    before = set(sys.modules)
    folder = ROOT / "packaging" / "macos"
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module
    for path in folder.glob("*.py"):
        if path.stem not in before:
            sys.modules.pop(path.stem, None)
