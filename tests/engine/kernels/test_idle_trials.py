"""Trials by an engine at rest: what they choose runs from the next request on; no request waits for them."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.cli.engine_checks import check_kernels
from app.paths import Paths
from engine import (
    Cancel,
    EngineSettings,
    Finished,
    Generate,
    KernelsChosen,
    KernelTrials,
    LoadModel,
    LoadProgress,
    ModelInfo,
    ModelReady,
    PutOffTrials,
    Stats,
    TextChunk,
)
from engine.kernels.idle_trials import IdleTrials, _Progress
from engine.kernels.launch_names import launcher
from engine.settings import ExecutorChoice
from metal.decode_attention import DecodeAttention
from metal.first_runs import MOST_ENDS, REASON
from tests.engine.loading.gguf.writer import write_gguf_model
from tests.fakes.listener import PATIENCE, Listener, running_engine
from tests.fakes.random_model import write_random_model
from tests.metal.conftest import BUILD
from tests.metal.test_first_runs import end

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("g++") is None, reason="the emulator needs Linux and g++"
)
COMMAND = (sys.executable, "-P", "-m", "tests.engine.acting_trial")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(
        tmp_path_factory.mktemp("models") / "model",
        head_dim=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=1,
        eos_token_id=None,
    )


@contextmanager
def resting_engine(
    home: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...] = COMMAND, **acts: str
) -> Generator[Listener]:
    """An engine that may try emulated kernels as if they were a GPU's, in processes where these act."""
    choice = ExecutorChoice("emulated", "as a GPU would", is_forced=False)

    def choose_executor(_setting: str | None) -> ExecutorChoice:
        return choice

    for module in ("engine.loading.executor", "engine.kernels.report"):
        monkeypatch.setattr(f"{module}.choose_executor", choose_executor)
    monkeypatch.setattr("engine.kernels.idle_trials.REST_S", 0.05)
    monkeypatch.setattr("engine.engine._TRIALS_SECONDS", PATIENCE)  # what a trial writes at its end is there
    monkeypatch.setenv("MLXR_ACTS", json.dumps({name.replace("_", " "): act for name, act in acts.items()}))
    cache = Paths(home).kernels
    cache.mkdir(parents=True, exist_ok=True)
    (BUILD.parent / "emulated").mkdir(parents=True, exist_ok=True)
    if not (cache / "emulated").exists():
        (cache / "emulated").symlink_to(BUILD.parent / "emulated", target_is_directory=True)
    with running_engine(EngineSettings(cache=cache, trial_command=command)) as listener:
        yield listener


def answer(listener: Listener, request: str) -> Finished:
    listener.submit(Generate(request, tokens=(1, 40, 50, 60), max_tokens=6, ignore_eos=True))
    return listener.finished(request)


def load_and_ask(listener: Listener, model: Path) -> tuple[ModelInfo, Finished]:
    """Its request "first" finds it before it can rest, and thus before anything is tried."""
    with listener.held():
        listener.submit(LoadModel("load", str(model)))
        listener.submit(Generate("first", tokens=(1, 40, 50, 60), max_tokens=6, ignore_eos=True))
    ready = listener.end_of("load")
    assert isinstance(ready, ModelReady), ready
    return ready.model, listener.finished("first")


def chosen(listener: Listener) -> ModelInfo:
    event = listener.wait(lambda event: isinstance(event, KernelsChosen))
    assert isinstance(event, KernelsChosen)
    return event.model


def off(home: Path, model: Path) -> list[str]:
    """What the doctor says is off."""
    return [finding.is_ for finding in check_kernels(Paths(home), model) if " is off: " in finding.is_]


def test_what_proved_faster_runs_from_the_next_request_on(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with resting_engine(tmp_path, monkeypatch, attention_set="fast", matvec="fast") as listener:
        before, first = load_and_ask(listener, model)
        assert before.executor == "reference"
        assert "tried here when nobody waits" in before.executor_reason
        assert all(launcher(name) != "ours" for name in first.launches)
        after = chosen(listener)
        assert (after.executor, after.kernel_notes) == ("emulated", ())
        assert "times as fast as MLX's" in after.executor_reason
        second = answer(listener, "second")
        assert second.tokens == first.tokens
        assert second.launches["decode_attention"] == 6  # prompts of 1 to 8 tokens are a decode step
        assert second.launches["matvec"] == 6 * 5
        stats = listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
        assert isinstance(stats, Stats)
        assert stats.launches == {
            name: first.launches.get(name, 0) + second.launches.get(name, 0)
            for name in {**first.launches, **second.launches}
        }
    with resting_engine(tmp_path, monkeypatch) as listener:
        assert listener.load(model).model.executor == "emulated"
        assert answer(listener, "third").launches == second.launches


@pytest.mark.parametrize(
    ("attention", "products", "ours", "says"),
    [
        pytest.param("wrong", "fast", {"matvec"}, "disagrees: error 1 > 1e-05", marks=pytest.mark.long),
        ("fast", "wrong", {"decode_attention"}, "disagrees: error 1 > 1e-05"),
        ("abort", "slow", set[str](), "signal 6 (abort)"),
    ],
    ids=["attention-disagrees", "products-disagree", "attention-aborts"],
)
def test_a_kernel_that_fails_is_off_and_named_and_the_rest_goes_on(
    attention: str,
    products: str,
    ours: set[str],
    says: str,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with resting_engine(tmp_path, monkeypatch, attention_set=attention, matvec=products) as listener:
        _, first = load_and_ask(listener, model)
        info = chosen(listener)
        second = answer(listener, "second")
        assert second.tokens == first.tokens
        assert {name for name in second.launches if not name.startswith("mlx.")} == ours
        assert any(says in note and "runs on MLX's own" in note for note in info.kernel_notes)
        assert (info.executor == "emulated") == ("decode_attention" in ours)
    assert any(says in line for line in off(tmp_path, model))


def test_kernels_for_blocks_are_tried_before_the_model_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.loading.model.TRIAL_SECONDS", PATIENCE)  # however slow the machine is
    file = tmp_path / "blocks.gguf"
    sizes = {"head_dim": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 1}
    write_gguf_model(file, **sizes)
    with resting_engine(tmp_path, monkeypatch, matvec="fast", embed="fast") as listener:
        monkeypatch.setattr("engine.kernels.idle_trials.REST_S", 600)  # what is tried is tried while it loads
        listener.load(file)
        waited = [event for event in listener.events if isinstance(event, LoadProgress) and event.is_trying]
        assert len(waited) == 1
        assert waited[0] is listener.events[-2]
        ops = json.loads((Paths(tmp_path).kernels / "kernels.json").read_text())["scopes"][0]["ops"]
        tried = {op["key"].split()[0] for op in ops if op["candidates"][-1]["status"] != "untried"}
        assert tried == {"matvec", "embed"}
        listener.submit(Generate("one", tokens=(1,), max_tokens=1, ignore_eos=True))
        launched = listener.finished("one").launches
        assert (launched["matvec_blocks"], launched["embed"]) == (5, 1)
        listener.load(file, "again")
        trying = [event.is_trying for event in listener.events if isinstance(event, LoadProgress)]
        assert trying.count(True) == 1


def test_another_model_s_answer_goes_on_while_kernels_for_blocks_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.loading.model.TRIAL_SECONDS", PATIENCE)
    file = tmp_path / "blocks.gguf"
    sizes = {"head_dim": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 1}
    write_gguf_model(file, **sizes)
    with resting_engine(tmp_path, monkeypatch, matvec="fast", embed="fast") as listener:
        endless = {"head_dim": 64, "num_hidden_layers": 1, "max_position_embeddings": 1 << 16}
        listener.load(write_random_model(tmp_path / "endless", eos_token_id=None, **endless), "first")
        listener.submit(PutOffTrials(True))
        listener.submit(Generate("runs", tokens=(1, 40, 50), max_tokens=1 << 15, ignore_eos=True))
        listener.wait(lambda event: isinstance(event, TextChunk))
        listener.submit(LoadModel("blocks", str(file)))
        assert isinstance(listener.end_of("blocks"), ModelReady)
        listener.submit(Cancel("runs"))
        assert listener.finished("runs").reason == "cancelled"
        is_tried = [isinstance(event, LoadProgress) and event.is_trying for event in listener.events]
        ready = [isinstance(event, ModelReady) for event in listener.events]
        tried = listener.events[is_tried.index(True) : len(ready) - ready[::-1].index(True)]
        assert sum(isinstance(event, TextChunk) for event in tried) > 3


def test_kernels_in_whose_first_runs_the_process_ended_twice_are_off(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with resting_engine(tmp_path, monkeypatch, attention_set="fast") as listener:
        listener.load(model)
        assert chosen(listener).executor == "emulated"
    folder = Paths(tmp_path).kernels
    assert list((folder / "first-runs").glob("*.marks")) == []  # a good end
    ops = json.loads((folder / "kernels.json").read_text())["scopes"][0]["ops"]
    ours = [one["digest"] for op in ops for one in op["candidates"] if one["name"] == op["chosen"]]
    for _ in range(MOST_ENDS):
        end(folder, " ".join(filter(None, ours)))
    with resting_engine(tmp_path, monkeypatch, attention_set="fast") as listener:
        info = listener.load(model).model
        assert info.executor == "reference"
        assert answer(listener, "first").tokens
    assert any(REASON in line for line in off(tmp_path, model))


def told(listener: Listener) -> list[KernelTrials]:
    return [event for event in listener.events if isinstance(event, KernelTrials)]


def trials(listener: Listener, fits: Callable[[KernelTrials], bool]) -> KernelTrials:
    """The first of what was told, or is, that fits."""
    found = next(filter(fits, told(listener)), None)
    event = found or listener.wait(lambda event: isinstance(event, KernelTrials) and fits(event))
    assert isinstance(event, KernelTrials)
    return event


def test_how_far_trials_are_is_told_and_a_request_interrupts_them(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with resting_engine(tmp_path, monkeypatch, attention_set="fast", matvec="sleep") as listener:
        listener.load(model)
        halfway = trials(listener, lambda event: event.done > 0)
        assert (halfway.model, halfway.is_running, halfway.problem) == (str(model), True, "")
        assert 0 < halfway.done < halfway.total
        assert answer(listener, "first").tokens
        interrupted = trials(listener, lambda event: not event.is_running)
        assert interrupted.done >= halfway.done
        assert interrupted.total == halfway.total
        listener.wait(lambda event: isinstance(event, KernelTrials) and event.is_running)  # it goes on
        begins = told(listener)[0]
        assert (begins.done, begins.is_running, begins.seconds_left) == (0, True, None)


def test_trials_are_put_off_until_they_are_wanted_again(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with resting_engine(tmp_path, monkeypatch, attention_set="fast", matvec="fast") as listener:
        listener.submit(PutOffTrials(True))
        listener.load(model)
        assert answer(listener, "first").tokens
        listener.submit(PutOffTrials(True))  # asked when there is something to put off, it is answered
        event = trials(listener, lambda _: True)
        assert (event.done, event.is_running, event.are_put_off) == (0, False, True)
        listener.submit(PutOffTrials(False))
        assert chosen(listener).executor == "emulated"
        assert any(event.done == event.total for event in told(listener))
        assert any(event.seconds_left is not None for event in told(listener))


def test_what_a_trial_tells_at_its_end_does_not_take_back_that_others_are_put_off(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial has made what it tells when trials are put off, and is slow to hand it over."""
    is_made, may_tell = threading.Event(), threading.Event()

    def told_late(self: IdleTrials, progress: _Progress, *, is_running: bool = False) -> None:
        event = progress.event(is_running=is_running)
        if not is_running and not is_made.is_set():
            is_made.set()
            assert may_tell.wait(PATIENCE)
        self._told(event)

    monkeypatch.setattr(IdleTrials, "_tell", told_late)
    with resting_engine(tmp_path, monkeypatch, attention_set="fast", matvec="sleep") as listener:
        listener.load(model)
        trials(listener, lambda event: event.done > 0)
        assert answer(listener, "first").tokens
        assert is_made.wait(PATIENCE)
        listener.submit(PutOffTrials(True))
        assert not trials(listener, lambda event: event.are_put_off).is_running
        may_tell.set()
        last = listener.wait(lambda event: isinstance(event, KernelTrials))
        assert isinstance(last, KernelTrials)
        assert last.are_put_off


def test_a_request_does_not_wait_for_a_trial_and_cuts_it_short(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with resting_engine(tmp_path, monkeypatch, attention_set="sleep", matvec="sleep") as listener:
        listener.load(model)
        table = Paths(tmp_path).kernels / "kernels.json"
        deadline = time.monotonic() + PATIENCE
        while not (table.exists() and '"trying"' in table.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert answer(listener, "first").tokens
    assert '"trying"' not in table.read_text()
    assert off(tmp_path, model) == [], "a trial that is waited for ends at its limit, and its kernel is off"


def test_where_trials_cannot_be_made_the_engine_says_so_once_and_goes_on(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with resting_engine(tmp_path, monkeypatch, (sys.executable, "-c", "")) as listener:
        listener.load(model)
        assert trials(listener, lambda event: bool(event.problem)).done == 0
        assert answer(listener, "first").tokens
        time.sleep(0.3)
        assert answer(listener, "second").tokens
    assert caplog.text.count("kernels stay untried") == 1


def test_after_a_step_that_broke_kernels_are_off_until_the_next_load(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with resting_engine(tmp_path, monkeypatch, attention_set="fast") as listener:
        _, first = load_and_ask(listener, model)
        assert chosen(listener).executor == "emulated"
        with monkeypatch.context() as broken:
            broken.setattr(DecodeAttention, "__call__", break_down)
            listener.submit(Generate("second", tokens=(1, 40, 50, 60), max_tokens=6, ignore_eos=True))
            assert "the pipeline could not be made" in listener.failed("second").error
        info = [event.model for event in listener.events if isinstance(event, KernelsChosen)][-1]
        assert info.executor == "reference"
        assert "since a step broke (the pipeline could not be made)" in info.executor_reason
        third = answer(listener, "third")
        assert third.tokens == first.tokens
        assert all(launcher(name) != "ours" for name in third.launches)
        assert listener.load(model, "again").model.executor == "emulated"


def break_down(*_: object, **__: object) -> None:
    raise RuntimeError("the pipeline could not be made")
