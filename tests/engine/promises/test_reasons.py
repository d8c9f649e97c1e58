"""Why a chat is read anew, and from which token on: each reason, as a running engine tells it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from engine import CacheReport, Generate, History, Message
from tests.engine.oracle import Checked
from tests.engine.promises.asked import settings
from tests.fakes.listener import Listener, running_engine

QUESTION = Message("user", "What is a page made of?")
ANSWER = Message("assistant", "Paper")
MORE = Message("user", "And a book?")


class Told:
    """One chat with an engine; what it was computed as, and what is told of its next message."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.tokens: tuple[int, ...] = ()
        self.model = Path()
        self._asked = 0

    def say(
        self, *messages: Message, model: Path, history: bool = True, chat: str = "c"
    ) -> tuple[CacheReport, tuple[int, ...]]:
        """What was told before the answer, and the ids of the prompt."""
        self._asked += 1
        name = f"r{self._asked}"
        known = History(self.tokens, len(messages) - 1, str(self.model)) if history else None
        asked = Generate(name, messages=messages, history=known, chat=chat, model=str(model), max_tokens=4)
        self.listener.submit(replace(asked, ignore_eos=True))
        end = self.listener.finished(name)
        if chat == "c":
            self.tokens, self.model = (*end.prompt_tokens, *end.tokens), model
        (report,) = (e for e in self.listener.events if isinstance(e, CacheReport) and e.id == name)
        return report, end.prompt_tokens


def first_difference(old: Sequence[int], new: Sequence[int]) -> int:
    return next(place for place, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1])


@pytest.fixture
def folder(models: dict[str, Checked]) -> Path:
    return models["llama"].folder


def test_an_edited_message(folder: Path) -> None:
    with running_engine(settings()) as listener:
        listener.load(folder)
        chat = Told(listener)
        chat.say(QUESTION, model=folder, history=False)
        before = chat.tokens
        report, prompt = chat.say(Message("user", "What is a letter?"), model=folder, history=False)
        assert (report.missed_from, report.reason) == (first_difference(before, prompt), "edited")
        assert report.cached_tokens == report.missed_from
        assert report.cached_tokens > 0


@pytest.mark.parametrize("system", [Message("system", "Be a sailor."), None], ids=["other", "none"])
def test_another_system_prompt(folder: Path, system: Message | None) -> None:
    with running_engine(settings()) as listener:
        listener.load(folder)
        chat = Told(listener)
        chat.say(Message("system", "Be kind."), QUESTION, model=folder, history=False)
        before = chat.tokens
        opening = [QUESTION] if system is None else [system, QUESTION]
        report, prompt = chat.say(*opening, ANSWER, MORE, model=folder)
        from_ = first_difference(before, prompt)
        assert (report.missed_from, report.reason) == (from_, "system prompt changed")
        assert report.cached_tokens == from_


def test_another_template(folder: Path, tmp_path: Path) -> None:
    """The model is loaded anew with it: of what was computed before nothing is in memory."""
    own = shutil.copytree(folder, tmp_path / "model")
    with running_engine(settings()) as listener:
        listener.load(own, "first")
        chat = Told(listener)
        chat.say(QUESTION, model=own, history=False)
        written = own / "tokenizer_config.json"
        read = json.loads(written.read_text())
        read["chat_template"] = read["chat_template"].replace("<{{ m['role'] }}>", "[{{ m['role'] }}]")
        written.write_text(json.dumps(read))
        listener.load(own, "again")
        report, prompt = chat.say(QUESTION, ANSWER, MORE, model=own)
        assert prompt[: len(chat.tokens)] != chat.tokens
        assert (report.missed_from, report.reason) == (0, "template changed")


def test_pages_that_left_memory(folder: Path) -> None:
    with running_engine(settings(pages=40)) as listener:
        listener.load(folder)
        chat = Told(listener)
        chat.say(QUESTION, model=folder, history=False)
        for number in range(4):
            other = Message("user", f"{number} " + QUESTION.content)
            chat.say(other, model=folder, history=False, chat=f"other {number}")
        report, _ = chat.say(QUESTION, ANSWER, MORE, model=folder)
        assert (report.missed_from, report.reason) == (report.cached_tokens, "evicted")
        assert report.cached_tokens < 20  # of some 40: what all of them begin with


def test_another_model(folder: Path, models: dict[str, Checked]) -> None:
    with running_engine(settings()) as listener:
        listener.load(folder, "first")
        chat = Told(listener)
        chat.say(QUESTION, model=folder, history=False)
        other = models["qwen3"].folder
        listener.load(other, "second")
        report, _ = chat.say(QUESTION, ANSWER, MORE, model=other)
        assert (report.missed_from, report.reason) == (0, "other model")


def test_nothing_is_missed_where_a_chat_goes_on(folder: Path) -> None:
    with running_engine(settings()) as listener:
        listener.load(folder)
        chat = Told(listener)
        chat.say(QUESTION, model=folder, history=False)
        known = len(chat.tokens)
        report, _ = chat.say(QUESTION, ANSWER, MORE, model=folder)
        assert (report.missed_from, report.reason) == (None, None)
        assert report.cached_tokens == known - 1
