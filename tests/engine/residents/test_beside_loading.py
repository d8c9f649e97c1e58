"""While a model is loaded those that are there go on, and hear what is asked of them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from engine import (
    Cancel,
    EngineSettings,
    Event,
    Finished,
    LoadModel,
    LoadProgress,
    ModelReady,
    Predict,
    Predicted,
    UnloadModel,
)
from engine.loading.files import ModelFiles
from engine.loading.model import open_model
from engine.loading.weights import LoadLedger
from tests.engine.residents.two_models import ONE, PROMPT, ask, is_chunk, unloaded
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model


@pytest.fixture
def _slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tensor takes a while."""
    add = LoadLedger.add

    def slow(ledger: LoadLedger, *given: object) -> None:
        time.sleep(0.05)
        add(ledger, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(LoadLedger, "add", slow)


def test_answers_go_on_begin_and_are_cancelled_while_another_model_s_tensor_is_read(
    endless: Path, models: tuple[Path, Path, Path], disk: threading.Event
) -> None:
    with running_engine(EngineSettings(prefill_chunk=64)) as listener:
        listener.load(endless, "endless")
        listener.submit(ask("alone", endless, 12, chat="x"))
        alone = listener.finished("alone")
        listener.submit(ask("running", endless, 1 << 16, chat="y"))
        listener.wait(is_chunk("running"))
        disk.clear()
        listener.submit(LoadModel("second", str(models[0])))
        listener.wait(lambda event: isinstance(event, LoadProgress) and event.id == "second")
        listener.drain()
        listener.submit(ask("begins", endless, 12, chat="z"))
        assert listener.finished("begins").tokens == alone.tokens
        listener.submit(Predict(ask("asked about", endless, chat="z")))
        found = listener.wait(lambda event: isinstance(event, Predicted))
        assert (found.cached_tokens, found.seconds) == (len(PROMPT) - 1, None)  # type: ignore[union-attr]
        for _ in range(20):
            listener.wait(is_chunk("running"))
        listener.submit(Cancel("running"))
        assert listener.finished("running").reason == "cancelled"
        told = [event for event in listener.events if isinstance(event, LoadProgress)]
        assert [event.loaded_bytes for event in told if event.id == "second"] == [0]
        disk.set()
        assert isinstance(listener.end_of("second"), ModelReady)
        listener.submit(ask("then", models[0]))
        assert listener.finished("then").tokens


def test_answers_go_on_and_are_cancelled_while_another_model_s_files_are_opened(
    endless: Path, models: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vocabulary of a hundred thousand tokens takes a second; it is read once."""
    opened, may_open = list[Path](), threading.Event()

    def slow(path: Path) -> ModelFiles:
        opened.append(path)
        assert may_open.wait(60)
        return open_model(path)

    with running_engine(EngineSettings(prefill_chunk=64)) as listener:
        listener.load(endless, "endless")
        listener.submit(ask("running", endless, 1 << 16))
        listener.wait(is_chunk("running"))
        monkeypatch.setattr("engine.residents.opened.open_model", slow)
        monkeypatch.setattr("engine.loading.model.open_model", slow)
        listener.submit(LoadModel("second", str(models[0])))
        while not opened:
            listener.wait(is_chunk("running"))
        listener.drain()
        for _ in range(20):
            listener.wait(is_chunk("running"))
        listener.submit(Cancel("running"))
        assert listener.finished("running").reason == "cancelled"
        may_open.set()
        assert isinstance(listener.end_of("second"), ModelReady)
        assert opened == [models[0]]
        listener.submit(ask("then", models[0]))
        assert listener.finished("then").tokens


def test_a_request_that_comes_while_its_model_is_loaded_anew_is_answered_by_the_new_one(
    models: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    may_open = threading.Event()

    def slow(path: Path) -> ModelFiles:
        assert may_open.wait(60)
        return open_model(path)

    with running_engine(EngineSettings(prefill_chunk=64)) as listener:
        listener.load(models[0], "first")
        listener.submit(ask("running", models[0], 300))
        listener.wait(is_chunk("running"))
        monkeypatch.setattr("engine.residents.opened.open_model", slow)
        listener.submit(LoadModel("anew", str(models[0]), context=256))
        listener.submit(ask("behind", models[0], 56))
        for _ in range(20):
            listener.wait(is_chunk("running"))
        may_open.set()
        listener.finished("running")
        assert listener.finished("behind").reason == "length"
        ends = [event.id for event in listener.events if isinstance(event, Finished | ModelReady)]
        assert ends == ["first", "running", "anew", "behind"]


@pytest.mark.usefixtures("_slow_disk")
def test_what_hangs_on_the_load_waits_for_it_in_its_order(
    endless: Path, models: tuple[Path, Path, Path]
) -> None:
    with running_engine(EngineSettings(prefill_chunk=64)) as listener:
        listener.load(endless, "endless")
        listener.submit(ask("running", endless, 1 << 16))
        listener.wait(is_chunk("running"))
        with listener.held():
            for command in (
                LoadModel("second", str(models[0])),
                ask("newest", None, 8, chat="n"),
                ask("dropped", models[0], 400, chat="d"),
                Cancel("dropped"),
                Predict(ask("asked about", endless)),
                UnloadModel(str(endless)),
            ):
                listener.submit(command)
        assert listener.finished("dropped").reason == "cancelled"  # at once
        listener.wait(lambda event: isinstance(event, Predicted))
        assert listener.finished("newest").tokens
        assert listener.finished("running").reason == "cancelled"
        while not unloaded(listener.events):
            listener.wait(lambda event: True)
        ready = [place for place, event in enumerate(listener.events) if isinstance(event, ModelReady)]
        ends = [
            (place, event.id) for place, event in enumerate(listener.events) if isinstance(event, Finished)
        ]
        assert all((place < ready[-1]) == (name == "dropped") for place, name in ends)
        listener.submit(ask("alone", models[0], 8, chat="n"))
        assert listener.finished("alone").tokens == listener.finished("newest").tokens


@pytest.mark.usefixtures("_slow_disk")
@pytest.mark.parametrize("is_closed", [True, False])
def test_every_request_ends_once_where_the_load_does_not(
    endless: Path, models: tuple[Path, Path, Path], *, is_closed: bool
) -> None:
    listener = Listener(EngineSettings(prefill_chunk=64, kv_bytes=4 * ONE))
    listener.load(write_random_model(endless.parent / "short", seed=6, max_position_embeddings=512), "first")
    listener.submit(ask("running", endless.parent / "short", 250))
    listener.wait(is_chunk("running"))
    listener.submit(LoadModel("second", str(models[1])))
    listener.submit(ask("behind", models[1], 4, chat="b"))
    listener.wait(lambda event: isinstance(event, LoadProgress))
    if is_closed:
        assert listener.engine.close(60)
    else:
        listener.finished("behind")
        listener.finished("running")
        assert listener.engine.close(60)
    listener.drain()
    for name in ("running", "second", "behind"):
        assert sum(getattr(event, "id", "") == name and is_end(event) for event in listener.events) == 1


def is_end(event: Event) -> bool:
    return type(event).__name__ in ("Finished", "Failed", "ModelReady")
