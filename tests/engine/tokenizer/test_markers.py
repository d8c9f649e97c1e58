"""Control tokens as text: found, the longest first, and broken up so that none is left."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidRequest
from engine.tokenizer.markers import CONTEXT, TAG, AddedToken, Markers, check_text


def markers(*texts: str, lstrip: bool = False, rstrip: bool = False) -> Markers:
    return Markers(
        AddedToken(text, 100 + i, special=True, lstrip=lstrip, rstrip=rstrip) for i, text in enumerate(texts)
    )


def test_text_is_split_at_markers() -> None:
    assert list(markers("<a>", "<b>").split("x <a><b>y")) == ["x ", 100, 101, "y"]
    assert list(markers("<a>").split("no marker")) == ["no marker"]
    assert list(markers("<a>").split("")) == []
    assert list(markers().split("x <a>")) == ["x <a>"]


def test_the_longest_marker_is_taken() -> None:
    assert list(markers("<a>", "<a><b>").split("<a><b><a>")) == [101, 100]


def test_white_space_that_belongs_to_a_marker_goes_with_it() -> None:
    assert list(markers("<a>", lstrip=True).split("x  <a>  y")) == ["x", 100, "  y"]
    assert list(markers("<a>", rstrip=True).split("x  <a> \n y")) == ["x  ", 100, "y"]
    assert list(markers("<a>", lstrip=True, rstrip=True).split(" <a> <a> ")) == [100, 100]


@given(st.text("<ab>", max_size=20), st.lists(st.text("<ab>", min_size=2, max_size=4), max_size=4))
def test_no_marker_is_left_in_what_was_broken_up(text: str, found: list[str]) -> None:
    parts = markers(*found).break_up(text)
    assert "".join(parts) == text
    assert not any(marker in part for marker in found for part in parts)
    assert len(parts) == 1 or any(marker in text for marker in found)


@pytest.mark.parametrize("text", ["\ud800", "ok\udfff", f"a{TAG}b", f"{CONTEXT}"])
def test_text_that_no_tokenizer_can_take(text: str) -> None:
    with pytest.raises(InvalidRequest):
        check_text(text)


def test_any_other_text_is_taken() -> None:
    check_text("".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000), 0x10FFFF])))


@given(
    st.text("<ab>*", max_size=30),
    st.lists(st.text("<ab>*", min_size=1, max_size=6), max_size=12, unique=True),
)
def test_the_leftmost_and_there_the_longest_is_found(text: str, found: list[str]) -> None:
    expected: list[str | int] = []
    plain, place = "", 0
    while place < len(text):
        here = max((marker for marker in found if text.startswith(marker, place)), key=len, default=None)
        if here is None:
            plain += text[place]
            place += 1
            continue
        expected += [plain, 100 + found.index(here)] if plain else [100 + found.index(here)]
        plain, place = "", place + len(here)
    assert list(markers(*found).split(text)) == expected + ([plain] if plain else [])


def test_markers_that_begin_with_each_other_many_times_over() -> None:
    chain = ["a" * length for length in range(1, 400)]
    assert list(markers(*chain).split("a" * 500)) == [100 + 398, 100 + 100]


def test_very_many_markers_cost_a_search_little_more_than_few() -> None:
    text = "<|" * 20_000

    def cost(count: int) -> float:
        found = markers(*(f"<|reserved_{index}|>" for index in range(count)))
        started = time.process_time()
        assert list(found.split(text)) == [text]
        return time.process_time() - started

    assert cost(5_000) < 30 * max(cost(20), 1e-3)
