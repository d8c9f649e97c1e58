"""What is traced once on a device serves arenas of every size, and chunks of every length near its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from engine.kernels.choice import KernelChoice
from engine.kernels.kernels import Kernels
from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel, load_model
from engine.pacing.mixed_costs import MixedCosts
from engine.rest.warm_up import STEPS, Warmth, warm_step
from engine.runner import Runner
from engine.settings import EngineSettings
from engine.steps.chunk_step import ChunkStep
from metal.executors import Launcher, Request, Signature
from metal.prefill_attention import PrefillAttention
from metal.source import KernelSource
from tests.fakes.random_model import write_random_model
from tests.metal.conftest import BUILD


class Device:
    """Computes nothing, and says where pools lie that it was given: launches are traced, as on a GPU."""

    def __init__(self) -> None:
        self.pools = set[tuple[int, ...]]()

    def build(self, source: KernelSource, signature: Signature) -> Launcher:
        def launch(request: Request) -> list[mx.array]:
            self.pools |= {
                array.shape
                for name, array in zip(signature.inputs, request.inputs, strict=True)
                if name in ("keys", "values")
            }
            return [mx.zeros(output.shape, output.dtype) for output in request.outputs]

        return launch


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def model(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadedModel:
    monkeypatch.setattr("engine.steps.chunk_step.PIECES", (1,))
    folder = write_random_model(
        tmp_path / "model",
        head_dim=64,
        num_attention_heads=4,
        num_hidden_layers=2,
        max_position_embeddings=700,
    )
    settings = EngineSettings(executor="emulated", cache=BUILD.parent, kv_pages=512)
    model = load_model(folder, settings, lambda done, total: None)
    assert model.kernels is not None
    choice = KernelChoice("emulated", device, model.kernels.choice.selection, is_forced=True)
    model.kernels = Kernels(choice, model.decoder)
    attention = model.kernels.attention
    attention.update({shape: replace(each, pads=True) for shape, each in attention.items()})
    return model


def test_an_answer_s_step_is_traced_once_while_the_arena_grows(device: Device, model: LoadedModel) -> None:
    assert model.kernels is not None
    runner, table, others = Runner(model), PageTable(), PageTable()
    runner.prefill(table, [5] * 9)
    mx.eval(runner.decode([table], mx.array([9], dtype=mx.uint32)))
    launched, pages = model.kernels.launches.copy(), model.arena.pages
    model.memory.grow(others, 16 * 4 * pages)
    assert model.arena.pages > 4 * pages
    mx.eval(runner.decode([table], mx.array([9], dtype=mx.uint32)))
    assert model.kernels.launches == launched
    assert runner.launches["decode_attention"] == 2 * 2  # two steps of two layers
    assert device.pools == {(16, 64)}  # a page of a head, whatever there is


def test_a_short_chunk_is_traced_once_for_lengths_that_are_rounded_to_the_same(model: LoadedModel) -> None:
    assert model.kernels is not None
    runner, table = Runner(model), PageTable()
    runner.prefill(table, [5] * 300)
    warm_step(runner, model, tokens=40, length=400)
    launched = model.kernels.launches.copy()
    for tokens in (29, 63, 12, 9):
        runner.prefill(table, [5] * tokens)
    assert (table.length, model.kernels.launches) == (413, launched)


def test_short_chunks_that_gather_nothing_are_traced_once_until_a_chat_has_doubled(
    device: Device, model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MixedCosts, "is_done", True)  # of a prompt's tokens among answers' nothing is traced
    assert model.kernels is not None
    attention, launches = model.kernels.attention, model.kernels.launches
    for shape, each in attention.items():
        attention[shape] = replace(each, short=PrefillAttention(device, launches, shape))
    runner, table = Runner(model), PageTable()
    warmth = Warmth(runner, model, (1,), chunk=64)
    while warmth.cold > 1:  # but for steps with a prompt's tokens among answers', which are not traced
        warmth.next()
    runner.prefill(table, [5] * 256)
    launched = launches.copy()
    for tokens in (29, 64, 12, 9, 63, 40):
        runner.prefill(table, [5] * tokens)
    assert (table.length, launches) == (473, launched)
    assert launched["prefill_attention"] == 2 * 2 * 3  # layers; 32 rows, 64; behind up to 256, 512 and 1,024


def test_who_asks_before_a_chunk_of_that_length_is_traced_waits_for_no_trace(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, table = Runner(model), PageTable()
    monkeypatch.setattr(ChunkStep, "__call__", None)  # would break
    runner.prefill(table, [5] * 300)
    runner.prefill(table, [5] * 29)
    assert table.length == 329


def test_a_piece_of_a_prompt_may_be_as_short_as_a_step(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, table = Runner(model), PageTable()
    monkeypatch.setattr(ChunkStep, "__call__", None)  # would break
    for tokens in (300, 5, 8, 9, 1):
        runner.prefill(table, [5] * tokens)
    assert table.length == 323


def test_a_chunk_is_not_traced_anew_for_a_longer_table_of_angles_while_somebody_waits(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, table = Runner(model), PageTable()
    runner.prefill(table, [5] * 300)
    warm_step(runner, model, tokens=40, length=400)
    model.decoder.rope.table(5000)
    monkeypatch.setattr(ChunkStep, "__call__", None)  # would break
    runner.prefill(table, [5] * 29)
    assert table.length == 329


def test_at_rest_chunks_up_to_the_end_of_the_context_are_traced(model: LoadedModel) -> None:
    assert model.kernels is not None
    runner, table, context = Runner(model), PageTable(), model.info.context_length
    warmth = Warmth(runner, model, STEPS, chunk=64)
    assert context & (context - 1)  # or its end were rounded to itself
    while warmth.cold:
        warmth.next()
    runner.prefill(table, [5] * (context - 30))
    launched = model.kernels.launches.copy()
    runner.prefill(table, [5] * 29)
    assert model.kernels.launches == launched
