"""Amounts as people read them."""

from __future__ import annotations

import pytest

from app.amounts import count, tokens


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0"),
        (999, "999"),
        (1500, "1.5k"),
        (134_000, "134k"),
        (7_000_000_000, "7B"),
        (3_212_749_888, "3.2B"),
    ],
)
def test_counts_in_short(number: int, words: str) -> None:
    assert count(number) == words


@pytest.mark.parametrize(
    ("number", "words"), [(4096, "4k"), (131_072, "128k"), (2000, "2,000"), (512, "512")]
)
def test_lengths_of_contexts(number: int, words: str) -> None:
    assert tokens(number) == words
