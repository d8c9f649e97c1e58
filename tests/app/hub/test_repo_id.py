"""What people paste as a repository."""

from __future__ import annotations

import pytest

from app.hub.errors import NotFound
from app.hub.repo_id import named_in_page, parse_repo


@pytest.mark.parametrize(
    ("pasted", "parsed"),
    [
        ("Qwen/Qwen3-0.6B", ("Qwen/Qwen3-0.6B", None)),
        (" Qwen/Qwen3-0.6B-GGUF:Q8_0\n", ("Qwen/Qwen3-0.6B-GGUF", "Q8_0")),
        ("gpt2", ("gpt2", None)),
        ("https://huggingface.co/Qwen/Qwen3-0.6B/tree/main?x=1", ("Qwen/Qwen3-0.6B", None)),
        ("<https://hf-mirror.example/Qwen/Qwen3-0.6B/>", ("Qwen/Qwen3-0.6B", None)),
        ("'hf://Qwen/Qwen3-0.6B'", ("Qwen/Qwen3-0.6B", None)),
    ],
)
def test_ids_and_addresses_are_understood(pasted: str, parsed: tuple[str, str | None]) -> None:
    assert parse_repo(pasted) == parsed


@pytest.mark.parametrize(
    "pasted",
    [
        "",
        "a/b/c",
        "../etc/passwd",
        "a/..",
        "org/a--b",
        "https://",
        "ftp://x/y/z",
        "a b/c",
        "org/ä",
        "http://[",
        "x" * 200,
    ],
)
def test_what_cannot_be_one_is_refused(pasted: str) -> None:
    with pytest.raises(NotFound) as raised:
        parse_repo(pasted)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("pasted", "named"),
    [
        ("https://huggingface.co/a/b/blob/main/x/y%20z.gguf?download=true", ("main", "x/y z.gguf")),
        ("<https://huggingface.co/a/b/resolve/refs%2Fpr%2F1/m.gguf>", ("refs/pr/1", "m.gguf")),
        ("https://huggingface.co/a/b/tree/v2/folder", ("v2", "")),
        ("https://huggingface.co/a/b", ("", "")),
        ("https://huggingface.co/a/b/discussions/1", ("", "")),
        ("a/b", ("", "")),
        ("http://[", ("", "")),
    ],
)
def test_a_page_names_its_revision_and_its_file(pasted: str, named: tuple[str, str]) -> None:
    assert named_in_page(pasted) == named
