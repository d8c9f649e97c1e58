"""A model card made fit to show: Markdown without front matter, HTML, pictures and addresses that act.

A card is a stranger's text. Pictures become their descriptions and tags go; a link keeps its words and, when
it leads to a web page, its address. What shows it must still fetch nothing: see app/chat/prose_view.py.
Every pattern is bounded, so that no text takes long.
"""

from __future__ import annotations

import re
from html import unescape

MOST_CARD = 400_000
"""Characters of a card that are shown; the longest useful ones have a tenth of it."""

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?:.*\n)*?---[ \t]*(?:\n|\Z)")
_FENCE = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})")
_CODE = re.compile(r"((?<![`\\])(`{1,3})(?!`)[^`\n]{1,500}(?<!`)\2(?!`))")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_SILENT = re.compile(
    r"<(script|style|svg|iframe|object|video|audio|template)\b.*?(?:</\1\s*>|\Z)", re.DOTALL | re.I
)
_PICTURE_TAG = re.compile(r"<img\b[^<>]{0,4000}>", re.IGNORECASE)
_ALT = re.compile(r"\balt\s{0,9}=\s{0,9}(?:\"([^\"]{0,300})\"|'([^']{0,300})')", re.IGNORECASE)
_LINE_TAG = re.compile(r"<(?:br|hr|/p|/div|/tr|/h[1-6]|/li)\b[^<>]{0,300}>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9-]{0,40}(?:\s[^<>]{0,2000})?/?>")
_WORDS = r"\[((?:[^\[\]]|\[[^\[\]]{0,200}\]){0,300}?)\]"
_PICTURE = re.compile(r"!+\[([^\[\]]{0,300})\](?:\([^()\s]{0,2000}(?:\s[^()]{0,300})?\)|\[[^\[\]]{0,200}\])?")
_LINK = re.compile(
    _WORDS + r"\(\s{0,9}<?([^()<>\s]{0,2000}(?:\([^()<>\s]{0,200}\)[^()<>\s]{0,200})?)>?(?:\s[^()]{0,300})?\)"
)
_DEFINITION = re.compile(r"^ {0,3}\[([^\[\]]{1,200})\]:\s{0,9}(\S{1,2000}).*$", re.MULTILINE)
_OPENING = re.compile(r"<(?=[a-zA-Z/!?])(?!https?://)")
_BLANK = re.compile(r"\n{4,}")


def card_markdown(raw: bytes) -> str:
    """The card to show, from the bytes of README.md; "" when nothing is left."""
    text = raw.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\0", "")
    is_cut = len(text) > MOST_CARD
    text = _FRONT_MATTER.sub("", text[:MOST_CARD], count=1)
    pieces = [piece if is_code else _without_html(piece) for is_code, piece in _fenced(text)]
    shown = _BLANK.sub("\n\n\n", "".join(pieces)).strip()
    return f"{shown}\n\n…" if is_cut else shown


def _fenced(text: str) -> list[tuple[bool, str]]:
    """The text in runs inside and outside of fenced code, where nothing is a tag."""
    pieces: list[tuple[bool, list[str]]] = []
    indent, fence = 0, ""
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line)
        if fence and line.strip() and len(line) - len(line.lstrip(" ")) < indent:
            fence = ""  # a list's item ended, and the code in it
        is_code = bool(fence or found)
        if fence and found and found[2].startswith(fence) and line.strip() == found[2]:
            fence = ""
        elif not fence and found:
            indent, fence = len(found[1]), found[2]
        if not pieces or pieces[-1][0] != is_code:
            pieces.append((is_code, []))
        pieces[-1][1].append(line)
    return [(is_code, "".join(lines)) for is_code, lines in pieces]


def _without_html(text: str) -> str:
    text = _SILENT.sub("", _COMMENT.sub("", text))
    parts = _CODE.split(text)  # prose, code, its fence, prose, …
    prose = [_prose(part) for part in parts[::3]]
    return "".join(piece for pair in zip(prose, [*parts[1::3], ""], strict=True) for piece in pair)


def _prose(text: str) -> str:
    text = _PICTURE_TAG.sub(_described, text)
    text = _TAG.sub("", _LINE_TAG.sub("\n", text))
    text = _PICTURE.sub(lambda found: found[1].strip(), text)
    text = _DEFINITION.sub(lambda found: found[0] if _is_page(found[2]) else "", text)
    text = _LINK.sub(_linked, text)
    # What removing left behind must not become a tag or a picture again.
    return _OPENING.sub("&lt;", text).replace("![", "! [")


def _described(tag: re.Match[str]) -> str:
    alt = _ALT.search(tag[0])
    return unescape(alt[1] or alt[2] or "").strip() if alt else ""


def _linked(link: re.Match[str]) -> str:
    words, address = link[1].strip(), link[2]
    if not words:
        return ""
    return f"[{words}]({address})" if _is_page(address) else words


def _is_page(address: str) -> bool:
    return address.lower().startswith(("https://", "http://")) and address.isprintable()
