"""Amounts as people read them."""

from __future__ import annotations

import pytest

from app.amounts import count, counted, size, tokens


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


@pytest.mark.parametrize(("number", "words"), [(0, "0 pages"), (1, "1 page"), (2000, "2,000 pages")])
def test_one_is_not_many(number: int, words: str) -> None:
    assert counted(number, "page") == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "1 byte"),
        (2, "2 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (99_940, "99.9 kB"),
        (99_960, "100 kB"),
        (999_400, "999 kB"),
        (999_600, "1.0 MB"),
        (123_456_789, "123 MB"),
        (999_600_000_000, "1.0 TB"),
        (1_234_000_000_000, "1.2 TB"),
    ],
)
def test_sizes_in_decimal_units(number: int, words: str) -> None:
    assert size(number) == words
