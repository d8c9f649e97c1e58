"""Several models in memory at once: each answers as it does alone, in turns, and time says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine import (
    Cancel,
    EngineSettings,
    Generate,
    LoadModel,
    ModelReady,
    ModelUnloaded,
    Predict,
    Predicted,
    TextChunk,
    UnloadModel,
)
from engine.prediction.foresight import Foresight
from tests.engine.cold import Cold
from tests.engine.residents.two_models import ONE, PROMPT, ask, is_chunk, unloaded
from tests.fakes.listener import Listener, running_engine


def test_two_models_answer_at_once_each_as_it_does_alone(
    listener: Listener, models: tuple[Path, Path, Path]
) -> None:
    first, second, _ = models
    listener.load(first, "first")
    listener.load(second, "second")
    assert not unloaded(listener.events)
    for number in range(2):
        for name, model in (("a", first), ("b", second)):
            listener.submit(ask(f"{name}{number}", model, 20, prompt=PROMPT[number:]))
    for number in range(2):
        for name, model in (("a", first), ("b", second)):
            end = listener.finished(f"{name}{number}")
            assert Cold(model).accepts(end.prompt_tokens, end.tokens)
    assert listener.finished("a0").tokens != listener.finished("b0").tokens


def test_a_request_without_a_name_is_for_the_newest_model(
    listener: Listener, models: tuple[Path, Path, Path]
) -> None:
    first, second, third = models
    listener.load(first, "first")
    listener.load(second, "second")
    for name, model in (("named", second), ("newest", None), ("other", first)):
        listener.submit(ask(name, model))
    newest = listener.finished("newest").tokens
    assert newest == listener.finished("named").tokens != listener.finished("other").tokens
    listener.submit(UnloadModel())
    listener.submit(ask("left", None))
    assert listener.finished("left").tokens == listener.finished("other").tokens
    listener.submit(ask("nowhere", third))
    assert listener.failed("nowhere").error == "c is not loaded; open it first"


def test_who_waited_for_a_model_that_cannot_be_loaded_hears_why(
    listener: Listener, models: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    path = tmp_path / "late"
    with listener.held():
        listener.submit(LoadModel("load", str(path)))
        listener.submit(ask("waits", path))
    why = listener.failed("load").error
    assert listener.failed("waits").error == f"late is not loaded: {why}"
    shutil.copytree(models[0], path)
    listener.load(path, "again")
    listener.submit(ask("then", path))
    assert listener.finished("then").tokens
    listener.submit(UnloadModel(str(path)))
    listener.submit(ask("gone", path))
    assert listener.failed("gone").error == "late is not loaded; open it first"


def test_a_model_is_called_as_people_call_it(
    listener: Listener, models: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    listener.submit(LoadModel("load", str(models[0]), name="the guide"))
    ready = listener.end_of("load")
    assert isinstance(ready, ModelReady)
    assert ready.model.name == "the guide"
    with listener.held():
        listener.submit(LoadModel("late", str(tmp_path / "0a1b2c"), name="lab/late"))
        listener.submit(ask("waits", tmp_path / "0a1b2c"))
    assert listener.failed("waits").error.startswith("lab/late is not loaded: ")


def test_they_take_turns_a_step_each(models: tuple[Path, Path, Path]) -> None:
    first, second, _ = models
    steps = dict[str, int]()
    apart: list[int] = []
    with running_engine(EngineSettings(kv_bytes=2 * ONE, speculation=False)) as listener:
        listener.load(first, "first")
        listener.load(second, "second")
        with listener.held():
            for number in range(3):  # many answers on one model do not hold up the one on the other
                listener.submit(ask(f"a{number}", first, 80, prompt=PROMPT[:20]))
            listener.submit(ask("b", second, 80, prompt=PROMPT[:20]))
        while len(steps) < 2 or max(steps.values()) < 70:
            event = listener.wait(lambda event: isinstance(event, TextChunk))
            assert isinstance(event, TextChunk)
            if event.id in ("a0", "b"):
                steps[event.id] = event.generated_tokens
                if len(steps) == 2:
                    apart.append(abs(steps["a0"] - steps["b"]))
    assert len(apart) > 40
    assert (
        max(apart[10:]) <= 24
    )  # the others' prompts come first, and text is told when its last byte is there


def foretold(listener: Listener, command: Generate) -> float | None:
    listener.submit(Predict(command))
    predicted = listener.wait(lambda event: isinstance(event, Predicted))
    assert isinstance(predicted, Predicted)
    return predicted.seconds


def test_while_another_works_no_time_is_foretold_and_none_learned(
    listener: Listener, models: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    taught = list[int]()
    answered = Foresight.answered

    def noted(self: Foresight, new: int, cached: int, steps: int, seconds: float) -> None:
        taught.append(new)
        answered(self, new, cached, steps, seconds)

    monkeypatch.setattr(Foresight, "answered", noted)
    first, second, _ = models
    listener.load(first, "first")
    listener.load(second, "second")
    prompts = [PROMPT[number : number + 150 - number] for number in range(5)]
    for number in range(3):
        listener.submit(ask(f"alone {number}", second, prompt=prompts[number]))
        listener.finished(f"alone {number}")
    taught.clear()
    assert foretold(listener, ask("p", second, prompt=prompts[3])) is not None
    listener.submit(ask("endless", first, 300))
    listener.wait(is_chunk("endless"))
    assert foretold(listener, ask("q", second, prompt=prompts[3])) is None
    listener.submit(ask("beside", second, prompt=prompts[3]))
    listener.finished("beside")
    listener.submit(Cancel("endless"))
    listener.finished("endless")
    assert taught == [len(PROMPT)]  # what "endless" took before the other came
    assert foretold(listener, ask("r", second, prompt=prompts[4])) is not None
    listener.submit(ask("alone", second, prompt=prompts[4]))
    listener.finished("alone")
    assert taught[1:] == [len(prompts[4])]


def test_who_waits_while_another_is_loaded_teaches_nothing(
    models: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    taught = list[int]()
    monkeypatch.setattr(Foresight, "answered", lambda self, new, *_: taught.append(new))  # pyright: ignore
    first, second, _ = models
    with running_engine(EngineSettings(prefill_chunk=64, kv_bytes=8 * ONE)) as listener:
        listener.load(first, "first")
        with listener.held():
            listener.submit(ask("waits", first))
            listener.submit(LoadModel("second", str(second)))
        assert listener.finished("waits").reason == "length"
        assert not unloaded(listener.events)  # or it would teach nothing for that
        assert not taught
        for number in range(1, 4):  # the first may compile, and teaches nothing for that
            listener.submit(ask(f"alone {number}", first, prompt=PROMPT[number:]))
            listener.finished(f"alone {number}")
    assert taught


def test_the_same_model_is_loaded_anew(listener: Listener, models: tuple[Path, Path, Path]) -> None:
    first, second, _ = models
    listener.load(first, "first")
    listener.load(second, "second")
    listener.submit(LoadModel("anew", str(first), context=256))
    anew = listener.end_of("anew")
    assert isinstance(anew, ModelReady)
    assert anew.model.context_length == 256
    assert unloaded(listener.events) == [ModelUnloaded(str(first), "asked")]
    listener.submit(ask("b", second))
    assert listener.finished("b").tokens
