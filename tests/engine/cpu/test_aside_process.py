"""The process of a prompt's chunk: what it holds, and what becomes of it when something goes wrong."""

from __future__ import annotations

import errno
import json
import mmap
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from weakref import ref

import mlx.core as mx
import pytest

import engine.cpu.aside_process
from engine.cpu import crew
from engine.cpu.aside import AsideBroke, AsideChunk
from engine.cpu.aside_process import NAME, NICER
from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel
from engine.runner import Runner
from tests.engine.asides import filling, loaded, stepped, through
from tests.engine.parity import assert_close, our_logits, prompt
from tests.engine.watched import needs_aside
from tests.fakes.random_model import write_random_model

pytestmark = needs_aside


@pytest.fixture
def model(tmp_path: Path) -> LoadedModel:
    return loaded(write_random_model(tmp_path / "model", num_hidden_layers=3))


def in_its_process(monkeypatch: pytest.MonkeyPatch, tell: Callable[[], object], file: Path) -> None:
    """What `tell` says in the middle of a layer, as JSON in `file`: what runs there has no other way."""
    attend, alone = engine.cpu.aside_blocks.attend_block, Lock()

    def telling(*arguments: object, **more: object) -> mx.array:
        with alone:  # who helps may do the same at the same time, or all of it
            file.write_text(json.dumps(tell()))
        return attend(*arguments, **more)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr("engine.cpu.aside_blocks.attend_block", telling)


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
    may_go_on, attend = mmap.mmap(-1, 1), engine.cpu.aside_blocks.attend_block

    def waiting(*arguments: object, **more: object) -> mx.array:
        while not may_go_on[0]:
            time.sleep(0.001)
        return attend(*arguments, **more)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr("engine.cpu.aside_blocks.attend_block", waiting)
    monkeypatch.setattr(AsideChunk, "watch", lambda _: None)
    chunk = filling(model, PageTable(), prompt()[:100])
    stepped(model).advance_aside(chunk)
    assert chunk.aside is not None
    os.close(chunk.aside._told_at)
    may_go_on[0] = 1
    _, status = os.waitpid(chunk.aside._process, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert "BrokenPipeError" in chunk.aside._memory.failure


def test_what_its_thread_raises_is_raised_where_it_is_waited_for(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **_more: object) -> mx.array:
        raise MemoryError("no memory")

    monkeypatch.setattr("engine.cpu.aside_blocks.attend_block", broken)
    runner, table = stepped(model), PageTable()
    chunk = filling(model, table, prompt()[:40])
    with pytest.raises(AsideBroke, match="MemoryError: no memory"):
        through(runner, chunk)


def test_one_whose_process_is_killed_says_so(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object, **_more: object) -> mx.array:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    monkeypatch.setattr("engine.cpu.aside_blocks.attend_block", killed)
    runner, table = stepped(model), PageTable()
    with pytest.raises(AsideBroke, match="ended with -9"):
        through(runner, filling(model, table, prompt()[:40]))
    monkeypatch.undo()
    model.memory.free(table)
    logits = through(runner, filling(model, PageTable(), prompt()[:40]))
    assert_close(logits[0], our_logits(model, prompt()[:40], 40)[-1])


def none_any_more(runner: Runner, model: LoadedModel, why: str) -> None:
    """One process breaks, and one more may; after that one there is none."""
    for has_more in (True, False):
        assert runner.has_aside
        table = PageTable()
        with pytest.raises(AsideBroke, match=why):
            through(runner, filling(model, table, prompt()[:40]))
        model.memory.free(table)
        until = time.monotonic() + 10
        while runner.has_aside != has_more and time.monotonic() < until:
            time.sleep(0.01)
        assert runner.has_aside == has_more


def test_one_that_stands_still_is_ended_and_after_another_there_is_none_any_more(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = threading.Lock()

    def waits(*_: object, **_more: object) -> mx.array:
        lock.acquire()
        raise AssertionError

    monkeypatch.setattr("engine.cpu.aside_blocks.attend_block", waits)
    monkeypatch.setattr("engine.cpu.aside.SILENCE_S", 0.5)
    with lock:  # of another thread, while the process is forked
        none_any_more(stepped(model), model, r"told of nothing for 0\.5 s")


def test_after_two_that_broke_there_is_none_any_more_but_those_that_nobody_wanted_do_not_count(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, may_break = stepped(model), threading.Event()

    def broken(*_: object, **_more: object) -> mx.array:
        raise RuntimeError("a fault of ours")

    def waits(*_: object, **_more: object) -> mx.array:
        may_break.wait(60)
        return broken()

    monkeypatch.setattr("engine.cpu.aside_blocks.attend_block", waits)
    for _ in range(3):
        chunk = filling(model, PageTable(), prompt()[:40])
        runner.advance_aside(chunk)
        chunk.drop()
    monkeypatch.setattr("engine.cpu.aside_blocks.attend_block", broken)
    none_any_more(runner, model, "a fault of ours")


def test_a_model_that_leaves_is_gone_before_a_process_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, may_end = AsideChunk.watch, threading.Event()

    def slow(chunk: AsideChunk) -> None:
        assert may_end.wait(60)
        watch(chunk)

    monkeypatch.setattr(AsideChunk, "watch", slow)
    model = loaded(write_random_model(tmp_path / "model", num_hidden_layers=3))
    arena, runner = ref(model.arena), stepped(model)
    chunk = filling(model, PageTable(), prompt()[:40])
    runner.advance_aside(chunk)
    chunk.drop()
    del model, runner, chunk
    try:
        assert arena() is None
    finally:
        may_end.set()


def pipes() -> set[str]:
    """Those that are open; files of other kinds come and go with other threads."""
    files = set[str]()
    for file in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            files.add(str(file.readlink()))
    return {file for file in files if file.startswith("pipe:")}


@pytest.mark.parametrize("refused", ["os.fork", "mmap.mmap"])
def test_where_the_system_has_none_for_it_there_is_none_any_more(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    def no(*_: object) -> int:
        raise OSError(errno.EAGAIN, "no more processes")

    runner, table, before = stepped(model), PageTable(), pipes()
    assert runner.has_aside
    monkeypatch.setattr(refused, no)
    with pytest.raises(AsideBroke, match="no more processes"):
        runner.advance_aside(filling(model, table, prompt()[:40]))
    assert not runner.has_aside
    assert pipes() <= before
