"""What the model is told of a conversation, in words and in exact tokens."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.chat.history import exact_history, history
from app.store.records import ChatMessage, Status
from engine import History


def user(text: str) -> ChatMessage:
    return ChatMessage("c", "user", text)


def assistant(text: str, status: Status = "complete") -> ChatMessage:
    return ChatMessage("c", "assistant", text, status=status)


def told(*path: ChatMessage) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in history(path)]


def test_the_whole_path_is_told() -> None:
    assert told(user("a"), assistant("b"), user("c")) == [("user", "a"), ("assistant", "b"), ("user", "c")]


def test_a_stopped_answer_is_told_as_far_as_it_went() -> None:
    assert told(user("a"), assistant("b", "stopped"), user("c"))[1] == ("assistant", "b")


def test_a_question_that_failed_at_once_is_left_out() -> None:
    assert told(user("far too long"), assistant("", "failed"), user("short")) == [("user", "short")]


def test_questions_around_an_answer_stopped_at_once_become_one() -> None:
    assert told(user("a"), assistant("", "stopped"), user("b")) == [("user", "a\n\nb")]


def known(text: str, model: str, tokens: tuple[int, ...], status: Status = "complete") -> ChatMessage:
    return ChatMessage("c", "assistant", text, status=status, model=model, tokens=tokens)


def asked(text: str, tokens: tuple[int, ...] | None) -> ChatMessage:
    return ChatMessage("c", "user", text, tokens=tokens)


def test_there_is_no_history_before_the_first_answer() -> None:
    assert exact_history([user("a")], "/m") is None
    assert exact_history([asked("a", (1,)), assistant("b", "failed"), user("c")], "/m") is None


def test_the_history_reaches_to_the_last_answer_of_the_model() -> None:
    path = [
        asked("a", (1, 2)),
        known("b", "/m", (3,)),
        asked("c", (4,)),
        known("d", "/m", (5, 6)),
        user("e"),
    ]
    assert exact_history(path, "/m") == History((1, 2, 3, 4, 5, 6), 4, "/m")


def test_answers_of_another_model_behind_it_are_left_out() -> None:
    path = [
        asked("a", (1, 2)),
        known("b", "/m", (3,)),
        asked("c", (70,)),
        known("d", "/other", (71,)),
        user("e"),
    ]
    assert exact_history(path, "/m") == History((1, 2, 3), 2, "/m")


def test_without_an_answer_of_the_model_the_other_one_is_named() -> None:
    path = [asked("a", (1, 2)), known("b", "/other", (3,)), user("c")]
    assert exact_history(path, "/m") == History((1, 2, 3), 2, "/other")


def test_where_the_model_has_answered_no_other_one_is_named() -> None:
    path = [
        asked("a", (1, 2)),
        known("b", "/other", (3,)),
        user("c"),
        replace(known("d", "/m", (), "interrupted"), tokens=None),
        user("e"),
    ]
    assert exact_history(path, "/m") is None


def test_what_a_template_rewrote_is_followed() -> None:
    rewritten = replace(asked("c", (9,)), kept_tokens=2)
    path = [asked("a", (1, 2)), known("b", "/m", (3,)), rewritten, known("d", "/m", (4,)), user("e")]
    assert exact_history(path, "/m") == History((1, 2, 9, 4), 4, "/m")


turns = st.lists(
    st.tuples(
        st.sampled_from(["", "words"]),
        st.sampled_from(["complete", "stopped", "failed", "interrupted", "length"]),
        st.sampled_from(["/m", "/other"]),
        st.booleans(),
    ),
    max_size=6,
)


@given(turns)
def test_the_history_is_of_the_messages_that_are_told_first(
    turns: list[tuple[str, Status, str, bool]],
) -> None:
    path: list[ChatMessage] = []
    for number, (text, status, model, has_tokens) in enumerate(turns):
        path.append(user(f"question {number}"))
        answer = known(text and f"{text} {number}", model, (number,), status)
        path.append(answer if has_tokens else replace(answer, tokens=None))
    path.append(user("the newest"))
    found = exact_history(path, "/m")
    if found:
        messages = history(path)
        assert 0 < found.messages < len(messages)
        last = messages[found.messages - 1]
        assert (last.role, last.content) == ("assistant", f"words {found.tokens[-1]}")
