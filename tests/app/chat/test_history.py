"""What the model is told of a conversation."""

from __future__ import annotations

from app.chat.history import history
from app.store.records import ChatMessage, Status


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
