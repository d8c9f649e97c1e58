"""What a terminal chat tells the model, turn by turn."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace

import pytest

from app.cli.conversation import Conversation
from app.cli.terminal import Terminal
from app.errors import RequestFailed
from engine import Command, Event, Failed, Forget, Generate, Message, ModelInfo, SamplingParams, TextChunk
from tests.app.cli.instant_engine import finished, scripted

MODEL = ModelInfo("/m", "m", "llama", 1, 1, "float32", 99, 16, 9, 1, "reference", "asked for", "CPU", True)


def talk(system: str | None = None) -> tuple[Conversation, list[Command], io.StringIO]:
    """A chat whose model answers "re: <question>", fails on "fail" and is stopped half-way on "stop"."""

    def script(command: Command) -> Iterable[Event]:
        if not isinstance(command, Generate):
            return
        assert command.messages is not None
        question = command.messages[-1].content
        if question == "fail":
            yield Failed(command.id, "no", "PromptTooLong")
        elif question == "stop":
            yield TextChunk(command.id, "half", 1)
            yield finished(command.id, "half", "cancelled")
        elif question == "silence":
            yield finished(command.id, "")
        else:
            yield TextChunk(command.id, "re: ", 1)
            yield TextChunk(command.id, question, 2)
            yield finished(command.id, f"re: {question}")

    session, commands = scripted(script)
    out = io.StringIO()
    terminal = Terminal(out, io.StringIO(), environ={})
    return Conversation(session, MODEL, terminal, SamplingParams(seed=3), system, 7), commands, out


def asked(command: Command) -> list[tuple[str, str]]:
    """The messages of a request as (role, content)."""
    assert isinstance(command, Generate)
    assert command.messages is not None
    return [(message.role, message.content) for message in command.messages]


def test_every_turn_repeats_what_was_said() -> None:
    chat, commands, out = talk("be brief")
    chat.ask("one")
    chat.ask("two")
    assert asked(commands[-1]) == [
        ("system", "be brief"),
        ("user", "one"),
        ("assistant", "re: one"),
        ("user", "two"),
    ]
    assert out.getvalue() == "re: onere: two"


def test_sampling_and_length_go_with_every_request() -> None:
    chat, commands, _ = talk()
    chat.ask("one")
    first = commands[0]
    assert isinstance(first, Generate)
    assert first.chat
    assert replace(first, chat="") == Generate(
        "request-1",
        messages=(Message("user", "one"),),
        sampling=SamplingParams(seed=3),
        max_tokens=7,
        lane="window",
    )


def test_a_conversation_goes_on_from_its_exact_ids_until_a_new_one_begins() -> None:
    chat, commands, _ = talk()
    chat.ask("one")
    chat.ask("two")
    chat.restart()
    chat.ask("three")
    first, second, third = (command for command in commands if isinstance(command, Generate))
    assert first.history is None
    assert second.history is not None
    assert second.history.messages == 2
    assert third.history is None
    assert first.chat == second.chat != third.chat
    assert commands.index(Forget(first.chat)) == commands.index(third) - 1
    chat.forget()
    assert commands[-1] == Forget(third.chat)


def test_a_stopped_answer_is_kept_as_far_as_it_went() -> None:
    chat, commands, _ = talk()
    chat.ask("stop")
    chat.ask("one")
    assert asked(commands[-1]) == [("user", "stop"), ("assistant", "half"), ("user", "one")]


@pytest.mark.parametrize("question", ["fail", "silence"])
def test_a_question_without_answer_is_forgotten(question: str) -> None:
    chat, commands, _ = talk()
    chat.ask("one")
    if question == "fail":
        with pytest.raises(RequestFailed):
            chat.ask(question)
    else:
        chat.ask(question)
    chat.ask("two")
    assert asked(commands[-1]) == [("user", "one"), ("assistant", "re: one"), ("user", "two")]


def test_a_new_chat_keeps_only_the_system_message() -> None:
    chat, commands, _ = talk("be brief")
    chat.ask("one")
    chat.restart()
    chat.ask("two")
    assert asked(commands[-1]) == [("system", "be brief"), ("user", "two")]


def test_stats_wait_for_the_first_answer() -> None:
    chat, _, _ = talk()
    assert "nothing was asked yet" in chat.stats()
