"""No guess waits for a compiler: a step is guessed for when its kernels were compiled at rest, or at load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine import Generate, Stats
from engine.loading.model import LoadedModel
from engine.requests.accepting import accept_command
from engine.rest.warm_up import warm_step
from engine.rest.warming import PAUSE_S, TYPING_S
from engine.runner import Runner
from tests.engine.counting_device import SHAPE, TEXT, Device
from tests.engine.watched import guess_always


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    guess_always(monkeypatch)


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

    monkeypatch.setattr("engine.kernels.kernels.Kernels._pads", pads)
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
    monkeypatch.setattr("engine.rest.warm_up.AT_LOAD_S", 60.0)
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
    monkeypatch.setattr("engine.rest.warm_up.warm_step", broken)
    device.rest()
    assert device.rest() == 0
    compiled = list(device.gpu.compiled)
    assert device.ask() > 0
    assert list(device.gpu.compiled) == compiled


def test_what_compiles_in_a_moment_is_compiled_at_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.rest.warm_up.AT_LOAD_S", 60.0)
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
