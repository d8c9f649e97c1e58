"""A profile of a decode step: its parts are the step's, nothing of it stays, and no request waits for it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path

import mlx.core as mx
import pytest

from app.model_location import GUIDE
from engine import (
    Cancel,
    EngineSettings,
    Event,
    Failed,
    Finished,
    Generate,
    LoadModel,
    PrefillProgress,
    ProfileStep,
    Share,
    Stats,
    StepProfile,
    StepProfiled,
    UnloadModel,
)
from engine.bench.profiling import StepProfiler
from engine.kv.arena import empty_pool
from engine.kv.coding import Plane
from engine.machine.machine import device_kind
from engine.runner import Runner
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model
from tests.metal.conftest import BUILD

PROMPT = (1, *range(40, 160))
LONG = 7 * PROMPT
"""Leaves fewer pages of an arena's first size than a profile takes."""


def plain() -> EngineSettings:
    return EngineSettings(executor="reference", speculation=False, kv_pages=128)


def profiled(listener: Listener, request: str = "profile") -> StepProfile:
    listener.submit(ProfileStep(request))
    event = listener.wait(lambda event: _ends(event, request))
    assert isinstance(event, StepProfiled), event
    return event.profile


def refused(listener: Listener, request: str = "profile") -> Failed:
    event = listener.wait(lambda event: _ends(event, request))
    assert isinstance(event, Failed), event
    return event


def answer(listener: Listener, request: str, tokens: tuple[int, ...], count: int = 20) -> Finished:
    listener.submit(Generate(request, tokens=tokens, max_tokens=count, ignore_eos=True))
    return listener.finished(request)


def last_stats(listener: Listener) -> Stats:
    """Told behind the end of the last answer: one told before it may lack its last step."""
    events = listener.drain()
    ends = max(place for place, event in enumerate(events) if isinstance(event, Finished))
    behind = [event for event in events[ends:] if isinstance(event, Stats)]
    stats = behind[-1] if behind else listener.wait(lambda event: isinstance(event, Stats))
    assert isinstance(stats, Stats)
    return stats


def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles go on for a minute."""
    monkeypatch.setattr("engine.bench.profiling.MOST", 900)
    monkeypatch.setattr("engine.bench.profiling.SECONDS", 60.0)


def _ends(event: Event, request: str) -> bool:
    return isinstance(event, StepProfiled | Failed) and event.id == request


def test_the_parts_of_the_guide_s_step_add_up_to_it_in_launches_and_roughly_in_time() -> None:
    config = json.loads((GUIDE / "config.json").read_text())
    layers, width, inner = (
        config[name] for name in ("num_hidden_layers", "hidden_size", "intermediate_size")
    )
    with running_engine(plain()) as listener:
        listener.load(GUIDE)
        profiles = [profiled(listener, f"profile {number}") for number in range(4)]
        profile = profiles[-1]
        answer(listener, "answer", PROMPT, 11)
        stats = last_stats(listener)
    calls = Counter[str]()
    for part in profile.parts:
        calls[part.name] += part.calls
        assert part.launches
        assert part.alone > 0
    per_layer = {"project": layers, "attend": layers, "add": 2 * layers, "gated": layers}
    assert calls == {"embed": 1, **per_layer, "logits": 1, "pick": 1}
    forms = [(part.name, part.form) for part in profile.parts]
    assert ("gated", f"{width}→{inner}") in forms
    assert ("logits", f"{width}→{config['vocab_size']}") in forms
    launched = sum((Counter(part.launches) for part in profile.parts), Counter[str]())
    assert launched == profile.launches
    assert profile.between == {}
    steps = 10
    picks = 11  # the prompt's last row is one too
    expected = {name: steps * count for name, count in profile.launches.items()}
    is_host = device_kind() == "CPU"
    picking = ("host.pick",) if is_host else ("mlx.ArgReduce", "mlx.LogSumExp")
    assert Counter(stats.launches) == Counter(expected) + Counter(dict.fromkeys(picking, picks - steps))
    assert 5 <= profile.rounds <= 25
    # Other programs take more of a long step than of short parts: not all profiles have the machine.
    shares = [sum(part.seconds for part in each.parts) / each.step for each in profiles]
    assert max(shares) > 0.4, shares
    assert min(shares) < 1.4, shares
    if is_host:  # it computes what it is asked for
        assert profile.building is None
    else:
        assert profile.building is not None
        assert 0 < profile.building < profile.step
    assert profile.left == pytest.approx(profile.step - sum(p.calls * p.alone for p in profile.parts))


def test_on_kernels_the_parts_are_ours(
    executor_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.bench.profiling.FEWEST", 2)
    monkeypatch.setattr("engine.bench.profiling.SECONDS", 0.0)
    changes = {"head_dim": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    folder = write_random_model(tmp_path / "model", **changes)
    settings = EngineSettings(executor=executor_name, cache=BUILD.parent, speculation=False)
    with running_engine(settings) as listener:
        listener.load(folder)
        profile = profiled(listener)
        launches = answer(listener, "answer", (1, 40, 50), 3).launches
    found = {part.name: part.launches for part in profile.parts}
    assert found["attend"] == {"decode_attention": 3}
    assert found["project"] == found["gated"] == {"matvec": 3}
    assert (found["embed"], found["logits"], found["pick"]) == ({"embed": 1}, {"matvec": 1}, {"pick": 1})
    ((name, count),) = profile.between.items()  # lengths go on by one
    assert count == 1
    assert name.startswith("mlx.")
    assert name.endswith("Add")
    assert {name: 3 * count for name, count in profile.launches.items()} == launches
    assert profile.rounds == 2
    assert (profile.building is None) == (executor_name == "emulated")
    # Of a GPU's what an empty one takes is left out: more than some parts of so small a model take.
    if executor_name == "emulated":
        assert all(part.alone > 0 for part in profile.parts)


def test_nothing_of_it_stays_and_cached_pages_are_as_they_were(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    answers: list[list[tuple[int, ...]]] = []
    for is_profiled in (False, True):
        with running_engine(plain()) as listener:
            listener.load(folder)
            first = answer(listener, "first", PROMPT)
            before = last_stats(listener)
            if is_profiled:
                profiled(listener)
            second = answer(listener, "second", (*PROMPT, *first.tokens, 50))
            after = last_stats(listener)
            assert second.timing.cached_tokens > 100
            assert after.pages_used == 0
            launched = Counter(after.launches) - Counter(before.launches)
            assert launched == Counter(second.launches)
            answers.append([first.tokens, second.tokens])
    assert answers[0] == answers[1]


def test_a_request_is_answered_at_once_and_ends_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless(monkeypatch)
    rounds, has_begun, go_on = list[StepProfiler](), threading.Event(), StepProfiler.go_on

    def counted(profiler: StepProfiler) -> None:
        go_on(profiler)
        rounds.append(profiler)
        has_begun.set()

    monkeypatch.setattr(StepProfiler, "go_on", counted)
    folder = write_random_model(tmp_path / "model")
    with running_engine(plain()) as listener:
        listener.load(folder)
        expected = answer(listener, "before", PROMPT).tokens
        listener.submit(ProfileStep("profile"))
        assert has_begun.wait(60)
        listener.submit(Generate("request", tokens=PROMPT, max_tokens=20, ignore_eos=True))
        rounds_before = len(rounds)
        finished = listener.finished("request")
        stopped = next(event for event in listener.events if _ends(event, "profile"))
        assert isinstance(stopped, Failed)
        assert stopped.error.startswith("the profile was stopped")
        began = next(event for event in listener.events if getattr(event, "id", "") == "request")
        assert listener.events.index(stopped) < listener.events.index(began)
        assert len(rounds) <= rounds_before + 1  # the one that it came in
        assert finished.tokens == expected
        assert last_stats(listener).pages_used == 0


@pytest.mark.parametrize("command", [UnloadModel(), LoadModel("again", ""), Share("branch", PROMPT)])
def test_a_model_that_goes_or_may_come_ends_it_too(
    command: LoadModel | UnloadModel | Share, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless(monkeypatch)
    folder = write_random_model(tmp_path / "model")
    with running_engine(plain()) as listener:
        listener.load(folder)
        listener.submit(ProfileStep("profile"))
        listener.submit(command)
        assert "asked for something else" in refused(listener).error


def test_another_one_ends_it_before_it_takes_pages_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are not pages for two. What either launched is not counted."""
    folder, go_on = write_random_model(tmp_path / "model"), StepProfiler.go_on
    with running_engine(EngineSettings(executor="reference", speculation=False, kv_pages=40)) as listener:

        def goes_on(profiler: StepProfiler) -> None:
            go_on(profiler)
            monkeypatch.setattr(StepProfiler, "go_on", go_on)
            listener.submit(ProfileStep("second"))

        monkeypatch.setattr(StepProfiler, "go_on", goes_on)
        listener.load(folder)
        listener.submit(ProfileStep("first"))
        assert "another profile" in refused(listener, "first").error
        second = listener.wait(lambda event: _ends(event, "second"))
        assert isinstance(second, StepProfiled), second
        counted = answer(listener, "after", PROMPT).launches
        assert last_stats(listener).launches == counted


def test_it_is_refused_while_a_request_runs_and_without_a_model(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    with running_engine(plain()) as listener:
        listener.submit(ProfileStep("none"))
        assert refused(listener, "none").kind == "NoModel"
        listener.load(folder)
        listener.submit_at(lambda event: isinstance(event, PrefillProgress), ProfileStep("profile"))
        listener.submit_at(lambda event: _ends(event, "profile"), Cancel("long"))
        listener.submit(Generate("long", tokens=(1, 40), max_tokens=900, ignore_eos=True))
        assert "a request runs" in refused(listener).error
        assert listener.finished("long").reason == "cancelled"
        assert profiled(listener, "after").rounds >= 5


def test_memory_that_is_too_small_is_said(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model", max_position_embeddings=64)
    with running_engine(EngineSettings(executor="reference", kv_pages=1)) as listener:
        listener.load(folder)
        listener.submit(ProfileStep("profile"))
        assert refused(listener).kind == "OutOfPages"


def test_a_round_that_breaks_fails_the_profile_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_random_model(tmp_path / "model")
    with running_engine(plain()) as listener:
        listener.load(folder)
        expected = answer(listener, "before", PROMPT).tokens
        with monkeypatch.context() as patch:
            patch.setattr(Runner, "attend_decode", lambda runner, part: 1 / 0)
            listener.submit(ProfileStep("profile"))
            failed = refused(listener)
        assert failed.kind == "Internal"
        assert "division" in failed.error
        assert answer(listener, "after", PROMPT).tokens == expected
        assert last_stats(listener).pages_used == 0


def test_where_memory_for_it_cannot_be_had_it_fails_alone_and_holds_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, left = write_random_model(tmp_path / "model"), list[int]()

    def pool(kv_heads: int, plane: Plane, slots: int) -> mx.array:
        if left and slots and not left.pop():
            raise RuntimeError("[malloc] Unable to allocate 5 bytes.")
        return empty_pool(kv_heads, plane, slots)

    monkeypatch.setattr("engine.kv.arena.empty_pool", pool)
    with running_engine(plain()) as listener:
        listener.load(folder)
        expected = answer(listener, "before", LONG).tokens
        left += [0, 1, 1]  # keys and values of the first layer
        listener.submit(ProfileStep("profile"))
        assert "allocate" in refused(listener).error
        after = answer(listener, "after", LONG)
        assert not left
        assert after.tokens == expected
        assert last_stats(listener).pages_used == 0
        assert after.timing.cached_tokens == 0  # pages of a part of the layers are not trusted
