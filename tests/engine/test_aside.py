"""A prompt's chunk in a process of its own, beside answers of others."""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest

import engine.aside_process
from engine import EngineSettings, crew
from engine.aside import AsideBroke, AsideChunk
from engine.aside_memory import ChunkMemory
from engine.aside_process import NAME, NICER
from engine.blas import LOADED, one_thread
from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel, load_model
from engine.parts import Filling, Part
from engine.runner import Runner
from engine.ways import Way
from tests.engine.parity import assert_close, our_logits, prompt
from tests.engine.watched import needs_aside
from tests.fakes.random_model import write_random_model

pytestmark = needs_aside

LAYERS = 3
SHAPES: dict[str, dict[str, object]] = {
    "plain": {},
    "window": {"sliding_window": 31},
    "one head": {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 64},
}


@pytest.fixture(params=[*SHAPES, "qwen3"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> LoadedModel:
    family = "qwen3" if request.param == "qwen3" else "llama"
    changes = {"num_hidden_layers": LAYERS, **SHAPES.get(request.param, {})}
    return loaded(write_random_model(tmp_path / "model", family, **changes))


def loaded(folder: Path, **settings: object) -> LoadedModel:
    return load_model(folder, EngineSettings(**settings), lambda done, total: None)  # pyright: ignore[reportArgumentType]


def filling(model: LoadedModel, table: PageTable, ids: list[int], rows: int = 1) -> Filling:
    model.memory.grow(table, table.length + len(ids))
    return Filling(Part(table, len(ids), rows), tuple(ids), Way.ASIDE)


def through(runner: Runner, chunk: Filling) -> mx.array:
    """The logits of a chunk that nothing goes on beside."""
    while (logits := runner.advance_aside(chunk, 1.0)) is None:
        pass
    return logits


def stepped(model: LoadedModel) -> Runner:
    """A runner that has decoded."""
    runner, table = Runner(model), PageTable()
    runner.prefill(table, prompt()[:10])
    mx.eval(runner.decode([table], mx.array([5], dtype=mx.uint32)))
    model.memory.free(table)
    return runner


@pytest.mark.parametrize("begin", [0, 1, 20, 75])
@pytest.mark.parametrize("tokens", [2, 24, 100])
def test_beside_steps_of_others_it_gives_the_same_as_at_once(
    model: LoadedModel, begin: int, tokens: int
) -> None:
    """Others decode meanwhile, the arena grows, and all get the logits they get alone."""
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
                model.memory.prepare(other, 64 * len(steps) * model.pager.page_size)
            logits = runner.advance_aside(chunk, rng.choice([0.0, 0.01]))
            mx.eval(runner.results)
        assert logits.shape[0] == rows
    assert table.length == end
    assert_close(logits[0], our_logits(model, ids[:end], end)[-1])
    behind = runner.decode([table], mx.array([7], dtype=mx.uint32))
    assert_close(behind, our_logits(model, [*ids[:end], 7], end + 1)[-1:])
    assert_close(steps[-1], our_logits(model, ids[: 10 + len(steps)], 10 + len(steps))[-1:])


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


def in_its_process(monkeypatch: pytest.MonkeyPatch, tell: Callable[[], object], file: Path) -> None:
    """What `tell` says in the middle of a layer, as JSON in `file`: what runs there has no other way."""
    attend = engine.aside_process.attend_in_blocks

    def telling(*arguments: object, **more: object) -> mx.array:
        file.write_text(json.dumps(tell()))
        return attend(*arguments, **more)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr("engine.aside_process.attend_in_blocks", telling)


def test_its_threads_leave_the_processors_to_others(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def threads() -> list[tuple[str, int, int]]:
        """What they are called, how nice they are, and how the system shares processors with them."""
        tasks = list(Path("/proc/self/task").iterdir())
        names = [(task / "comm").read_text().strip() for task in tasks]
        ids = [int(task.name) for task in tasks]
        return [
            (name, os.getpriority(os.PRIO_PROCESS, id_), os.sched_getscheduler(id_))
            for name, id_ in zip(names, ids, strict=True)
        ]

    usual, told = os.getpriority(os.PRIO_PROCESS, 0), tmp_path / "threads"
    in_its_process(monkeypatch, threads, told)
    through(stepped(model), filling(model, PageTable(), prompt()[:100]))
    found = [tuple(each) for each in json.loads(told.read_text())]
    assert found.count((NAME, usual + NICER, os.SCHED_OTHER)) >= 2  # its first, and MLX's for it
    assert (crew.NAME, usual, os.SCHED_IDLE) in [(name, usual, share) for name, _, share in found]
    assert os.getpriority(os.PRIO_PROCESS, 0) == usual


def test_it_holds_none_of_the_engine_s_files(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever waits for the other end of one to be closed would wait for the chunk."""

    def files() -> list[str]:
        there = [
            file for file in Path("/proc/self/fd").iterdir() if file.is_symlink()
        ]  # no more: what listed
        return [str(file.readlink()).split(":")[0] for file in there]

    told = tmp_path / "files"
    in_its_process(monkeypatch, files, told)
    with (tmp_path / "held").open("w"):
        through(stepped(model), filling(model, PageTable(), prompt()[:40]))
    assert Counter(json.loads(told.read_text())) == {"/dev/null": 3, "anon_inode": 1, "pipe": 1}


def test_who_asked_and_is_gone_is_noticed_at_the_next_layer(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what is left of a chunk keeps no processor when the app was killed."""
    may_go_on, attend = mmap.mmap(-1, 1), engine.aside_process.attend_in_blocks

    def waiting(*arguments: object, **more: object) -> mx.array:
        while not may_go_on[0]:
            time.sleep(0.001)
        return attend(*arguments, **more)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr("engine.aside_process.attend_in_blocks", waiting)
    monkeypatch.setattr(AsideChunk, "watch", lambda _: None)
    chunk = filling(model, PageTable(), prompt()[:100])
    stepped(model).advance_aside(chunk)
    assert chunk.aside is not None
    os.close(chunk.aside._told_at)
    may_go_on[0] = 1
    _, status = os.waitpid(chunk.aside._process, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert "BrokenPipeError" in chunk.aside._memory.failure


def test_only_plain_pages_of_a_model_that_has_run_here_are_for_it(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model", head_dim=32)
    for settings, is_plain in (({}, True), ({"kv_bits": 8}, False), ({"executor": "emulated"}, False)):
        model = loaded(folder, **settings)
        assert not Runner(model).has_aside
        assert stepped(model).has_aside == is_plain


def test_what_its_thread_raises_is_raised_where_it_is_waited_for(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **_more: object) -> mx.array:
        raise MemoryError("no memory")

    monkeypatch.setattr("engine.aside_process.attend_in_blocks", broken)
    runner, table = stepped(model), PageTable()
    chunk = filling(model, table, prompt()[:40])
    with pytest.raises(AsideBroke, match="MemoryError: no memory"):
        through(runner, chunk)


def test_one_whose_process_is_killed_says_so(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object, **_more: object) -> mx.array:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    monkeypatch.setattr("engine.aside_process.attend_in_blocks", killed)
    runner, table = stepped(model), PageTable()
    with pytest.raises(AsideBroke, match="ended with -9"):
        through(runner, filling(model, table, prompt()[:40]))
    monkeypatch.undo()
    model.memory.free(table)
    logits = through(runner, filling(model, PageTable(), prompt()[:40]))
    assert_close(logits[0], our_logits(model, prompt()[:40], 40)[-1])


def test_one_that_stands_still_is_ended_and_after_another_there_is_none_any_more(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, lock = stepped(model), threading.Lock()

    def waits(*_: object, **_more: object) -> mx.array:
        lock.acquire()
        raise AssertionError

    monkeypatch.setattr("engine.aside_process.attend_in_blocks", waits)
    monkeypatch.setattr("engine.aside.SILENCE_S", 0.5)
    with lock:  # of another thread, while the process is forked
        for has_more in (True, False):
            assert runner.has_aside
            chunk, table = filling(model, PageTable(), prompt()[:40]), PageTable()
            with pytest.raises(AsideBroke, match=r"told of nothing for 0\.5 s"):
                through(runner, chunk)
            model.memory.free(table)
            until = time.monotonic() + 10
            while runner.has_aside != has_more and time.monotonic() < until:
                time.sleep(0.01)
            assert runner.has_aside == has_more


@pytest.mark.parametrize("refused", ["os.fork", "mmap.mmap"])
def test_where_the_system_has_none_for_it_there_is_none_any_more(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    def no(*_: object) -> int:
        raise OSError(errno.EAGAIN, "no more processes")

    runner, table, files = stepped(model), PageTable(), len(list(Path("/proc/self/fd").iterdir()))
    assert runner.has_aside
    monkeypatch.setattr(refused, no)
    with pytest.raises(OSError, match="no more processes"):
        runner.advance_aside(filling(model, table, prompt()[:40]))
    assert not runner.has_aside
    assert len(list(Path("/proc/self/fd").iterdir())) == files


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
