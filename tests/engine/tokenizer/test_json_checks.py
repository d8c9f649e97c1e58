"""What is looked for in a tokenizer.json before the package reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tokenizer.json_checks import has_escaped_letter

LETTERS = [*range(0x40, 0x7B)]


def is_found_in_order(text: str) -> bool:
    """The same, an escape at a time from the first on."""
    place = 0
    while place < len(text):
        if text[place] != "\\":
            place += 1
            continue
        if text[place + 1 :].startswith(
            ("u004", "u005", "u006", *(f"u007{digit}" for digit in "0123456789aA"))
        ):
            return True
        place += 2
    return False


@given(st.lists(st.sampled_from(["\\", "\\u00", "u00", "4", "41", "7", "7a", "7b", "a"]), max_size=12))
def test_an_escaped_letter_is_found_but_not_an_escaped_backslash_before_one(parts: list[str]) -> None:
    text = "".join(parts)
    assert has_escaped_letter(text) == is_found_in_order(text)


@pytest.mark.parametrize("letter", LETTERS)
def test_every_letter_is_found(letter: int) -> None:
    assert has_escaped_letter(f'{{"normali\\u{letter:04x}er": 1}}')
    assert not has_escaped_letter(f'{{"normali\\\\u{letter:04x}er": 1}}')
