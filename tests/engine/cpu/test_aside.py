"""A prompt's chunk in a process of its own, beside answers of others: what it comes to."""

from __future__ import annotations

import ctypes
import os
import random
import time
from collections.abc import Callable
from functools import partial
from mmap import PAGESIZE
from pathlib import Path
from threading import current_thread, main_thread

import mlx.core as mx
import pytest

from engine.blas import LOADED, one_thread
from engine.cpu.aside import AsideChunk
from engine.cpu.aside_memory import ChunkMemory
from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel
from engine.runner import Runner
from tests.engine.asides import filling, loaded, stepped, through
from tests.engine.parity import assert_close, our_logits, prompt, quantised
from tests.engine.watched import needs_aside
from tests.fakes.random_model import write_random_model

pytestmark = needs_aside

LAYERS = 3
SHAPES: dict[str, dict[str, object]] = {
    "plain": {},
    "window": {"sliding_window": 31},
    "one head": {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 64},
}


@pytest.fixture(params=[*SHAPES, "qwen2", "qwen3", "packed"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> LoadedModel:
    family = request.param if request.param.startswith("qwen") else "llama"
    changes = {"num_hidden_layers": LAYERS, **SHAPES.get(request.param, {})}
    folder = write_random_model(tmp_path / "model", family, **changes)
    return loaded(quantised(folder, tmp_path / "packed", 4) if request.param == "packed" else folder)


@pytest.mark.parametrize("begin", [0, 1, 20, 75])
@pytest.mark.parametrize(
    ("tokens", "block"), [(2, 256), (24, 256), (100, 256), (24, 5), (100, 16), (100, 30)]
)
def test_beside_steps_of_others_it_gives_the_same_as_at_once(
    model: LoadedModel, begin: int, tokens: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others decode meanwhile, the arena grows, and all get the logits they get alone."""
    for size in ("_FEWEST", "_MOST"):
        monkeypatch.setattr(f"engine.cpu.aside_blocks.{size}", block)
    monkeypatch.setattr("engine.cpu.left_out._WORTH", PAGESIZE)
    monkeypatch.setattr("engine.cpu.aside_blocks._WORTH", 1 << 12)  # columns are shared where blocks are few
    ids, rng = prompt(), random.Random(tokens)
    runner, other, table = Runner(model), PageTable(), PageTable()
    runner.prefill(other, ids[:10])
    if begin:
        runner.prefill(table, ids[:begin])
    middle, end = begin + tokens // 2, begin + tokens
    steps: list[mx.array] = []
    for part, rows in ((ids[begin:middle], 0), (ids[middle:end], 1)):
        chunk, logits, before = filling(model, table, part, rows), None, table.length
        while logits is None:
            assert table.length == before
            if len(steps) < 10:
                steps.append(runner.decode([other], mx.array([ids[10 + len(steps)]], dtype=mx.uint32)))
                mx.eval(steps[-1], runner.results)
                model.memory.prepare(64 * len(steps))
            logits = runner.advance_aside(chunk, rng.choice([0.0, 0.01]))
            mx.eval(runner.results)
        assert logits.shape[0] == rows
    assert table.length == end
    assert_close(logits[0], our_logits(model, ids[:end], end)[-1])
    behind = runner.decode([table], mx.array([7], dtype=mx.uint32))
    assert_close(behind, our_logits(model, [*ids[:end], 7], end + 1)[-1:])
    assert_close(steps[-1], our_logits(model, ids[: 10 + len(steps)], 10 + len(steps))[-1:])


def test_it_is_forked_when_nothing_is_built_beside(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that the thread held which builds would be held in the process for good."""
    runner, growing = stepped(model), model.arena.growing
    makers = {name: partial(slowly, make) for name, make in growing._makers.items()}
    with monkeypatch.context() as patch:
        patch.setattr(growing, "_makers", makers)
        assert not growing.build_ahead(2 * growing.pages, limit=1 << 20)
        chunk = filling(model, PageTable(), prompt()[:40])
        assert growing.is_building
        assert runner.advance_aside(chunk) is None
        assert not growing.is_building
    assert_close(through(runner, chunk)[0], our_logits(model, prompt()[:40], 40)[-1])


def slowly(make: Callable[[int], mx.array], slots: int) -> mx.array:
    time.sleep(0.2 * (current_thread() is not main_thread()))
    return make(slots)


def test_one_that_is_dropped_leaves_the_processors_to_the_next(model: LoadedModel) -> None:
    ids = prompt()
    runner, first, second = stepped(model), PageTable(), PageTable()
    runner.prefill(first, ids[:50])
    dropped = filling(model, first, ids[50:150])
    assert runner.advance_aside(dropped) is None  # it waits for earlier tokens of its layers
    dropped.drop()
    model.memory.free(first)
    logits = through(runner, filling(model, second, ids[:40]))
    assert_close(logits[0], our_logits(model, ids[:40], 40)[-1])


def test_what_is_left_when_its_process_has_ended_is_stored_at_once(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then some of a layer beside each step of the answers: the next chunk waits for it."""
    monkeypatch.setattr("engine.cpu.aside._STORED", 1)
    ids, runner, stored = prompt()[:100], stepped(model), list[int]()
    take = AsideChunk.take

    def noted(self: AsideChunk, most: int) -> object:
        stored.append(most)
        return take(self, most)

    monkeypatch.setattr(AsideChunk, "take", noted)
    chunk = filling(model, PageTable(), ids)
    assert runner.advance_aside(chunk) is None
    assert chunk.aside is not None
    until = time.monotonic() + 60
    while not chunk.aside.is_computed:
        assert time.monotonic() < until
        time.sleep(0.001)
    assert set(stored) == {1}
    logits = runner.advance_aside(chunk)
    assert logits is not None
    assert_close(logits[0], our_logits(model, ids, 100)[-1])


def test_only_plain_pages_of_a_model_that_has_run_here_are_for_it(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model", head_dim=32)
    for settings, is_plain in (({}, True), ({"kv_bits": 8}, False), ({"executor": "emulated"}, False)):
        model = loaded(folder, **settings)
        assert not Runner(model).has_aside
        assert stepped(model).has_aside == is_plain


def test_what_it_came_to_is_shared_and_takes_no_memory_when_it_is_forgotten(model: LoadedModel) -> None:
    layers = model.decoder.attention
    memory = ChunkMemory(layers, 50, 48)
    if not (process := os.fork()):
        for layer in layers:
            for rows in memory.rows(layer.index):
                rows[:] = 1 + layer.index
        memory.hidden[:] = 9
        memory.failure = "it broke é" + 5000 * "x"
        os._exit(0)
    os.waitpid(process, 0)
    shape = (layers[0].shape.kv_heads, 50, layers[0].shape.head_dim)
    for layer in layers:
        assert [rows.shape for rows in memory.rows(layer.index)] == [shape, shape]
        assert all((rows == 1 + layer.index).all() for rows in memory.rows(layer.index))
    assert memory.hidden.shape == (1, 48)
    assert (memory.hidden == 9).all()
    assert memory.failure.startswith("it broke éx")
    memory.forget(1)
    assert [bool(memory.rows(layer.index)[0].any()) for layer in layers] == [True, False, True]
    assert (memory.hidden == 9).all()


@pytest.mark.skipif(LOADED is None, reason="OpenBLAS is not here")
def test_products_use_one_thread_meanwhile_and_as_many_as_before_behind_it() -> None:
    library = ctypes.CDLL(LOADED)
    usual = library.openblas_get_num_threads()
    with one_thread():
        with one_thread():
            assert library.openblas_get_num_threads() == 1
        assert library.openblas_get_num_threads() == 1
    assert library.openblas_get_num_threads() == usual
