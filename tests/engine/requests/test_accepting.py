"""What cuts an answer is told: max_tokens, the model's context, a setting that allows less, or KV memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import EngineSettings, Generate, Limit, Message, WayOut
from tests.fakes.listener import running_engine

PROMPT = tuple(range(3, 53))
WHOLE = 1024


@pytest.mark.parametrize(
    ("settings", "max_tokens", "most", "limit"),
    [
        (EngineSettings(), 3, 53, "max_tokens"),
        (EngineSettings(), WHOLE - 50, WHOLE, "max_tokens"),
        (EngineSettings(), None, WHOLE, "context"),
        (EngineSettings(context=WHOLE), None, WHOLE, "context"),
        (EngineSettings(context=64), None, 64, "setting"),
        (EngineSettings(context=64), 100, 64, "setting"),
        (EngineSettings(kv_pages=5), None, 80, "memory"),
        (EngineSettings(kv_pages=5, context=100), None, 80, "memory"),
        (EngineSettings(kv_pages=5, context=64), None, 64, "setting"),
    ],
)
def test_a_cut_answer_says_what_it_has_come_to_the_end_of(
    folder: Path, settings: EngineSettings, max_tokens: int | None, most: int, limit: Limit
) -> None:
    with running_engine(settings) as listener:
        listener.load(folder)
        listener.submit(Generate("a", tokens=PROMPT, max_tokens=max_tokens, ignore_eos=True))
        end = listener.finished("a")
        assert (end.reason, len(PROMPT) + len(end.tokens), end.limit) == ("length", most, limit)


def test_a_prompt_that_is_too_long_by_a_setting_is_told_so(folder: Path) -> None:
    with running_engine(EngineSettings(context=50)) as listener:
        listener.load(folder)
        listener.submit(Generate("a", tokens=PROMPT))
        assert listener.failed("a").error == (
            "the prompt has 50 tokens and this model's context is set to 50, answer included; allow more "
            "in its settings (up to 1,024) or shorten it"
        )
        assert listener.failed("a").ways_out == (WayOut("larger context", 1024),)


def test_a_prompt_that_is_too_long_for_the_whole_context_is_not_told_of_a_setting(folder: Path) -> None:
    with running_engine(EngineSettings(context=50)) as listener:
        listener.load(folder)
        listener.submit(Generate("a", tokens=(1,) * 1024))
        failed = listener.failed("a")
        assert failed.error == (
            "the prompt has 1,024 tokens and this model's context holds 1,024 at most, answer included; "
            "shorten it"
        )
        assert failed.ways_out == ()


def test_a_prompt_of_megabytes_is_refused_by_its_beginning(folder: Path) -> None:
    with running_engine(EngineSettings(context=50)) as listener:
        listener.load(folder)
        listener.submit(Generate("a", messages=(Message("user", "fox " * 1_000_000),)))
        failed = listener.failed("a")
        assert (failed.kind, failed.error) == (
            "PromptTooLong",
            "the prompt has more than 2,048 tokens and this model's context holds 1,024 at most, "
            "answer included; shorten it",
        )


def test_a_chat_with_far_more_than_a_model_holds_may_begin_anew(folder: Path) -> None:
    """As one that began with another model."""
    first, answer = Message("user", "fox " * 10_000), Message("assistant", "b")
    with running_engine(EngineSettings()) as listener:
        listener.load(folder)
        listener.submit(Generate("a", messages=(first, answer, Message("user", "hi"))))
        assert listener.failed("a").error == (
            "the prompt has more than 2,048 tokens and this model's context holds 1,024 at most, "
            "answer included; shorten it or start a new chat"
        )


def test_a_chat_that_has_become_too_long_may_begin_anew(folder: Path) -> None:
    first, answer = Message("user", "a " * 40), Message("assistant", "b " * 40)
    with running_engine(EngineSettings(context=50)) as listener:
        listener.load(folder)
        for name, messages in (("new", (first,)), ("goes on", (first, answer, first))):
            listener.submit(Generate(name, messages=messages))
            error = listener.failed(name).error
            assert "this model's context is set to 50" in error
            ending = " or shorten it" if name == "new" else ", shorten it or start a new chat"
            assert error.endswith(ending)
