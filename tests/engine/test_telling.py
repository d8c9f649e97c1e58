"""What Stats says of running requests, against the events that end them and the pages that they hold."""

from __future__ import annotations

import time
from pathlib import Path

import mlx.core as mx
import pytest

from engine.cache.finding import Finding
from engine.commands import Generate
from engine.events.cache import CacheReport
from engine.events.events import Event, Finished, PrefillProgress, Stats
from engine.loading.model import load_model
from engine.pacing.chunking import ChunkSizer
from engine.prediction.foresight import Foresight
from engine.requests.accepting import accept_command
from engine.requests.request import Request
from engine.runner import Runner
from engine.sampling.params import SamplingParams
from engine.serving import Serving
from engine.settings import EngineSettings
from engine.stats import Pulse
from engine.steps.parts import Filling
from tests.fakes.random_model import VOCAB, write_random_model

PROMPTS = {"a": tuple(range(3, 100)), "b": tuple(range(60, 90))}


class Model:
    """A served model without the engine's thread, whose beat is that of its steps."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("engine.stats.INTERVAL", 0.0)
        settings = EngineSettings(cache=folder / "cache", speculation=False, prefill_chunk=16)
        self.loaded = load_model(write_random_model(folder / "model"), settings, lambda done, total: None)
        self.events: list[Event] = []
        self.serving = Serving(self.loaded, settings, self.events.append)

    def run(self, *commands: Generate) -> list[Stats]:
        """These, or both prompts together; every Stats on the way."""
        for command in commands or both_prompts():
            self.serving.add(
                accept_command(
                    command, self.loaded, lambda _: self.serving.chats.capacity(), time.perf_counter()
                )
            )
        while self.serving.busy:
            self.serving.work()
        return [event for event in self.events if isinstance(event, Stats)]


def both_prompts() -> list[Generate]:
    """Each a chat of its own."""
    greedy = SamplingParams(temperature=0)
    return [
        Generate(name, tokens=tokens, sampling=greedy, max_tokens=20, ignore_eos=True, chat=f"chat {name}")
        for name, tokens in PROMPTS.items()
    ]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    return Model(tmp_path, monkeypatch)


def test_a_running_request_is_told_from_its_prompt_to_its_last_token(model: Model) -> None:
    told = [request for stats in model.run() for request in stats.requests]
    for name, prompt in PROMPTS.items():
        own = [request for request in told if request.id == name]
        assert {request.prompt_tokens for request in own} == {len(prompt)}
        assert {request.chat for request in own} == {f"chat {name}"}
        done, generated = [r.done_tokens for r in own], [r.generated_tokens for r in own]
        assert (done, generated) == (sorted(done), sorted(generated))
        assert done[-1] == len(prompt)
        assert generated[-1] in (18, 19)  # the step that reads the last one ends it
        assert all((r.ttft_ms > 0) == (r.generated_tokens > 0) for r in own)
        (end,) = (e for e in model.events if isinstance(e, Finished) and e.id == name)
        assert own[-1].ttft_ms == end.timing.ttft_ms


def test_the_first_tokens_of_several_answers_have_no_rate(model: Model) -> None:
    command = Generate("four", tokens=PROMPTS["b"], n=4, max_tokens=20, ignore_eos=True)
    told = [stats for stats in model.run(command) if stats.requests]
    first = [stats.decode_tps for stats in told if stats.requests[0].generated_tokens == 4]
    assert first
    assert set(first) == {0.0}
    assert any(stats.decode_tps > 0 for stats in told)


def test_pages_that_several_answers_hold_are_counted_once(model: Model) -> None:
    command = Generate("four", tokens=PROMPTS["a"], n=4, max_tokens=8, ignore_eos=True)
    told = [
        stats for stats in model.run(command) if stats.requests and stats.requests[0].generated_tokens > 4
    ]
    assert {(stats.running, stats.shared_pages) for stats in told} == {(4, len(PROMPTS["a"]) // 16)}
    model.events.clear()
    assert {stats.shared_pages for stats in model.run()} == {
        0
    }  # "a" finds its pages, and "b" has none of them


def test_at_rest_nothing_runs_and_what_was_measured_stays(model: Model) -> None:
    stats = model.run()
    assert stats[-1].requests == ()
    assert stats[-1].gaps.count == 38  # of each of two answers of 20 tokens all but the first
    assert 0 < stats[-1].gaps.p50_ms <= stats[-1].gaps.p95_ms <= stats[-1].gaps.p99_ms
    times = [one.at for one in stats]
    assert times == sorted(times)
    assert times[-1] <= time.perf_counter()


def test_the_time_that_was_saved_is_added_up_by_what_was_expected_of_each_prompt(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds_a_token = 0.0

    def expected(_: Foresight, prompt: int, reused: int, *_others: object) -> float | None:
        return seconds_a_token * (prompt - reused) if seconds_a_token else None

    monkeypatch.setattr(Foresight, "first_token", expected)
    saved, found = [model.run()[-1].cache.saved_seconds], list[int]()
    for rate in (0.0, 1.0, 0.25):  # not known yet, and slower and quicker than before
        seconds_a_token = rate
        model.events.clear()
        saved.append(model.run()[-1].cache.saved_seconds)
        found.append(sum(event.cached_tokens for event in model.events if isinstance(event, CacheReport)))
    assert found[1] == found[2] > 100
    assert saved == [0.0, 0.0, found[1], 1.25 * found[1]]


@pytest.mark.parametrize("often", [0.0, 3600.0])
def test_progress_is_told_while_a_chunk_goes_through_the_layers_too(
    often: float, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.prediction.progress._OFTEN", often)
    monkeypatch.setattr(ChunkSizer, "layers", lambda *_: 1)
    model.run()
    for name, prompt in PROMPTS.items():
        told = [event for event in model.events if isinstance(event, PrefillProgress) and event.id == name]
        done = [event.done_tokens for event in told]
        assert done == sorted(done)
        assert (done[0], done[-1], done.count(len(prompt))) == (0, len(prompt), 1)
        inside = [tokens for tokens in done[:-1] if tokens % 16]
        assert bool(inside) is (often == 0.0)


@pytest.mark.parametrize(("rate", "is_asked"), [(20.0, True), (2_000.0, False)])
def test_what_is_left_is_reckoned_at_once_only_of_a_prompt_that_takes_a_while(
    rate: float, is_asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """97 tokens: a few seconds for one machine, half a tenth of one for another."""
    monkeypatch.setattr(ChunkSizer, "rate", rate)
    asked = list[int]()

    def left(_finding: Finding, _request: Request, done: int) -> float:
        asked.append(done)
        return 7.0

    monkeypatch.setattr(Finding, "left", left)
    model = Model(tmp_path, monkeypatch)
    model.run(both_prompts()[0])
    first, second, *_ = [event for event in model.events if isinstance(event, PrefillProgress)]
    assert (first.done_tokens, first.seconds) == (0, 7.0 if is_asked else None)
    assert (asked[0] == 0) is is_asked  # later it is asked of both
    assert second.done_tokens > 0
    assert second.seconds is not None  # of what goes on longer it is told in any case


def test_memory_is_the_arenas_and_the_systems(model: Model) -> None:
    last = model.run()[-1]
    arena = model.loaded.arena
    assert last.memory.arena_bytes == arena.pages * arena.page_bytes > 0
    assert last.memory.process_bytes > last.memory.arena_bytes


@pytest.mark.parametrize("tied", [True, False])
def test_a_step_reads_all_weights_but_a_lookup_table(tmp_path: Path, tied: bool) -> None:
    folder = write_random_model(tmp_path / "model", tie_word_embeddings=tied)
    info = load_model(folder, EngineSettings(cache=tmp_path), lambda done, total: None).info
    table = VOCAB * 64 * 4
    assert info.weight_bytes - info.step_weight_bytes == (0 if tied else table)


@pytest.mark.parametrize("looks_ahead", [False, True])
def test_what_was_found_is_told_before_who_waits_for_the_first_chunk_and_else_behind_sending_it(
    looks_ahead: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, told = Model(tmp_path, monkeypatch), list[int]()
    advance = Runner.advance

    def watched(self: Runner, filling: Filling, layers: int) -> mx.array | None:
        told.append(sum(isinstance(event, CacheReport) for event in model.events))
        return advance(self, filling, layers)

    monkeypatch.setattr(Runner, "looks_ahead", looks_ahead)
    monkeypatch.setattr(Runner, "advance", watched)
    model.run()
    assert told[0] == (0 if looks_ahead else 1)
    assert sum(isinstance(event, CacheReport) for event in model.events) == len(PROMPTS)


def test_an_answer_that_is_quicker_than_the_pulse_is_told_once_while_it_runs(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.stats.INTERVAL", 3600.0)
    running = [stats for stats in model.run() if stats.decode_tps > 0]
    assert len(running) == 1  # when the first of both ends
    assert max(request.generated_tokens for request in running[0].requests) == 20


def test_so_is_one_of_which_a_pulse_met_its_first_token(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, token = list[float](), Pulse.token
    monkeypatch.delitem(PROMPTS, "b")

    def note(self: Pulse, now: float) -> None:
        tokens.append(now)
        token(self, now)

    monkeypatch.setattr(Pulse, "token", note)
    monkeypatch.setattr(Pulse, "due", lambda *_: len(tokens) == 1)
    assert [stats for stats in model.run() if stats.decode_tps > 0]
