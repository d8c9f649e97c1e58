"""Chats that several models have pages of: told of, forgotten, kept and pinned on each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine import (
    CacheReport,
    ChatsCached,
    EngineSettings,
    Flush,
    Flushed,
    Forget,
    Freed,
    Generate,
    History,
    Keep,
    Message,
    MissReason,
    ModelUnloaded,
    Pin,
    Predict,
    Predicted,
    SamplingParams,
    UnloadModel,
)
from tests.engine.kv.spilled import owners_in
from tests.engine.residents.two_models import PAGE_BYTES, PROMPT, ask, unloaded
from tests.fakes.listener import Listener, running_engine


def test_a_chat_is_told_of_and_forgotten_on_every_model(
    models: tuple[Path, Path, Path], with_disk: Callable[..., EngineSettings]
) -> None:
    first, second, _ = models
    with running_engine(with_disk()) as listener:
        for name, model in (("a", first), ("b", second)):
            listener.load(model, f"load-{name}")
            listener.submit(ask(name, model))
            listener.finished(name)
        *_, told = [event for event in listener.events if isinstance(event, ChatsCached)]
        assert told.chats["c"].memory_bytes == 2 * 13 * PAGE_BYTES
        listener.submit(Predict(ask("p", first)))
        predicted = listener.wait(lambda event: isinstance(event, Predicted))
        assert isinstance(predicted, Predicted)
        assert predicted.cached_tokens == 199
        listener.submit(Forget("c"))
        told = listener.wait(lambda event: isinstance(event, ChatsCached) and not event.chats)
        listener.submit(Predict(ask("q", first)))
        predicted = listener.wait(lambda event: isinstance(event, Predicted))
        assert isinstance(predicted, Predicted)
        assert predicted.cached_tokens + predicted.restored_tokens == 0


@pytest.mark.usefixtures("forgotten_on_the_spot")
def test_what_an_unloaded_model_wrote_of_a_chat_is_forgotten_beside_another(
    models: tuple[Path, Path, Path], with_disk: Callable[..., EngineSettings], tmp_path: Path
) -> None:
    first, second, _ = models
    with running_engine(with_disk()) as listener:
        listener.load(first, "first")
        listener.load(second, "second")
        for name, model in (("mine", first), ("secret", second)):
            listener.submit(ask(name, model, chat=name))
            listener.finished(name)
        listener.submit(UnloadModel(str(second)))  # whose pages are written then
        listener.wait(lambda event: isinstance(event, ModelUnloaded))
        assert "secret" in owners_in(tmp_path / "kv")
        listener.submit(Forget("secret"))
        listener.submit(Flush())
        listener.wait(lambda event: isinstance(event, Flushed))
        assert "secret" not in owners_in(tmp_path / "kv")
    assert owners_in(tmp_path / "kv") == {"mine"}


def test_of_several_answers_one_is_kept_on_the_model_that_wrote_them(
    listener: Listener, models: tuple[Path, Path, Path]
) -> None:
    first, second, third = models
    listener.load(first, "first")
    listener.load(second, "second")
    several = Generate(
        "a",
        tokens=PROMPT,
        max_tokens=40,
        ignore_eos=True,
        chat="c",
        n=2,
        sampling=SamplingParams(temperature=1.5, seed=1),
        model=str(first),
    )
    listener.submit(several)
    end = listener.finished("a")
    branches = [(*PROMPT, *sample) for sample in (end.tokens, end.others[0].tokens)]
    for model, pages in ((second, 0), (third, 0), (first, 3)):
        listener.submit(Keep("c", branches[0], (branches[1],), str(model)))
        freed = listener.wait(lambda event: isinstance(event, Freed))
        assert freed == Freed("c", pages, pages * PAGE_BYTES)


def test_why_a_chat_is_read_anew_is_told_on_the_model_that_it_went_on_with(
    listener: Listener, models: tuple[Path, Path, Path]
) -> None:
    """Another model had read it, until this one has as well: a message that is edited then is just that."""
    first, second, _ = models
    listener.load(first, "first")
    listener.load(second, "second")

    def said(name: str, model: Path, history: History | None, *messages: Message) -> History:
        asked = Generate(name, messages=messages, history=history, chat="c", model=str(model), max_tokens=2)
        listener.submit(replace(asked, ignore_eos=True))
        end = listener.finished(name)
        return History((*end.prompt_tokens, *end.tokens), len(messages) + 1, str(model))

    def why(name: str) -> tuple[bool, MissReason | None]:
        reports = [event for event in listener.events if isinstance(event, CacheReport)]
        (report,) = [report for report in reports if report.id == name]
        return report.cached_tokens > 0, report.reason

    chat = [Message("user", "What is a page of a book?")]
    history = said("began", first, None, *chat)
    chat += [Message("assistant", "A piece of paper with text on it"), Message("user", "And why is that so?")]
    later = said("went on", second, history, *chat)
    said("edited", second, history, *chat[:2], Message("user", "And since when is that so, says who?"))
    said("came back", first, later, *chat, Message("assistant", "Nobody knows that."), Message("user", "Oh."))
    assert why("went on") == (False, "other model")
    assert why("edited") == (True, "edited")
    assert why("came back") == (True, "other model")


def flood(listener: Listener, model: Path) -> None:
    """Have the model compute more than it has pages for."""
    for number in range(4):
        name, prompt = f"{model.name}{number}", tuple((token + number) % 290 + 3 for token in PROMPT)
        listener.submit(ask(name, model, chat=name, prompt=prompt))
        listener.finished(name)


def test_an_arena_with_pinned_pages_is_not_made_smaller(
    listener: Listener, models: tuple[Path, Path, Path]
) -> None:
    first, second, _ = models
    listener.load(first, "first")
    listener.submit(Pin("a3", True))
    flood(listener, first)
    listener.load(second, "second")
    assert unloaded(listener.events) == [ModelUnloaded(str(first), "room")]


def test_pins_hold_on_every_model(listener: Listener, models: tuple[Path, Path, Path]) -> None:
    for model in models[:2]:
        listener.load(model, model.name)
    listener.submit(Pin("c", True))
    for model in models[:2]:
        listener.submit(ask(f"pinned {model.name}", model))
        flood(listener, model)
    for model in models[:2]:
        listener.submit(Predict(ask(f"predict {model.name}", model)))
        predicted = listener.wait(lambda event: isinstance(event, Predicted))
        assert isinstance(predicted, Predicted)
        assert predicted.cached_tokens == 199
