"""The project's Markdown files, read for what they claim: links, headings, code, commands."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "app", "engine", "metal", "packaging", "resources", "tests", ".github")
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.md"))]
)
USER_PAGES = sorted((ROOT / "docs" / "user").glob("*.md"))

_MARKDOWN = MarkdownIt("commonmark").enable("table")
_MLXR = re.compile(r"(?:[\w./]*/)?mlxr")
_SET = re.compile(r"[A-Z_]+=\S*")
_ENDS = ("|", "||", "&&", ";", ">", "<", "2>", "&")


@dataclass(frozen=True, slots=True)
class Document:
    """What a file holds, as far as it can be looked at.

    Attributes:
        links, images: where they lead, as written.
        anchors: names of the headings, as GitHub makes them.
        spans: texts between backticks.
        lines: of indented and fenced code, each with the fence's language ("" for an indented one).
    """

    path: Path
    links: tuple[str, ...]
    images: tuple[str, ...]
    anchors: frozenset[str]
    spans: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """Its path in the project."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def text(self) -> str:
        """All of it, as written."""
        return self.path.read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Command:
    """A call of `mlxr`.

    Attributes:
        is_line: it stands alone in a block of code, and not in a sentence.
        is_tried: it is written behind a `$`: what can be typed as it stands.
        piped: it follows a pipe.
    """

    arguments: tuple[str, ...]
    is_line: bool
    is_tried: bool
    piped: bool = False


@cache
def read(path: Path) -> Document:
    """The document at `path`."""
    tokens = _MARKDOWN.parse(path.read_text("utf-8"))
    inline = [child for token in tokens for child in token.children or ()]
    return Document(
        path,
        tuple(str(one.attrGet("href")) for one in inline if one.type == "link_open"),
        tuple(str(one.attrGet("src")) for one in inline if one.type == "image"),
        frozenset(_anchors(tokens)),
        tuple(one.content for one in inline if one.type == "code_inline"),
        tuple(
            (token.info.strip(), line)
            for token in tokens
            if token.type in ("fence", "code_block")
            for line in token.content.splitlines()
        ),
    )


def _anchors(tokens: list[Token]) -> Iterator[str]:
    """GitHub's: lower case, without punctuation, a hyphen for each space, numbered when they come again."""
    seen: Counter[str] = Counter()
    for before, token in pairwise(tokens):
        if before.type == "heading_open":
            words = "".join(child.content for child in token.children or ())
            name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
            yield f"{name}-{seen[name]}" if seen[name] else name
            seen[name] += 1


def examples(path: Path) -> list[str]:
    """The blocks of Python in the document at `path`."""
    tokens = _MARKDOWN.parse(path.read_text("utf-8"))
    return [token.content for token in tokens if token.type == "fence" and token.info.strip() == "python"]


def code(document: Document) -> list[str]:
    """Every text that is set as code."""
    return [*document.spans, *(line for _, line in document.lines)]


def commands(document: Document) -> Iterator[Command]:
    """Every call of `mlxr` in the document; sentences may leave out what they are not about."""
    for span in document.spans:
        for arguments, piped in _calls(span):
            yield Command(arguments, is_line=False, is_tried=False, piped=piped)
    for language, line in document.lines:
        if language in ("", "sh", "console"):
            text = line.strip()
            for arguments, piped in _calls(text.removeprefix("$ ")):
                yield Command(arguments, is_line=True, is_tried=text.startswith("$ "), piped=piped)


def _calls(text: str) -> Iterator[tuple[tuple[str, ...], bool]]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:  # a quotation mark alone: output, or a file's text
        return
    piped, begins = False, True
    for place, word in enumerate(words):
        if word in _ENDS:
            begins, piped = True, word == "|"
        elif begins and not _SET.fullmatch(word):
            begins = False
            if _MLXR.fullmatch(word):
                rest = words[place + 1 :]
                end = next((number for number, other in enumerate(rest) if other in _ENDS), len(rest))
                yield tuple(rest[:end]), piped
