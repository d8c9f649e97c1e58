"""What a Markdown file points at is there: files, headings, pictures, modules, targets of make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.documents import DOCUMENTS, ROOT, code, read

TARGETS = set((ROOT / "Makefile").read_text("utf-8").partition(".PHONY: ")[2].splitlines()[0].split())
PATH = re.compile(r"(?:app|engine|metal|resources|packaging|tests|docs|\.ci|\.github)/[\w./-]*\w/?")
MODULE = re.compile(r"(?:app|engine|metal|resources|tests)(?:\.\w+)+(?<!\.h)(?<!\.spec)")
CALL = re.compile(r"(?:^\s*(?:\$ )?|&& )make ([a-z][a-z-]*)")
BUILT = ("build/", "docs/engine-reference.md")
LARGEST_PICTURE = 150_000  # bytes


@pytest.fixture(params=DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def path(request: pytest.FixtureRequest) -> Path:
    """Every document in turn."""
    return request.param


def test_every_link_leads_somewhere(path: Path) -> None:
    assert [link for link in read(path).links if not leads_somewhere(path, link)] == []


def leads_somewhere(path: Path, link: str) -> bool:
    """Whether a link into the project leads to a file and its heading, or another one is well formed."""
    parts = urlsplit(link)
    if parts.scheme:
        return parts.scheme == "https" and "." in parts.netloc and not re.search(r"[\s<>]", link)
    target = (path.parent / parts.path).resolve() if parts.path else path
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not parts.fragment or parts.fragment in read(target).anchors


def test_every_picture_is_there_and_small(path: Path) -> None:
    for picture in read(path).images:
        file = path.parent / picture
        assert file.stat().st_size <= LARGEST_PICTURE, file
        assert file.read_bytes().startswith(b"\x89PNG"), file


def test_every_path_in_code_exists(path: Path) -> None:
    absent = [name for name in paths_in(path) if not (ROOT / name).exists() and not name.startswith(BUILT)]
    assert absent == []


def paths_in(path: Path) -> Iterator[str]:
    for text in code(read(path)):
        for word in re.split(r"[\s\"'=,;()\[\]]+", text):
            if PATH.fullmatch(word) and "NAME" not in word:
                yield word


def test_every_module_in_code_exists(path: Path) -> None:
    document = read(path)
    told = [*document.spans, *(line for language, line in document.lines if language != "python")]
    words = {word for text in told for word in re.split(r"[\s\"'=,;()\[\]]+", text)}
    assert [word for word in sorted(words) if MODULE.fullmatch(word) and not is_defined(word)] == []


def is_defined(name: str) -> bool:
    """Whether a dotted name is a module, or something that its module names."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if file.exists():
            rest = parts[length : length + 1]
            return not rest or bool(re.search(rf"\b{rest[0]}\b", file.read_text("utf-8")))
        if place.is_dir():
            return length == len(parts)
    return False


def test_every_make_target_exists(path: Path) -> None:
    named = {name for text in code(read(path)) for name in re.findall(CALL, text)}
    assert named <= TARGETS


@pytest.mark.parametrize(
    ("link", "is_right"),
    [
        ("engine.md#kv-memory", True),
        ("engine.md#no-such-heading", False),
        ("nowhere.md", False),
        ("../../outside.md", False),
        ("https://example.org/a", True),
        ("http://example.org/a", False),
        ("https://nothing", False),
    ],
)
def test_what_the_check_of_links_finds(link: str, is_right: bool) -> None:
    assert leads_somewhere(ROOT / "docs" / "kernels.md", link) is is_right
