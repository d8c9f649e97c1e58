"""Mixes on kernels that write pages in place, where steps are sent before the last one was read."""

from __future__ import annotations

import pytest

from engine import EngineSettings, Generate, SamplingParams, Stats, TextChunk
from tests.engine.mix import Chances, Mix, samples
from tests.engine.oracle import Checked, checked_model
from tests.engine.watched import watch_memory
from tests.fakes.listener import running_engine
from tests.metal.conftest import BUILD

SHAPE = {"head_dim": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
"""A shape that kernels take."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checked]:
    root = tmp_path_factory.mktemp("models")
    return {kind: checked_model(root, kind, **SHAPE) for kind in ("llama", "window")}


@pytest.mark.parametrize(
    ("kind", "requests", "seed"),
    [
        ("llama", 5, 1),
        pytest.param("llama", 40, 2, marks=pytest.mark.long),
        pytest.param("window", 40, 3, marks=pytest.mark.long),
    ],
)
@pytest.mark.timeout(600)
def test_every_answer_of_a_mix_is_that_of_a_cold_run(
    kind: str,
    requests: int,
    seed: int,
    executor_name: str,
    models: dict[str, Checked],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = EngineSettings(kv_pages=12, prefill_chunk=32, executor=executor_name, cache=BUILD.parent)
    watch = watch_memory(monkeypatch)
    Mix(models[kind], settings, watch, seed, Chances(cancel=0.3)).play(requests, at_once=5)
    assert watch.models[0].info.executor == executor_name
    assert watch.most_running > 1


def test_an_answer_that_is_drafted_goes_on_while_others_come_and_go(
    executor_name: str, models: dict[str, Checked], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, model = watch_memory(monkeypatch), models["llama"]
    settings = EngineSettings(prefill_chunk=32, executor=executor_name, cache=BUILD.parent)
    copies = SamplingParams(temperature=0, logit_bias=((11, 60.0), (12, 60.0)))
    long = Generate("long", tokens=(11, 12) * 4, max_tokens=8, sampling=copies, ignore_eos=True)
    short = Generate("short", tokens=(5, 6, 7), max_tokens=1, ignore_eos=True)
    with running_engine(settings) as listener:
        listener.load(model.folder)
        listener.submit(long)
        listener.wait(lambda event: isinstance(event, TextChunk))
        listener.submit(short)
        drafted = listener.finished("long")
        (sample,) = samples(listener.finished("short"))
        assert not model.oracle.complaint(short, (5, 6, 7), sample)
        stats = listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
        assert isinstance(stats, Stats)
        assert stats.cache.drafted_tokens > 0
    with running_engine(EngineSettings(speculation=False)) as listener:
        listener.load(model.folder)
        listener.submit(long)
        assert listener.finished("long").tokens == drafted.tokens
    assert not watch.wrong
