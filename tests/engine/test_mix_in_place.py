"""Mixes on kernels that write pages in place, where steps are sent before the last one was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import Cancel, EngineSettings, Generate, SamplingParams, SsdSettings
from engine.requests.request import Sequence
from engine.runner import Runner
from engine.speculation.draft import Draft
from engine.steps.batch import Sent, send_draft
from tests.engine.mix import Chances, Mix, samples
from tests.engine.oracle import Checked, checked_model
from tests.engine.watched import guess_always, mix_always, restore_always, warm_always, watch_memory
from tests.fakes.listener import running_engine
from tests.metal.conftest import BUILD

SHAPE = {"head_dim": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
"""A shape that kernels take."""

COPIES = SamplingParams(temperature=0, logit_bias=((11, 60.0), (12, 60.0)))
"""What makes any model repeat a prompt of these two tokens, so that it is drafted."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checked]:
    root = tmp_path_factory.mktemp("models")
    return {kind: checked_model(root, kind, **SHAPE) for kind in ("llama", "window")}


@pytest.mark.parametrize(
    ("kind", "requests", "seed", "goes_with_answers"),
    [
        ("llama", 5, 7, True),
        pytest.param("llama", 40, 2, False, marks=pytest.mark.long),
        pytest.param("window", 40, 3, True, marks=pytest.mark.long),
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
    *,
    goes_with_answers: bool,
) -> None:
    settings = EngineSettings(kv_pages=12, prefill_chunk=32, executor=executor_name, cache=BUILD.parent)
    watch, mixed = watch_memory(monkeypatch), mix_always(monkeypatch) if goes_with_answers else []
    Mix(models[kind], settings, watch, seed, Chances(cancel=0.3)).play(requests, at_once=5)
    assert bool(mixed) is goes_with_answers
    assert watch.models[0].info.executor == executor_name
    assert watch.most_running > 1


@pytest.mark.long
@pytest.mark.parametrize(("kind", "seed"), [("llama", 3), ("window", 4)])
@pytest.mark.timeout(600)
def test_pages_come_back_from_ssd_in_a_mix_that_unloads_and_loads_again(
    kind: str,
    seed: int,
    executor_name: str,
    models: dict[str, Checked],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Each prompt that comes back is checked: what kernels compute again is what they had stored."""
    restore_always(monkeypatch)
    settings = EngineSettings(
        kv_pages=12,
        prefill_chunk=32,
        executor=executor_name,
        cache=BUILD.parent,
        ssd=SsdSettings(tmp_path / "kv", 1 << 30, 0, check_share=1.0),
    )
    watch = watch_memory(monkeypatch)
    mix = Mix(models[kind], settings, watch, seed, Chances(reload=0.1)).play(14, at_once=4)
    assert watch.models[0].info.executor == executor_name
    assert min(mix.seen["restored_pages"], mix.seen["evicted_pages"]) > 0


def test_an_answer_whose_draft_is_in_flight_is_joined_by_another(
    executor_name: str, models: dict[str, Checked], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the drafted answer can be sent before the draft is read; of another it can."""
    watch, model = watch_memory(monkeypatch), models["llama"]
    long = Generate("long", tokens=(11,) * 12, max_tokens=10, sampling=COPIES, ignore_eos=True)
    short = Generate("short", tokens=(5, 6, 7), max_tokens=2, logprobs=0, ignore_eos=True)
    drafts: list[Draft] = []

    def send_and_ask(runner: Runner, sequence: Sequence, draft: Draft) -> Sent:
        if not drafts:
            listener.submit(short)
        drafts.append(draft)
        return send_draft(runner, sequence, draft)

    monkeypatch.setattr("engine.batcher.send_draft", send_and_ask)
    guess_always(monkeypatch)
    warm_always(monkeypatch)
    settings = EngineSettings(prefill_chunk=32, executor=executor_name, cache=BUILD.parent)
    with running_engine(settings) as listener:
        listener.load(model.folder)
        listener.submit(long)
        drafted = listener.finished("long")
        (sample,) = samples(listener.finished("short"))
        assert not model.oracle.complaint(short, (5, 6, 7), sample)
    assert drafts
    with running_engine(EngineSettings(speculation=False)) as listener:
        listener.load(model.folder)
        listener.submit(long)
        assert listener.finished("long").tokens == drafted.tokens
    assert not watch.wrong


def test_a_draft_in_flight_when_its_answer_is_cancelled_is_not_kept(
    executor_name: str, models: dict[str, Checked], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft fills the first page with tokens that are nobody's."""
    watch, model, drafts = watch_memory(monkeypatch), models["llama"], list[Draft]()

    def send_and_cancel(runner: Runner, sequence: Sequence, draft: Draft) -> Sent:
        drafts.append(draft)
        listener.submit(Cancel(sequence.request.id))
        return send_draft(runner, sequence, draft)

    monkeypatch.setattr("engine.batcher.send_draft", send_and_cancel)
    guess_always(monkeypatch)
    warm_always(monkeypatch)
    settings = EngineSettings(prefill_chunk=32, executor=executor_name, cache=BUILD.parent)
    with running_engine(settings) as listener:
        listener.load(model.folder)
        prompt = (11,) * 12
        listener.submit(Generate("cancelled", tokens=prompt, sampling=COPIES, ignore_eos=True))
        ended = listener.finished("cancelled")
        assert (ended.reason, len(drafts)) == ("cancelled", 1)
        known = len(prompt) + len(ended.tokens)
        assert known < 16 <= known + len(drafts[0].tokens)
        tokens = (*prompt, *ended.tokens, *drafts[0].tokens, 7)
        following = Generate("next", tokens=tokens, max_tokens=3, logprobs=0, ignore_eos=True)
        listener.submit(following)
        end = listener.finished("next")
        assert end.timing.cached_tokens == known
        (sample,) = samples(end)
        assert not model.oracle.complaint(following, tokens, sample)
    assert not watch.wrong
