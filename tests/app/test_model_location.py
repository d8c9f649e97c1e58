"""From what a person types to a model's folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app import model_location
from app.errors import ModelNotFound
from app.model_location import locate, model_title, remembered

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A guide that is there."""
    folder = tmp_path / "the-guide"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    monkeypatch.setattr(model_location, "GUIDE", folder)
    return folder


def test_a_folder_is_itself(tmp_path: Path) -> None:
    assert locate(str(tmp_path)) == tmp_path


def test_a_gguf_file_is_itself_and_is_remembered_by_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blob").write_bytes(b"GGUF")
    file = tmp_path / "Model-Q4_K_M-00001-of-00002.GGUF"
    file.symlink_to("blob")  # as the Hugging Face cache stores files
    assert locate(str(file)) == file
    monkeypatch.chdir(tmp_path)
    assert remembered(file.name) == str(file)
    assert model_title(file) == "Model-Q4_K_M"


def test_a_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "models").mkdir()
    assert locate("~/models") == tmp_path / "models"


def test_without_a_word_the_last_one_is_used_then_the_guide(tmp_path: Path, guide: Path) -> None:
    assert locate(None, str(tmp_path)) == tmp_path
    assert locate(None, None) == guide
    assert locate("guide", str(tmp_path)) == guide


def test_a_last_model_that_is_gone_is_mentioned(tmp_path: Path, guide: Path) -> None:
    said: list[str] = []
    assert locate(None, str(tmp_path / "gone"), said.append) == guide
    assert len(said) == 1
    assert "gone" in said[0]
    assert "guide" in said[0]


def test_a_folder_called_guide_comes_before_the_guide(
    tmp_path: Path, guide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "guide").mkdir()
    monkeypatch.chdir(tmp_path)
    assert locate("guide").resolve() == tmp_path / "guide"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("", "empty"),
        ("/nowhere/model", "no such folder"),
        ("nowhere", "no such folder"),
        ("weights.gguf", "no such file"),
        (__file__, "is no .gguf file"),
        ("a/b/c", "no such folder"),
        ("bad name/model", "no such folder"),
        ("nobody/never-downloaded", "mlxr pull nobody/never-downloaded"),
        ("a" * 5000, "File name too long"),
        ("~no-such-user/model", "home directory"),
        ("nobody/a..b", "neither a folder nor"),
    ],
)
def test_what_is_not_there_is_one_line_with_advice(spec: str, says: str) -> None:
    with pytest.raises(ModelNotFound) as raised:
        locate(spec)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_guide_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_location, "GUIDE", tmp_path / "no-guide")
    with pytest.raises(ModelNotFound, match="guide is missing"):
        locate(None)


def test_a_repository_in_the_hugging_face_cache_is_found(tmp_path: Path) -> None:
    repository = tmp_path / "hub" / "models--someone--tiny"
    snapshot = repository / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps({}))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    # A process of its own: the Hugging Face client reads HF_HOME once, when it is imported.
    done = subprocess.run(
        [sys.executable, "-c", "from app.model_location import locate; print(locate('someone/tiny'))"],
        env={**os.environ, "HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()) == snapshot


@pytest.mark.parametrize(
    ("folder", "title"),
    [
        ("/models/TinyLlama", "TinyLlama"),
        (f"/cache/hub/models--some-one--tiny--4bit/snapshots/{'0' * 40}", "some-one/tiny--4bit"),
        (f"/models/snapshots/{'0' * 40}", "0" * 40),
    ],
)
def test_models_have_names_for_people(folder: str, title: str) -> None:
    assert model_title(Path(folder)) == title


def test_the_guide_is_called_the_guide(guide: Path) -> None:
    assert model_title(guide) == "the guide"


def test_remembered_folders_hold_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    assert remembered("model") == str(tmp_path / "model")
    assert remembered("someone/tiny") == "someone/tiny"


def test_a_library_that_cannot_be_opened_is_not_said_to_be_empty(
    tmp_path: Path, guide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLXR_HOME", str(tmp_path))
    (tmp_path / "library.sqlite3").mkdir()
    with pytest.raises(ModelNotFound, match="the library cannot be asked: "):
        locate("tiny")
    assert locate(None, "tiny") == guide


def test_the_disk_is_asked_once_what_a_model_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve, asked = Path.resolve, list[Path]()

    def ask(path: Path, strict: bool = False) -> Path:
        asked.append(path)
        return resolve(path, strict)

    monkeypatch.setattr(Path, "resolve", ask)
    first = model_title(tmp_path / "one-model")
    assert asked
    asked.clear()
    assert model_title(tmp_path / "one-model") == first == "one-model"
    assert not asked
