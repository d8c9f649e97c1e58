"""What a text from outside stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import AppError
from app.opening.link import ModelLink
from app.opening.target import ChatFile, ModelFile, is_openable, understand


def test_files_are_known_by_their_suffix_as_paths_and_as_addresses(tmp_path: Path) -> None:
    chat = tmp_path / "Mein Chat ä.mlxrchat"
    assert understand(str(chat)) == ChatFile(chat)
    assert understand(chat.as_uri()) == ChatFile(chat)
    assert understand(chat.as_uri().replace("file://", "file://localhost")) == ChatFile(chat)
    assert understand("/models/a.GGUF") == ModelFile(Path("/models/a.GGUF"))
    assert understand("mlxr://model/lab/tiny") == ModelLink("lab/tiny")


def test_a_later_part_and_a_models_folder_stand_for_the_model(tmp_path: Path) -> None:
    for part in (1, 2):
        (tmp_path / f"m-0000{part}-of-00002.gguf").write_bytes(b"")
    (tmp_path / "config.json").write_text("{}")
    assert understand(str(tmp_path / "m-00002-of-00002.gguf")) == ModelFile(
        tmp_path / "m-00001-of-00002.gguf"
    )
    assert understand(str(tmp_path)) == ModelFile(tmp_path)
    assert understand(str(tmp_path / "config.json")) == ModelFile(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\0b",
        "/" + "x" * 5000,
        "x\n" * 50,
        "notes.txt",
        "/etc/passwd",
        "file://server/share/a.gguf",
        "file:///a%00.gguf",
        "file://[",
        "file:a",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(AppError) as raised:
        understand(text)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    "text", ["mlxr://x", "MLXR:", "a.gguf", "b/C.MLXRCHAT", "file:///a.gguf", "./a", "b/a/", "/a"]
)
def test_what_looks_openable_is_no_command(text: str) -> None:
    assert is_openable(text)


@pytest.mark.parametrize("text", ["chat", "models", "mlxr", "gguf", "a.txt", "https://example.org/a"])
def test_commands_stay_commands(text: str) -> None:
    assert not is_openable(text)
