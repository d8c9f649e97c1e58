"""The runner measured without the engine's thread writes what the engine writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import EngineSettings, Generate, ModelError, RunnerBench, machine_report
from engine.machine.machine import device_kind
from tests.fakes.listener import running_engine
from tests.fakes.random_model import write_random_model

PROMPTS = ((1, 40, 50, 60, 70), (1, 90, 80), (1, 44, 55, 66, 77, 88, 99))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("benchmark") / "model")


def test_a_batch_holds_what_each_prompt_gets_from_the_engine(model: Path) -> None:
    alone: list[tuple[int, ...]] = []
    with running_engine() as listener:
        listener.load(model)
        for number, prompt in enumerate(PROMPTS):
            listener.submit(Generate(str(number), tokens=prompt, max_tokens=20, ignore_eos=True))
            alone.append(listener.finished(str(number)).tokens)
    runner = RunnerBench(model)
    for _ in range(2):  # the second time in pages that the first gave back
        run = runner.run_batch(PROMPTS, 20)
        assert run.tokens == tuple(alone)
        assert run.decode_tps > 0


@pytest.mark.skipif(
    device_kind() != "CPU", reason="so small a model takes a GPU as long for hundreds of tokens"
)
def test_the_part_in_pages_is_not_in_the_time(model: Path) -> None:
    runner = RunnerBench(model)
    long = PROMPTS[0] * 150
    runner.first_token_after(long, PROMPTS[1])
    after_pages = min(runner.first_token_after(long, PROMPTS[1]) for _ in range(3))
    whole = min(runner.first_token_after((1,), long) for _ in range(3))
    assert 0 < after_pages < whole / 2


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        RunnerBench(tmp_path)


def test_the_hosts_time_is_for_machines_with_a_device(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = RunnerBench(model)
    assert (runner.host_seconds(PROMPTS[0], 4) is None) == (machine_report().device == "CPU")
    monkeypatch.setattr("engine.bench.runner_bench.device_kind", lambda: "CUDA")
    seconds = runner.host_seconds(PROMPTS[0], 4)
    assert seconds is not None
    assert 0 < seconds < 1


@pytest.mark.long
def test_launches_of_kernels_are_counted_a_step(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model", head_dim=64)
    settings = EngineSettings(executor="emulated", cache=tmp_path / "cache")
    expected = RunnerBench(folder).run_batch(PROMPTS[:2], 4)
    run = RunnerBench(folder, settings).run_batch(PROMPTS[:2], 4)
    assert expected.own_share == 0
    assert run.tokens == expected.tokens
    assert run.launches is not None
    assert 0 < run.launches <= 6 * 3 + 4
    assert run.own_share is not None
    assert 0.9 <= run.own_share <= 1
