"""Events keep their order, and text that arrives together arrives as one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import groupby, product

from hypothesis import given
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot

from app.bridge import FrameQueue
from app.event_inbox import EventInbox, merged
from engine import Event, Failed, LoadProgress, PrefillProgress, TextChunk

events = st.lists(
    st.one_of(
        st.builds(
            TextChunk, st.sampled_from("ab"), st.text("xy", max_size=2), st.integers(1, 9), st.integers(0, 1)
        ),
        st.builds(Failed, st.sampled_from("ab"), st.just("error"), st.just("kind")),
    ),
    max_size=20,
)


def test_pieces_of_one_answer_are_joined() -> None:
    pieces: list[Event] = [TextChunk("a", "Pa", 1), TextChunk("a", "ges", 2), TextChunk("a", ".", 3)]
    assert merged(pieces) == [TextChunk("a", "Pages.", 3)]


def test_other_events_stand_between() -> None:
    apart: list[Event] = [TextChunk("a", "1", 1), PrefillProgress("b", 1, 2, 0), TextChunk("a", "2", 2)]
    assert merged(apart) == apart


def test_answers_that_are_written_at_once_are_joined_each_for_itself() -> None:
    pieces: list[Event] = [
        TextChunk("a", f"{step}{sample}", step, sample) for step in (1, 2) for sample in (0, 1)
    ]
    assert merged([*pieces, TextChunk("b", "x", 1)]) == [
        TextChunk("a", "1020", 2, 0),
        TextChunk("a", "1121", 2, 1),
        TextChunk("b", "x", 1),
    ]


def test_of_a_load_that_tells_of_each_tensor_the_last_word_counts() -> None:
    told: list[Event] = [LoadProgress("a", loaded, 900) for loaded in range(901)]
    tried = LoadProgress("a", 900, 900, is_trying=True)
    assert merged(told) == [LoadProgress("a", 900, 900)]
    assert merged([*told, tried]) == [tried]
    failed = Failed("a", "error", "kind")
    assert merged([*told, failed, *told]) == [told[-1], failed, told[-1]]
    assert merged([told[1], LoadProgress("b", 1, 2), told[2]]) == [told[1], LoadProgress("b", 1, 2), told[2]]


@given(events)
def test_text_order_and_other_events_stay(sent: list[Event]) -> None:
    def parts(of: list[Event], request: str, sample: int) -> list[str]:
        """What an answer says between other events."""
        said = [""]
        for event in of:
            if isinstance(event, Failed):
                said.append("")
            elif isinstance(event, TextChunk) and (event.id, event.sample) == (request, sample):
                said[-1] += event.text
        return said

    got = merged(sent)
    for request, sample in product("ab", (0, 1)):
        assert parts(got, request, sample) == parts(sent, request, sample)
    assert [e for e in got if isinstance(e, Failed)] == [e for e in sent if isinstance(e, Failed)]
    for _, run in groupby(got, lambda event: isinstance(event, TextChunk)):
        names = [(event.id, event.sample) for event in run if isinstance(event, TextChunk)]
        assert len(set(names)) == len(names)


def test_a_batch_is_posted_once() -> None:
    posted: list[Callable[[], None]] = []
    handled: list[Event] = []
    inbox = EventInbox(posted.append, handled.append)
    for number in range(5):
        inbox.emit(TextChunk("a", str(number), number))
    assert len(posted) == 1
    posted.pop()()
    assert handled == [TextChunk("a", "01234", 4)]
    inbox.emit(Failed("a", "error", "kind"))
    assert len(posted) == 1


def test_nothing_is_lost_between_threads(qtbot: QtBot) -> None:
    queue = FrameQueue()
    handled: list[str] = []
    inbox = EventInbox(
        queue.post, lambda event: handled.append(event.text if isinstance(event, TextChunk) else "")
    )
    worker = threading.Thread(target=lambda: [inbox.emit(TextChunk("a", f"{n},", n)) for n in range(20_000)])
    worker.start()
    worker.join()
    qtbot.waitUntil(lambda: "".join(handled) == "".join(f"{n}," for n in range(20_000)))
