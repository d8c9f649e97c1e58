"""Cards that strangers wrote."""

from __future__ import annotations

import time

import pytest

from app.hub.card import MOST_CARD, card_markdown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("---\nlicense: mit\n---\n# Title\n", "# Title"),
        ("\ufeff---\r\nlicense: mit\r\n---\r\n# Title\r\n", "# Title"),
        ("# Title\n---\nmore\n---\n", "# Title\n---\nmore\n---"),
        ("a <!-- hidden --> b", "a  b"),
        ("<script>alert(1)</script>text", "text"),
        ("<style>\nbody {}\n</style>\ntext", "text"),
        ('<p align="center"><img src="https://x.example/a.png" alt="the logo"></p>text', "the logo\ntext"),
        ("![picture](https://x.example/a.png)", "picture"),
        ("[![badge](https://x.example/b.svg)](https://example.org)", "[badge](https://example.org)"),
        ("![ref][logo]\n\n[logo]: data:image/png;base64,AAAA", "ref"),
        ("[words](javascript:alert(1))", "words"),
        ("[words](file:///etc/passwd)", "words"),
        ("[words](./LICENSE)", "words"),
        ("[words](https://example.org/a)", "[words](https://example.org/a)"),
        ("<javascript:alert(1)>", "&lt;javascript:alert(1)>"),
        ("!<b></b>[a](https://x.example/a.png)", "a"),
        ("!![a](https://x.example/a.png)", "a"),
        ("[!](./x)[a](https://x.example/a.png)", "! [a](https://x.example/a.png)"),
        ("<<b>img src=x>", "&lt;img src=x>"),
        ("thinks in `<think>` and ``<b>``", "thinks in `<think>` and ``<b>``"),
        ("`<b>x</b>``", "`x``"),
        ("- a\n  ```\n  <b>\n\n<i>x</i>", "- a\n  ```\n  <b>\n\nx"),
        ("``` a`b\n<i>x</i>", "``` a`b\nx"),
        (
            "[Wikipedia](https://en.wikipedia.org/wiki/A_(b))",
            "[Wikipedia](https://en.wikipedia.org/wiki/A_(b))",
        ),
        ("<https://example.org>", "<https://example.org>"),
        ("2 < 3 and 4 > 1", "2 < 3 and 4 > 1"),
        ("a<br/>b", "a\nb"),
        ("```html\n<img src=x>\n![a](b)\n```\n<b>bold</b>", "```html\n<img src=x>\n![a](b)\n```\nbold"),
        ("~~~\n```\n<b>\n~~~\n<i>x</i>", "~~~\n```\n<b>\n~~~\nx"),
    ],
)
def test_a_card_keeps_its_words_and_loses_what_acts(written: str, shown: str) -> None:
    assert card_markdown(written.encode()) == shown


def test_bytes_that_are_no_text_are_no_error() -> None:
    assert "\ufffd" in card_markdown(b"# \xff\xfe title\0")


@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "<a ",
        "![",
        "[[",
        "](",
        "<!--",
        "---\n",
        "```\n",
        '<img alt="',
        "<svg>",
        "[a](",
        "<!-- x",
        "`",
        "` `",
        "[a](b ",
        "[a]: ",
    ],
)
def test_no_text_takes_long(piece: str) -> None:
    began = time.thread_time()
    card_markdown((piece * (40_000 // len(piece))).encode())
    assert time.thread_time() - began < 1.5


def test_a_very_long_card_is_cut() -> None:
    shown = card_markdown(b"word " * MOST_CARD)
    assert len(shown) < MOST_CARD + 10
    assert shown.endswith("…")
