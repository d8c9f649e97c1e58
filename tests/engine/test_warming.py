"""No guess waits for a compiler: a step is guessed for when its kernels were compiled at rest, or at load."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine import EngineSettings, Event, Finished, Generate, SamplingParams, Stats
from engine.accepting import accept_command
from engine.kv.ssd_settings import SsdSettings
from engine.loading.model import LoadedModel, load_model
from engine.runner import Runner
from engine.serving import Serving
from engine.speculation.model_drafter import DraftModel
from engine.tidying import SPILL_AFTER
from engine.warm_up import warm_step
from engine.warming import PAUSE_S, TYPING_S
from tests.engine.first_launches import FirstLaunches
from tests.engine.watched import guess_always
from tests.fakes.random_model import write_random_model

TEXT = tuple(range(3, 23)) * 2
"""What comes out is token 0 again and again, which is soon known."""
SHAPE = {
    "head_dim": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 2048,
}


class Device:
    """A model, or two, served on a GPU that counts what it compiles; without the engine's thread."""

    def __init__(
        self,
        folder: Path,
        *,
        speculation: bool = True,
        draft: bool = False,
        kv_bits: int | None = None,
        shape: Mapping[str, Any] = SHAPE,
        ssd: SsdSettings | None = None,
    ) -> None:
        self.gpu, self.events = FirstLaunches(), list[Event]()
        settings = EngineSettings(
            executor="emulated",
            cache=folder / "cache",
            ssd=ssd,
            speculation=speculation,
            kv_bits=kv_bits,
            kv_pages=4096,
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("engine.loading.executor.open_executor", self._gpu_for)
            self.model = _load(folder / "model", settings, shape)
            draft_model = DraftModel(_load(folder / "draft", settings, shape), self.model) if draft else None
        self.serving = Serving(self.model, settings, self.events.append, draft_model)

    def ask(self, tokens: tuple[int, ...] = TEXT, answer: int = 60, temperature: float = 0) -> int:
        """Generate; returns how many tokens were guessed for it."""
        before, name = self.guessed, self._send(tokens, answer, temperature)
        while self.serving.busy:
            self.serving.work()
        (end,) = (event for event in self.events if isinstance(event, Finished) and event.id == name)
        assert len(end.tokens) == answer
        return self.guessed - before

    def ask_beside(self, tokens: tuple[int, ...]) -> None:
        """Generate a token behind `tokens` beside an answer that is being written."""
        self._send(TEXT, 500, 0)
        for _ in range(5):
            self.serving.work()
        name = self._send(tokens, 1, 0)
        while not any(isinstance(event, Finished) and event.id == name for event in self.events):
            self.serving.work()
        self.serving.cancel_all()

    def ask_at_once(self, answers: Sequence[int]) -> None:
        """Generate answers of these lengths beside each other."""
        for number, answer in enumerate(answers):
            self._send(TEXT[number % 7 :], answer, 0)
        while self.serving.busy:
            self.serving.work()

    def _send(self, tokens: tuple[int, ...], answer: int, temperature: float) -> str:
        name = str(len(self.events))
        sampling = SamplingParams(
            temperature=temperature, seed=1, logit_bias=((0, 50.0),) if temperature else ()
        )
        command = Generate(name, tokens=tokens, max_tokens=answer, sampling=sampling, ignore_eos=True)
        accepted = accept_command(
            command, self.model, lambda prompt: self.serving.chats.capacity(), time.perf_counter()
        )
        self.serving.add(accepted)
        return name

    def _gpu_for(self, *_: object) -> FirstLaunches:
        return self.gpu

    @property
    def guessed(self) -> int:
        stats = [event for event in self.events if isinstance(event, Stats)]
        return stats[-1].cache.drafted_tokens if stats else 0

    def rest(self) -> int:
        """Until there is nothing to compile; returns how many times something was."""
        steps = 0
        while (due := self.serving.next_tidying) is not None and due == PAUSE_S:
            self.serving.tidy(PAUSE_S)
            steps += 1
        return steps


def _load(folder: Path, settings: EngineSettings, shape: Mapping[str, Any]) -> LoadedModel:
    write_random_model(folder, **shape)
    return load_model(folder, settings, lambda done, total: None)


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    guess_always(monkeypatch)


@pytest.fixture
def slow_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but what the first token needs is compiled at load."""
    monkeypatch.setattr("engine.warm_up.AT_LOAD_S", 0.0)
    monkeypatch.setattr("engine.warm_up.A_MOMENT_S", 0.0)


@pytest.mark.usefixtures("slow_compiler")
@pytest.mark.parametrize("kv_bits", [None, 8], ids=["in-place", "functional"])
def test_nothing_is_guessed_before_rest_and_then_no_guess_compiles(
    kv_bits: int | None, tmp_path: Path
) -> None:
    device = Device(tmp_path, kv_bits=kv_bits)
    assert device.model.kernels is not None
    assert device.model.kernels.is_in_place == (kv_bits is None)
    compiled = list(device.gpu.compiled)
    assert device.ask() == 0
    assert list(device.gpu.compiled) == compiled
    assert device.rest() > 0
    compiled = list(device.gpu.compiled)
    for temperature in (0, 0.7):
        assert device.ask(temperature=temperature) > 0
    assert device.ask((5, *TEXT), answer=1200) > 0  # through wider page tables
    assert list(device.gpu.compiled) == compiled
    assert device.model.pager.pages_used == 0


@pytest.mark.usefixtures("slow_compiler")
def test_where_each_length_is_another_one_those_of_long_prompts_are_met_at_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pads(*_: object) -> bool:
        return True

    monkeypatch.setattr("engine.kernels.Kernels._pads", pads)
    attend, seen = mx.fast.scaled_dot_product_attention, set[tuple[int, int]]()

    def noted(q: mx.array, keys: mx.array, *rest: Any, **named: Any) -> mx.array:
        seen.add((q.shape[2], keys.shape[2]))
        return attend(q, keys, *rest, **named)

    monkeypatch.setattr(mx.fast, "scaled_dot_product_attention", noted)
    device = Device(tmp_path, speculation=False, shape={**SHAPE, "max_position_embeddings": 8192})
    assert (256, 512) not in seen
    device.rest()
    met = set(seen)
    assert {(64, 64), (64, 8192), (256, 256), (256, 512), (2048, 2048), (2048, 6144), (2048, 8192)} <= met
    seen.clear()
    for prompt in (TEXT * 180, TEXT[::-1] * 20, TEXT * 151):  # new, short, and partly known
        device.ask(prompt, answer=2)
    assert max(queries for queries, _ in seen) >= 256
    assert seen <= met
    assert device.model.pager.pages_used == 0


@pytest.mark.usefixtures("slow_compiler")
def test_pages_are_put_away_when_it_is_time_though_much_is_left_to_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(tmp_path, ssd=SsdSettings(tmp_path / "kv", cap_bytes=64 << 20, floor_bytes=0))
    memory, serving = device.model.memory, device.serving
    is_short = [False]
    monkeypatch.setattr("engine.tidying.LOOK_EVERY", PAUSE_S)
    monkeypatch.setattr(serving._tidying, "_is_short", lambda more: is_short[0])
    device.ask(TEXT * 9)

    def rest(begin: float, end: float) -> None:
        idle = begin
        while idle < end:
            due = serving.next_tidying
            assert due is not None
            idle += due
            serving.tidy(idle)

    rest(0.0, SPILL_AFTER - PAUSE_S)
    assert memory.counts.spilled_pages == 0
    rest(SPILL_AFTER - PAUSE_S, SPILL_AFTER + PAUSE_S)
    assert memory.counts.spilled_pages == memory.cached_pages - 1 > 0
    assert serving._warming.cold_steps
    is_short[0] = True
    rest(SPILL_AFTER + PAUSE_S, SPILL_AFTER + 2 * PAUSE_S)
    assert memory.cached_pages == device.model.arena.pages == 0
    assert serving._warming.cold_steps
    serving.close()


@pytest.mark.usefixtures("slow_compiler")
def test_what_compiling_leaves_in_the_allocator_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, given_back = Device(tmp_path), list[int]()
    monkeypatch.setattr(device.serving._tidying, "_is_short", lambda more: False)
    assert device.serving._warming.cold_steps
    monkeypatch.setattr(mx, "clear_cache", lambda: given_back.append(device.serving._warming.cold_steps))
    idle = 0.0
    while (due := device.serving.next_tidying) is not None:
        idle += due
        device.serving.tidy(idle)
    assert given_back[-1] == 0
    assert device.serving._warming.cold_steps == 0


@pytest.mark.usefixtures("slow_compiler")
@pytest.mark.parametrize("tokens", range(1, 9))
def test_no_short_prompt_compiles_either(tokens: int, tmp_path: Path) -> None:
    device = Device(tmp_path, speculation=False)
    for _ in range(2):
        compiled = list(device.gpu.compiled)
        device.ask(TEXT[:tokens], answer=2)
        assert list(device.gpu.compiled) == compiled
        device.rest()


@pytest.mark.usefixtures("slow_compiler")
def test_a_rest_that_is_cut_short_leaves_the_lengths_that_were_not_compiled(tmp_path: Path) -> None:
    device, seen = Device(tmp_path), list[int]()
    while device.serving.next_tidying == PAUSE_S:
        device.serving.tidy(PAUSE_S)
        compiled = list(device.gpu.compiled)
        seen.append(device.ask())
        assert list(device.gpu.compiled) == compiled
        device.serving.tidy(0.9 * PAUSE_S)  # too short a rest
        assert list(device.gpu.compiled) == compiled
    unguessed = seen.count(0)  # steps of one token come first
    assert unguessed >= 1
    assert all(seen[unguessed:])


@pytest.mark.usefixtures("slow_compiler")
def test_nothing_is_compiled_while_somebody_writes(tmp_path: Path) -> None:
    """What is typed is asked about; a compiler would hold up the first token of what is about to be sent."""
    device = Device(tmp_path)
    command = Generate("asked", tokens=TEXT, max_tokens=5)
    asked = accept_command(command, device.model, lambda _: device.serving.chats.capacity(), 0.0)
    compiled = list(device.gpu.compiled)
    for _ in range(3):
        device.serving.predict(asked)
        assert device.serving.next_tidying == TYPING_S
        device.serving.tidy(0.9 * TYPING_S)
        assert list(device.gpu.compiled) == compiled
    device.serving.tidy(TYPING_S)
    assert device.rest()
    assert list(device.gpu.compiled) != compiled


def test_tables_of_every_width_run_what_was_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where many partitions keep a GPU busy, attention is cut otherwise."""
    monkeypatch.setattr("engine.warm_up.AT_LOAD_S", 60.0)
    heads = {"num_attention_heads": 8, "num_key_value_heads": 8}
    device = Device(tmp_path, shape={**SHAPE, **heads, "max_position_embeddings": 1 << 16})
    assert device.model.info.context_length == 1 << 16
    compiled, runner = list(device.gpu.compiled), Runner(device.model)
    for length in (1 << bits for bits in range(9, 17)):
        for tokens in (1, 2, 4, 8):
            warm_step(runner, device.model, tokens, length)
    assert list(device.gpu.compiled) == compiled
    warm_step(runner, device.model, 3, 512)
    assert list(device.gpu.compiled) != compiled


@pytest.mark.usefixtures("slow_compiler")
def test_a_kind_of_step_that_breaks_at_rest_is_not_used_and_tried_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(runner: Runner, model: LoadedModel, tokens: int, length: int) -> None:
        if tokens == 8:
            raise RuntimeError("no pipeline could be made")
        warm_step(runner, model, tokens, length)

    device = Device(tmp_path)
    monkeypatch.setattr("engine.warm_up.warm_step", broken)
    device.rest()
    assert device.rest() == 0
    compiled = list(device.gpu.compiled)
    assert device.ask() > 0
    assert list(device.gpu.compiled) == compiled


def test_what_compiles_in_a_moment_is_compiled_at_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.warm_up.AT_LOAD_S", 60.0)
    device = Device(tmp_path)
    compiled = list(device.gpu.compiled)
    assert device.ask() > 0
    assert list(device.gpu.compiled) == compiled


@pytest.mark.usefixtures("slow_compiler")
def test_a_draft_model_guesses_when_both_models_are_warm(tmp_path: Path) -> None:
    device = Device(tmp_path, draft=True)
    unlike = tuple(range(3, 250, 3))
    assert device.ask(unlike) == 0
    device.rest()
    compiled = list(device.gpu.compiled)
    assert device.ask(unlike[::-1]) > 0
    assert device.ask((7, *unlike), answer=700) > 0
    assert list(device.gpu.compiled) == compiled


@pytest.mark.usefixtures("slow_compiler")
def test_what_is_compiled_at_rest_is_not_counted_and_nothing_is_kept(tmp_path: Path) -> None:
    device = Device(tmp_path)
    device.ask()
    stats = [event for event in device.events if isinstance(event, Stats)][-1]
    device.rest()
    later = [event for event in device.events if isinstance(event, Stats)][-1]
    assert (stats.cold_steps > 0, later.cold_steps) == (True, 0)
    assert (later.launches, later.pages_used, later.cached_pages) == (
        stats.launches,
        stats.pages_used,
        stats.cached_pages,
    )
