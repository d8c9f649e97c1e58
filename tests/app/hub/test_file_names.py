"""Names that a stranger gave to files."""

from __future__ import annotations

import pytest

from app.hub.file_names import refusals


@pytest.mark.parametrize(
    "name",
    [
        "../model.gguf",
        "a/../../model.gguf",
        "..",
        "/etc/passwd",
        "C:/model.gguf",
        "a\\..\\model.gguf",
        "a//model.gguf",
        "./model.gguf",
        "folder/",
        "",
        " model.gguf",
        "folder /model.gguf",
        "model\n.gguf",
        "model\x00.gguf",
        "model\u202egguf.exe",
        "model\ud800.gguf",
        "x" * 256,
        "é" * 128,
        "/".join(["folder"] * 200),
    ],
)
def test_a_name_that_is_not_safe_on_a_disk_is_refused(name: str) -> None:
    refused = refusals([name, "model.gguf"])
    assert list(refused) == [name]
    assert refused[name]


def test_usual_names_are_kept() -> None:
    assert not refusals(
        ["a/b/model-00001-of-00002.gguf", "..gguf", "Modell-ä ö.gguf", ".gitattributes", "x" * 255]
    )


@pytest.mark.parametrize(
    "twins",
    [
        ("model.gguf", "Model.GGUF"),
        ("Q4/model.gguf", "q4/model.gguf"),
        ("mod\u00e9le.gguf", "mode\u0301le.gguf"),
        ("straße.gguf", "STRASSE.gguf"),
    ],
)
def test_names_that_one_disk_takes_for_one_are_both_refused(twins: tuple[str, str]) -> None:
    assert set(refusals([*twins, "other.gguf"])) == set(twins)


def test_a_file_cannot_be_a_folder_too() -> None:
    assert list(refusals(["weights", "Weights/model.gguf"])) == ["weights"]
