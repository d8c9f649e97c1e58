"""Memory that a forked process does not get: which of a pool's, and what that comes to."""

from __future__ import annotations

import mmap
import os
import resource
import signal
import sys
from itertools import pairwise
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cpu.left_out import left_out, not_in
from engine.kv.page_table import PageTable, Span, token_spans
from engine.runner import Runner
from tests.engine.asides import filling, loaded, through
from tests.engine.parity import prompt
from tests.engine.watched import needs_aside
from tests.fakes.random_model import write_random_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone leaves memory out of a fork")

PAGE = mmap.PAGESIZE


@pytest.fixture
def every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.cpu.left_out._WORTH", PAGE)


@given(st.data())
def test_all_whole_pages_that_hold_nothing_which_is_seen(data: st.DataObject) -> None:
    heads, width = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([8, 64, 200]))
    slots = data.draw(st.integers(1, 400_000 // width))
    edges = sorted(data.draw(st.lists(st.integers(0, slots), max_size=8)))
    spans = [Span(begin, end) for begin, end in [*pairwise(edges)][::2] if begin < end]
    data.draw(st.randoms()).shuffle(spans)
    shift = data.draw(st.integers(0, 3 * PAGE // 4))
    memory = np.zeros(heads * slots * width + shift, np.float32)
    pool = memory[shift:].reshape(heads, slots, width)
    seen = np.zeros(pool.shape, bool)
    for span in spans:
        seen[:, span.begin : span.end] = True
    seen_bytes, begin = seen.reshape(-1).repeat(4), pool.ctypes.data
    free = np.zeros(pool.nbytes, bool)
    for one, other in not_in(spans, pool):
        assert one % PAGE == other % PAGE == 0
        assert begin <= one < other <= begin + pool.nbytes
        assert not free[one - begin : other - begin].any()
        free[one - begin : other - begin] = True
    assert not (free & seen_bytes).any()
    left, longest = ~free & ~seen_bytes, 0
    for place in np.flatnonzero(np.diff(np.concatenate([[False], left, [False]]).astype(int))).reshape(-1, 2):
        longest = max(longest, place[1] - place[0])
    assert longest < (1 << 16) + 2 * PAGE  # no more of it in a row than is not worth telling


def ends(reads: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> int:
    """How a process ends that is forked now and reads that: 0, or the signal that ended it."""
    process = os.fork()
    if not process:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os._exit(0 if reads.sum() == reads.size else 1)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_a_process_that_is_forked_within_has_none_of_it() -> None:
    memory = np.frombuffer(mmap.mmap(-1, 8 * PAGE), np.uint8)
    memory[:] = 1
    begin = memory.ctypes.data
    with left_out([(begin + PAGE, begin + 3 * PAGE), (begin + 5 * PAGE, begin + 6 * PAGE)]):
        assert [ends(memory[page * PAGE : (page + 1) * PAGE]) for page in range(8)] == [
            -signal.SIGSEGV if page in (1, 2, 5) else 0 for page in range(8)
        ]
        memory[PAGE : 2 * PAGE] = 1
    assert ends(memory) == 0
    with pytest.raises(KeyError), left_out([(begin, begin + PAGE)]):
        raise KeyError
    assert ends(memory) == 0


@needs_aside
@pytest.mark.usefixtures("every_page")
@pytest.mark.parametrize("begin", [0, 300])
def test_what_a_chunk_does_not_see_is_not_copied_behind_its_fork(
    begin: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the pages that it fills, nor those of others."""
    model = loaded(write_random_model(tmp_path / "model"))
    runner, other, table = Runner(model), PageTable(), PageTable()
    ids = [prompt()[place % 100] for place in range(700)]
    runner.prefill(other, ids[:300])
    if begin:
        runner.prefill(table, ids[:begin])
    chunk = filling(model, table, ids[begin:])
    forked: dict[int, bool] = {}
    fork = os.fork

    def noting() -> int:
        forked.update(_pages_forked())
        return fork()

    monkeypatch.setattr(os, "fork", noting)
    through(runner, chunk)
    mx.eval(runner.results)
    size, kinds = model.pager.page_size, set[bool]()
    for layer in range(runner.layers):
        for pool in model.arena.on_host(layer):
            seen = np.zeros(pool.shape[1], bool)
            for span in token_spans(table, size, 0, begin):
                seen[span.begin : span.end] = True
            for head in pool:
                kinds |= _assert_only(head, seen, forked)
    assert kinds == ({True, False} if begin else {False})


def _assert_only(
    head: np.ndarray[tuple[int, int], np.dtype[np.float32]],
    seen: np.ndarray[tuple[int], np.dtype[np.bool_]],
    forked: dict[int, bool],
) -> set[bool]:
    """The whole pages of a head that are seen are forked, and no others; returns which there were."""
    kinds, first, step = set[bool](), head.ctypes.data, head.strides[0]
    for page in range(-(-first // PAGE), (first + head.nbytes) // PAGE):
        slots = slice((page * PAGE - first) // step, -(-((page + 1) * PAGE - first) // step))
        is_seen = bool(seen[slots].any())
        assert forked.get(page, True) == is_seen, (page, slots)
        kinds.add(is_seen)
    return kinds


def _pages_forked() -> dict[int, bool]:
    """Of each page of this process's memory that is not a file's, whether a fork now gets it."""
    pages, found = range(0), dict[int, bool]()
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(" ")
        if "-" in name and not name.endswith(":"):
            begin, end = (int(edge, 16) // PAGE for edge in name.split("-"))
            pages = range(begin, end) if "/" not in rest and end - begin < 1 << 20 else range(0)
        elif name == "VmFlags:":
            found.update(dict.fromkeys(pages, "dc" not in rest.split()))
    return found
