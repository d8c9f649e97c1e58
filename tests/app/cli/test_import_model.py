"""`mlxr import`: models of the user's are listed where they lie."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.app.cli.conftest import Run
from tests.engine.loading.gguf.writer import write_gguf_model


@pytest.fixture(autouse=True)
def _nothing_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home with nothing of other tools in it."""
    from huggingface_hub import constants

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))


def test_a_folder_is_taken_in_whole_and_nothing_is_copied(
    mlxr_here: Run, tmp_path: Path, random_model: Path
) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(random_model, mine / "a" / "One")
    write_gguf_model(mine / "Two.Q8_0.gguf")
    done = mlxr_here("import", mine)
    assert done.returncode == 0
    one, two = done.stdout.splitlines()
    assert one.startswith("one: ")
    assert one.endswith(f", {mine / 'a' / 'One'}; chat with it: mlxr chat --model one")
    assert two.startswith("two:q8_0: ")
    assert str(mine / "Two.Q8_0.gguf") in two
    home = sum(file.stat().st_size for file in (tmp_path / "mlxr-home").rglob("*") if file.is_file())
    assert home < 500_000


def test_a_file_gets_the_name_it_is_given(
    mlxr_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gguf_model(tmp_path / "x.gguf")
    monkeypatch.chdir(tmp_path)
    done = mlxr_here("import", "x.gguf", "--name", "Mine", "--json")
    (model,) = json.loads(done.stdout)["models"]
    assert (model["name"], model["path"]) == ("Mine", str(tmp_path / "x.gguf"))


def test_one_name_is_not_for_two(mlxr_here: Run, tmp_path: Path) -> None:
    for name in ("x", "y"):
        write_gguf_model(tmp_path / f"{name}.gguf")
    done = mlxr_here("import", tmp_path, "--name", "both")
    assert done.returncode == 2
    assert "holds 2 models (x, y …)" in done.stderr


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: folder / "nothing", "no such file or folder"),
        (lambda folder: folder, "holds no model"),
        (lambda folder: _written(folder / "bad.gguf", b"GGUF"), "the file ends before"),
        (lambda folder: _written(folder / "x.bin", b"pickle"), "is no .gguf file"),
        (lambda folder: _written(folder / "config.json", b"{}").parent, "holds no model"),
    ],
)
def test_what_is_no_model_is_one_line(mlxr_here: Run, tmp_path: Path, make: object, says: str) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    done = mlxr_here("import", make(folder))  # type: ignore[operator]
    assert done.returncode == 1
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def _written(file: Path, content: bytes) -> Path:
    file.write_bytes(content)
    return file


def test_a_name_that_is_taken_is_said_with_the_one_it_has(mlxr_here: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_gguf_model(tmp_path / f"{name}.gguf")
    mlxr_here("import", tmp_path / "one.gguf", "--name", "Best")
    done = mlxr_here("import", tmp_path / "two.gguf", "--name", "BEST")
    assert done.returncode == 1
    assert "another model is called BEST" in done.stderr
    assert done.stderr.endswith("this one is called two\n")
    assert "two" in mlxr_here("models").stdout
