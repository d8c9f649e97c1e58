"""Records are what the engine's events say, timed by a clock that cannot be set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from app import VERSION
from app.history.recorder import Recorder
from app.history.records import RequestRecord
from engine import (
    CacheReport,
    Command,
    Event,
    Failed,
    Finished,
    Generate,
    KernelsChosen,
    LoadModel,
    ModelReady,
    Sample,
    SamplingParams,
    Timing,
)
from tests.fakes.scripted_engine import model_info

TIMING = Timing(ttft_ms=250.0, prefill_tokens=30, cached_tokens=70, prefill_tps=200.0, decode_tps=50.0)


class Scene:
    """A recorder with clocks that are set by hand.

    Attributes:
        wall, moment: what the two clocks say.
        records: what was recorded.
        commands: what reached the engine.
    """

    def __init__(self, kv_bits: int | None = None) -> None:
        self.wall, self.moment = 1000.0, 0.0
        self.records: list[RequestRecord] = []
        self.commands: list[Command] = []
        self.recorder = Recorder(
            self.records.append, "window", kv_bits, lambda: self.wall, lambda: self.moment
        )
        self.submit = self.recorder.passing(self.commands.append)

    def tell(self, *events: Event) -> None:
        for event in events:
            self.recorder.take(event)

    def answer(self, command: Generate, events: Iterable[Event]) -> RequestRecord:
        """What is recorded of a request that takes 2 s."""
        self.submit(command)
        self.moment += 2.0
        self.tell(*events)
        return self.records[-1]


def finished(id_: str, **changes: object) -> Finished:
    told = Finished(id_, "stop", "a b", (1, 2, 3), tuple(range(100)), None, TIMING)
    return replace(told, **changes)  # type: ignore[arg-type]


def test_a_request_is_recorded_as_it_went() -> None:
    scene = Scene()
    scene.submit(LoadModel("load", "/m/tiny"))
    scene.tell(ModelReady("load", model_info("/m/tiny")))
    scene.moment = 7.0
    sampling = SamplingParams(temperature=0.5, top_k=40, top_p=0.8, min_p=0.1)
    command = Generate("r", prompt="p", sampling=sampling, chat="c", model="/m/tiny")
    other = Sample("stop", "c", (4, 5), None)
    end = finished("r", others=(other,), drafted_tokens=9, accepted_tokens=4)
    one = scene.answer(replace(command, n=2), [CacheReport("r", 100, 60, 10), end])
    assert one == RequestRecord(
        at=1000.0,
        session=scene.recorder.session,
        since=7.0,
        client="window",
        chat="c",
        model="/m/tiny",
        version=VERSION,
        executor="reference",
        device="CPU",
        kv_bits=None,
        temperature=0.5,
        top_k=40,
        top_p=0.8,
        min_p=0.1,
        answers=2,
        prompt_tokens=100,
        cached_tokens=60,
        restored_tokens=10,
        answer_tokens=5,
        drafted_tokens=9,
        accepted_tokens=4,
        queued_ms=100.0,  # 250 less the 30 tokens at 200 a second
        ttft_ms=250.0,
        total_ms=2000.0,
        prefill_tps=200.0,
        decode_tps=50.0,
        outcome="finished",
        reason="stop",
        id=one.id,
    )
    assert scene.commands == [LoadModel("load", "/m/tiny"), replace(command, n=2)]
    assert len(scene.records) == 1


@pytest.mark.parametrize("jump", [-1e9, -3600.0, 3600.0])
def test_a_clock_that_is_set_changes_no_duration(jump: float) -> None:
    scene = Scene()
    scene.submit(Generate("r", prompt="p"))
    scene.wall += jump
    scene.moment += 1.5
    scene.tell(finished("r"))
    later = scene.answer(Generate("s", prompt="p"), [finished("s")])
    assert [(one.total_ms, one.since) for one in scene.records] == [(1500.0, 0.0), (2000.0, 1.5)]
    assert later.at == 1000.0 + jump


def test_a_request_without_a_token_has_no_times_but_its_end() -> None:
    end = finished("r", reason="cancelled", tokens=(), prompt_tokens=(), timing=Timing(0.0, 0, 0, 0.0, 0.0))
    one = Scene().answer(Generate("r", prompt="p"), [end])
    assert (one.outcome, one.reason, one.total_ms) == ("stopped", "cancelled", 2000.0)
    assert (one.queued_ms, one.ttft_ms, one.prefill_tps, one.decode_tps) == (None, None, None, None)
    assert (one.prompt_tokens, one.answer_tokens) == (0, 0)


def test_a_failure_is_recorded_with_its_line_and_not_its_traceback() -> None:
    failed = Failed("r", "the prompt is too long", "PromptTooLong", detail="Traceback: secret")
    one = Scene().answer(Generate("r", prompt="p", model="/m/gone"), [failed])
    assert (one.outcome, one.reason, one.error) == ("failed", "PromptTooLong", "the prompt is too long")
    assert (one.model, one.executor) == ("/m/gone", "")


def test_what_nobody_here_asked_is_not_recorded() -> None:
    scene = Scene()
    scene.tell(
        CacheReport("other", 1, 0, 0), finished("other"), Failed("load", "no such model", "ModelError")
    )
    assert scene.records == []


def test_requests_keep_the_settings_of_their_time() -> None:
    scene = Scene(kv_bits=8)
    info = model_info("/m/tiny")
    scene.submit(LoadModel("load", "/m/tiny"))
    scene.tell(ModelReady("load", info))
    first = scene.answer(Generate("a", prompt="p"), [finished("a")])
    scene.tell(KernelsChosen(replace(info, executor="cuda", device="CUDA")))
    scene.submit(LoadModel("again", "/m/tiny", kv_bits=None))
    second = scene.answer(Generate("b", prompt="p"), [finished("b")])
    assert [(one.model, one.kv_bits, one.executor) for one in (first, second)] == [
        ("/m/tiny", 8, "reference"),
        ("/m/tiny", None, "cuda"),
    ]
