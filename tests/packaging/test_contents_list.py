"""The list of files by which a damaged app is known, as it is made where the app is frozen."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from app.bad_start import CONTENTS, contents_problem

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of the folder `packaging` that are needed."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    yield {name: importlib.import_module(name) for name in ("contents_list", "app_contents")}
    for path in (ROOT / "packaging").glob("*.py"):
        if path.stem not in before:
            sys.modules.pop(path.stem, None)


def test_each_file_of_ours_is_listed_and_missed_when_it_is_gone(
    build: dict[str, ModuleType], tmp_path: Path
) -> None:
    files: list[tuple[str, str]] = build["app_contents"].data_files()
    shader = tmp_path / "mlx.metallib"
    shader.write_bytes(b"MTLB")
    entries = [
        *((f"{folder}/{Path(path).name}", path, "DATA") for path, folder in files),
        ("mlx/lib/mlx.metallib", str(shader), "DATA"),
        ("numpy/METADATA", __file__, "DATA"),
        ("libpython.so", __file__, "BINARY"),
    ]
    name, path, kind = build["contents_list"].contents_entry(entries, tmp_path / "freezing")
    assert (name, kind) == (CONTENTS, "DATA")
    listed = json.loads(Path(path).read_text("utf-8"))
    assert set(listed) == {entry[0] for entry in entries[:-2] if not entry[0].startswith("./")}
    assert "resources/guide/model/config.json" in listed
    assert any(one.endswith(".metal") for one in listed)

    app = tmp_path / "app"
    for inside, source, _ in [*entries, (name, path, kind)]:
        (app / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, app / inside)
    assert contents_problem(app) is None
    for inside in listed:
        (app / inside).rename(app / "away")
        problem = contents_problem(app)
        assert problem is not None
        assert inside in problem.words
        (app / "away").rename(app / inside)
    assert contents_problem(app) is None
