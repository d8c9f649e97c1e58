"""The engine as its callers see it: commands in, events out, one end per request, a thread that lives on."""

from __future__ import annotations

import threading
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from engine import (
    Cancel,
    Engine,
    EngineError,
    EngineSettings,
    Event,
    Failed,
    Finished,
    Forget,
    Generate,
    LoadModel,
    LoadProgress,
    ModelReady,
    ModelUnloaded,
    Pin,
    PrefillProgress,
    Release,
    SamplingParams,
    Stats,
    TextChunk,
    UnloadModel,
)
from engine.machine.machine import memory_bytes
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model

PROMPT = tuple(int(token) for token in np.random.default_rng(3).integers(3, 300, 50))


def first_chunk(event: Event) -> bool:
    return isinstance(event, TextChunk)


def test_loading_reports_progress_and_then_what_is_loaded(listener: Listener, folder: Path) -> None:
    ready = listener.load(folder)
    progress = [event for event in listener.events if isinstance(event, LoadProgress)]
    loaded = [event.loaded_bytes for event in progress]  # on a quick machine some are never told
    assert loaded == sorted(loaded)
    assert loaded[-1] == progress[-1].total_bytes > 0
    model = ready.model
    assert (model.name, model.family, model.context_length, model.page_size) == ("tiny", "llama", 1024, 16)
    assert model.parameters == sum(t.size for t in load_file(folder / "model.safetensors").values())
    assert model.total_pages * model.page_bytes <= memory_bytes() // 2
    assert model.executor == "reference"
    assert model.has_chat_template


def test_cancel_ends_within_a_step_and_gives_all_pages_back(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    listener.submit_at(first_chunk, Cancel("a"))
    listener.submit(Generate("a", tokens=PROMPT, ignore_eos=True))
    end = listener.finished("a")
    assert end.reason == "cancelled"
    assert 1 <= len(end.tokens) < 900
    stats = listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
    assert isinstance(stats, Stats)
    assert stats.pages_used == 0


def test_cancel_during_prefill_ends_before_the_next_chunk(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    listener.submit_at(
        lambda event: isinstance(event, PrefillProgress) and event.done_tokens > 0, Cancel("a")
    )
    listener.submit(Generate("a", tokens=PROMPT * 15, max_tokens=5))
    end = listener.finished("a")
    assert (end.reason, end.tokens, end.text) == ("cancelled", (), "")
    told = [event.done_tokens for event in listener.drain() if isinstance(event, PrefillProgress)]
    assert sum(done > 0 for done in told) == 1


def test_cancelling_a_queued_request_leaves_the_running_one(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    with listener.held():
        for name in ("a", "b", "c"):
            listener.submit(Generate(name, tokens=PROMPT, max_tokens=20, ignore_eos=True))
        listener.submit(Cancel("b"))
        listener.submit(Cancel("nobody"))
    assert listener.finished("b").reason == "cancelled"
    assert listener.finished("a").tokens == listener.finished("c").tokens


@pytest.mark.parametrize(
    ("command", "kind", "says"),
    [
        (Generate("bad"), "InvalidRequest", "exactly one of messages, prompt and tokens"),
        (Generate("bad", prompt="x", tokens=(1,)), "InvalidRequest", "exactly one"),
        (Generate("bad", tokens=()), "InvalidRequest", "prompt is empty"),
        (Generate("bad", messages=()), "InvalidRequest", "messages is empty"),
        (Generate("bad", tokens=(5, 320)), "InvalidRequest", "token id 320 is outside"),
        (Generate("bad", tokens=(5, -1)), "InvalidRequest", "token id -1 is outside"),
        (Generate("bad", tokens=(5, 1 << 32)), "InvalidRequest", "token id 4294967296 is outside"),
        (Generate("bad", prompt="x", max_tokens=0), "InvalidRequest", "max_tokens is 0"),
        (Generate("bad", prompt="x", logprobs=-1), "InvalidRequest", "logprobs is -1"),
        (Generate("bad", prompt="x", stop=("",)), "InvalidRequest", "stop"),
        (
            Generate("bad", tokens=(5,) * 1024),
            "PromptTooLong",
            "1,024 tokens and this model's context holds 1,024",
        ),
        (
            Generate("bad", prompt="x", sampling=SamplingParams(logit_bias=((999, 1.0),))),
            "InvalidRequest",
            "999",
        ),
    ],
)
def test_a_bad_request_fails_alone(
    listener: Listener, folder: Path, command: Generate, kind: str, says: str
) -> None:
    listener.load(folder)
    listener.submit(command)
    failed = listener.failed("bad")
    assert failed.kind == kind
    assert says in failed.error
    assert "\n" not in failed.error
    listener.submit(Generate("good", tokens=PROMPT, max_tokens=3))
    assert listener.finished("good").tokens


def test_without_a_model_the_request_says_so(listener: Listener) -> None:
    listener.submit(Generate("a", prompt="hello"))
    assert listener.failed("a").kind == "NoModel"


def test_an_answer_that_fills_the_context_ends_as_length(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    listener.submit(Generate("a", tokens=PROMPT * 20, ignore_eos=True))
    end = listener.finished("a")
    assert end.reason == "length"
    assert len(end.prompt_tokens) + len(end.tokens) == 1024


def test_a_window_lets_the_context_outgrow_the_arena(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "m", "mistral", sliding_window=32, max_position_embeddings=600)
    with running_engine(EngineSettings(prefill_chunk=16, kv_pages=5)) as listener:
        model = listener.load(folder).model
        assert model.total_pages * model.page_size < model.context_length == 600
        listener.submit(Generate("a", tokens=PROMPT, ignore_eos=True))
        assert len(listener.finished("a").tokens) == 550


def test_a_small_budget_shortens_the_context(folder: Path) -> None:
    with running_engine(EngineSettings(kv_bytes=200_000)) as listener:
        model = listener.load(folder).model
        assert model.total_pages * model.page_bytes <= 200_000
        assert model.context_length == model.total_pages * 16 < 1024
        listener.submit(Generate("a", tokens=PROMPT, ignore_eos=True))
        assert len(listener.finished("a").tokens) == model.context_length - 50


def test_a_model_is_loaded_with_a_context_and_bits_of_its_own(listener: Listener, tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "m", head_dim=64)
    listener.submit(LoadModel("own", str(folder), context=100, kv_bits=8))
    own = listener.end_of("own")
    assert isinstance(own, ModelReady)
    assert own.model.context_length == 100
    listener.submit(Generate("a", tokens=PROMPT, ignore_eos=True))
    assert len(listener.finished("a").tokens) == 100 - len(PROMPT)
    listener.submit(Generate("b", tokens=PROMPT * 2))
    assert listener.failed("b").kind == "PromptTooLong"
    usual = listener.load(folder).model  # the next one is loaded as the engine's settings say
    assert usual.context_length == 1024
    assert own.model.page_bytes < usual.page_bytes


@pytest.mark.parametrize("wrong", [{"context": 0}, {"kv_bits": 3}])
def test_a_model_is_not_loaded_with_what_makes_no_sense(
    listener: Listener, folder: Path, wrong: dict[str, int]
) -> None:
    listener.submit(LoadModel("load", str(folder), **wrong))
    assert f"{next(iter(wrong))} is" in listener.failed("load").error


def test_a_budget_below_one_page_is_a_clear_failure(folder: Path) -> None:
    with running_engine(EngineSettings(kv_bytes=10)) as listener:
        listener.submit(LoadModel("load", str(folder)))
        error = listener.failed("load").error
        assert error.startswith("one KV page of 16 tokens takes ")
        assert error.endswith("the budget is set to 10; set a larger one")


def test_so_is_memory_that_has_no_room_for_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.loading.model.kv_budget", lambda *_: 9)
    with running_engine(EngineSettings(kv_bytes=10)) as listener:
        listener.submit(LoadModel("load", str(folder)))
        assert listener.failed("load").error.endswith("is 9; close other programs or use a smaller model")


@pytest.mark.parametrize("speculation", [True, False])
def test_numbers_that_are_not_finite_end_the_request(
    speculation: bool, listener: Listener, tmp_path: Path
) -> None:
    folder = write_random_model(tmp_path / "broken")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.1.mlp.down_proj.weight"][0, 0] = np.nan
    save_file(tensors, folder / "model.safetensors")
    listener.load(folder)
    listener.submit(Generate("a", tokens=PROMPT, speculation=speculation))
    failed = listener.failed("a")
    assert failed.kind == "NonFiniteLogits"
    assert "not finite" in failed.error


def test_a_failed_load_says_why_and_the_next_one_works(
    listener: Listener, folder: Path, tmp_path: Path
) -> None:
    listener.submit(LoadModel("gone", str(tmp_path / "nowhere")))
    assert "there is no model folder" in listener.failed("gone").error
    listener.load(folder)
    listener.submit(Generate("a", tokens=PROMPT, max_tokens=2))
    assert listener.finished("a").tokens


@pytest.mark.usefixtures("settled_memory")
def test_unloading_cancels_and_frees(listener: Listener, folder: Path) -> None:
    before = mx.get_active_memory()
    weights = listener.load(folder).model.weight_bytes
    assert mx.get_active_memory() - before >= weights
    listener.submit_at(first_chunk, UnloadModel())
    listener.submit(Generate("a", tokens=PROMPT, ignore_eos=True))
    assert listener.finished("a").reason == "cancelled"
    listener.wait(lambda event: isinstance(event, ModelUnloaded))
    assert mx.get_active_memory() - before < weights // 10


def test_shutdown_ends_what_runs(folder: Path) -> None:
    with running_engine() as listener:
        listener.load(folder)
        listener.submit(Generate("a", tokens=PROMPT, ignore_eos=True))
        listener.wait(first_chunk)
        assert listener.engine.close(timeout=60)
        ends = [event for event in listener.drain() if isinstance(event, Finished | Failed)]
        assert [end.id for end in ends] == ["a"]


def test_an_engine_that_never_started_closes() -> None:
    assert Engine(lambda event: None).close(timeout=1)


def test_an_id_in_flight_is_not_taken_twice(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    with listener.held():
        listener.submit(Generate("a", tokens=PROMPT, max_tokens=50, ignore_eos=True))
        with pytest.raises(ValueError, match="in flight"):
            listener.submit(Generate("a", tokens=PROMPT))
    listener.finished("a")
    listener.submit(Generate("a", tokens=PROMPT, max_tokens=1))


def test_a_receiver_that_raises_does_not_take_the_engine_down(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()

    def emit(event: Event) -> None:
        if isinstance(event, TextChunk):
            raise KeyError("receiver")
        if isinstance(event, Finished):
            ended.set()

    engine = Engine(emit)
    engine.start()
    engine.submit(LoadModel("load", str(folder)))
    engine.submit(Generate("a", tokens=PROMPT, max_tokens=5, ignore_eos=True))
    assert ended.wait(60)
    assert engine.close(timeout=60)
    assert "an event's receiver raised" in caplog.text


@pytest.mark.parametrize(
    ("command", "broken"),
    [
        (Forget("c"), "residents.residents.Residents.forget"),
        (Release("c"), "serving.Serving.release"),
        (Pin("c", True), "cache.chat_pages.ChatPages.pin"),
    ],
)
def test_a_command_that_breaks_is_logged_and_requests_go_on(
    command: Forget | Release | Pin,
    broken: str,
    listener: Listener,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def breaks(*_: object) -> None:
        raise OSError("the device is gone")

    listener.load(folder)
    monkeypatch.setattr(f"engine.{broken}", breaks)
    listener.submit(command)
    listener.submit(Generate("a", tokens=PROMPT, max_tokens=5, ignore_eos=True))
    assert len(listener.finished("a").tokens) == 5
    assert f"{type(command).__name__} could not be done" in caplog.text
    assert "the device is gone" in caplog.text


def test_stats_tell_pages_and_tokens_while_running(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    listener.submit(Generate("a", tokens=PROMPT * 2, max_tokens=400, ignore_eos=True))
    listener.finished("a")
    busy = [event for event in listener.events if isinstance(event, Stats) and event.active_id == "a"]
    assert busy
    for stats in busy:
        least = -(-stats.context_tokens // 16)
        assert least <= stats.pages_used <= least + 1  # room for the next tokens may be there already
        assert stats.pages_used < stats.total_pages


def test_an_executor_this_build_lacks_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXR_EXECUTOR", "metal")
    with running_engine() as listener:
        listener.submit(LoadModel("load", str(folder)))
        assert "MLXR_EXECUTOR=metal" in listener.failed("load").error


@pytest.mark.parametrize("wrong", [{"page_size": 0}, {"prefill_chunk": 0}, {"kv_bytes": 0}, {"context": 0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(EngineError, match="must be at least 1"):
        EngineSettings(**wrong)


def test_every_request_ends_exactly_once(listener: Listener, folder: Path) -> None:
    listener.load(folder)
    names = [f"r{number}" for number in range(12)]
    for number, name in enumerate(names):
        tokens = PROMPT if number % 3 else (5, 999)
        listener.submit(Generate(name, tokens=tokens, max_tokens=4))
        if number % 4 == 1:
            listener.submit(Cancel(name))
    for name in names:
        listener.end_of(name)
    ends = [event.id for event in listener.drain() if isinstance(event, Finished | Failed)]
    assert sorted(ends) == sorted(names)
    assert sum(isinstance(event, ModelReady) for event in listener.events) == 1
