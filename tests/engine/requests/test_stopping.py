"""Stop strings against a model that sees the whole text at once."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import InvalidRequest
from engine.requests.stopping import StopStrings

CHUNKS = st.lists(st.text("abc", max_size=4), max_size=12)
STOPS = st.lists(st.text("abc", min_size=1, max_size=4), max_size=3).map(tuple)


def run(stops: StopStrings, chunks: list[str]) -> str:
    """What is shown in all, once the stream has ended or stopped."""
    shown = ""
    for chunk in chunks:
        text, stopped = stops.add(chunk)
        shown += text
        if stopped:
            return shown
    return shown + stops.finish()


def cut(text: str, stop: tuple[str, ...]) -> str:
    return text[: min((text.find(s) for s in stop if s in text), default=len(text))]


@given(CHUNKS, STOPS)
@example(["abc", "b"], ("abcb", "bc"))
@example(["abc", "a"], ("abcb", "bc"))
@example(["a", "a", "b"], ("ab",))
def test_the_text_is_cut_at_the_earliest_stop_however_it_is_split(
    chunks: list[str], stop: tuple[str, ...]
) -> None:
    stops = StopStrings(stop)
    text = "".join(chunks)
    assert run(stops, chunks) == cut(text, stop)
    assert stops.stopped is any(s in text for s in stop)


@given(CHUNKS, STOPS)
def test_only_what_may_become_a_stop_is_held_back(chunks: list[str], stop: tuple[str, ...]) -> None:
    stops = StopStrings(stop)
    seen = shown = ""
    for chunk in chunks:
        seen += chunk
        text, stopped = stops.add(chunk)
        shown += text
        if stopped:
            break
        held = seen[len(shown) :]
        assert seen.startswith(shown)
        assert held == "" or any(s.startswith(held) and s != held for s in stop)


def test_text_without_a_possible_stop_is_shown_at_once() -> None:
    stops = StopStrings(("\n\n", "User:"))
    assert stops.add("Hello") == ("Hello", False)
    assert stops.add(" Us") == (" ", False)
    assert stops.add("ed") == ("Used", False)
    assert stops.add("\n") == ("", False)
    assert stops.add("\nmore") == ("", True)
    assert stops.add("after") == ("", True)
    assert stops.finish() == ""


def test_nothing_is_held_without_stops() -> None:
    stops = StopStrings(())
    assert stops.add("anything") == ("anything", False)
    assert stops.finish() == ""


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="stop string is empty"):
        StopStrings(("\n", ""))
