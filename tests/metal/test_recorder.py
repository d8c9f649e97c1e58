"""The recorder and the replay on launches made by hand: copy-on-write, prefill, gather, declarations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import mlx.core as mx
import pytest

from metal import decode_attention, page_gather, recorder
from metal.attention_shape import AttentionShape
from metal.decode_attention import DecodeAttention
from metal.decode_cut import DecodeCut
from metal.emulator import Emulator, Mode
from metal.errors import KernelError
from metal.executors import EmulatedExecutor, Executor, Request, Signature
from metal.matmul import MatmulCut
from metal.matmul_pages import MatmulPages
from metal.matvec import Norm
from metal.matvec_weight import DenseWeight
from metal.page_copy import PageCopy
from metal.page_gather import PageGather
from metal.page_write import PageWrite
from metal.pools import Pages, Pools, no_fence
from metal.prefill_attention import PrefillAttention
from metal.recorder import Recorder, RecordingExecutor, Step, Wait, unordered
from metal.replay import Replay, latest_first, order, random_order
from metal.sequences import Sequences
from metal.source import load_source
from metal.touched import Launched, Touched
from tests.metal.attention_oracle import angle_rows
from tests.metal.forgetful import Forgetful, Way
from tests.metal.numbers import normal

SHAPE = AttentionShape(2, 1, 64, 64, 16, mx.float16, 0.125)
CUT = DecodeCut(partition=64, simdgroups=2)


def ints(*values: int) -> mx.array:
    return mx.array([*values, *[-1] * (8 - len(values))], dtype=mx.int32)


@dataclass
class Chats:
    """Pools of eight pages, and the kernels that work on them; every call hands its fence on."""

    executor: Executor
    shape: AttentionShape = SHAPE

    def __post_init__(self) -> None:
        launches: Counter[str] = Counter()
        arguments = (self.executor, launches, self.shape)
        self.decoding, self.writing = DecodeAttention(*arguments, CUT), PageWrite(*arguments)
        self.gathering, self.copying = PageGather(*arguments), PageCopy(*arguments)
        self.prefilling = PrefillAttention(*arguments)
        weight, norm = normal((256, 32), SHAPE.dtype), Norm(normal((32,), SHAPE.dtype), 1e-5)
        cut = MatmulCut(2, 4, 1, 4)
        self.projecting = MatmulPages(
            self.executor, launches, DenseWeight(weight), cut, self.shape, norm=norm
        )
        pool = [normal((1, 8 * 16, 64), SHAPE.dtype, seed) for seed in range(2)]
        mx.eval(pool)
        self.pools = Pools.whole(*pool, no_fence(SHAPE.dtype))

    def hand_on(self, fence: mx.array) -> None:
        self.pools = replace(self.pools, fence=fence)

    def _pages(self, tables: list[list[int]], lengths: list[int]) -> Pages:
        width = [[*table, *[-1] * (8 - len(table))] for table in tables]
        return Pages(self.pools, mx.array(width, dtype=mx.int32), ints(*lengths))

    def write(self, slots: list[int]) -> mx.array:
        qkv, angles = normal((len(slots), 256), SHAPE.dtype, len(slots)), angle_rows(len(slots), 64)
        padded = mx.array([*slots, *[-1] * (8 - len(slots))], dtype=mx.int32)
        queries = self.writing.queries(qkv, angles, padded, self.pools)
        self.hand_on(queries)
        return queries

    def project(self, slots: list[int], *copied: int) -> mx.array:
        """As `write`, of as many rows as the product takes; `copied`: a page, onto which, how many tokens."""
        pair = [*(copied or (0, 0, 0)), 8 * 16, 0, 0, 0, 0]
        padded = mx.array([*slots, *[-1] * (16 - len(slots)), *pair], dtype=mx.int32)
        x = normal((16, 32), SHAPE.dtype, len(slots))
        queries = self.projecting(x, angle_rows(16, 64), padded, self.pools)
        self.hand_on(queries)
        return queries

    def prefill(self, queries: mx.array, tables: list[list[int]], lengths: list[int], *offsets: int) -> None:
        pages = self._pages(tables, lengths)
        rows = queries.shape[1]
        sequences = Sequences.of(pages.tables, pages.lengths, ints(*offsets), slots=8 * 16, rows=rows)
        out, fence = self.prefilling(queries, self.pools, sequences, rows)
        mx.eval(out)
        self.hand_on(fence)

    def decode(self, tables: list[list[int]], lengths: list[int], tokens: int = 1) -> None:
        qkv = normal((len(tables) * tokens, 256), SHAPE.dtype, lengths[0])
        self.hand_on(self.decoding(qkv, angle_rows(64, 64), self._pages(tables, lengths)))

    def copy(self, source: int, target: int) -> None:
        self.hand_on(self.copying([self.pools], mx.array([source, target], dtype=mx.int32)))

    def gather(self, table: list[int], first: int, tokens: int) -> None:
        keys, values, fence = self.gathering(self.pools, ints(*table), mx.array([first]), tokens)
        mx.eval(keys, values)
        self.hand_on(fence)


def fork(chats: Chats) -> None:
    """A prompt of 20 tokens is shared by two chats, the second of which gets a copy of the page it writes."""
    chats.prefill(chats.write(list(range(20))), [[0, 1]], [0], 0, 20)
    chats.copy(1, 2)
    chats.decode([[0, 1]], [20])
    chats.decode([[0, 2]], [20])
    chats.gather([0, 2], 10, 11)
    chats.write([0, 1, 2, 32, 33])  # both are gone, and their pages are someone else's
    chats.copy(0, 3)
    chats.decode([[3]], [3])
    chats.prefill(chats.project([51, 52]), [[3]], [3], 0, 2)
    chats.decode([[3]], [2])
    chats.prefill(chats.project([66, 67], 3, 4, 2), [[4]], [2], 0, 2)  # the third goes on in a copy of it


@pytest.fixture
def emulated(kernel_cache: Path) -> Executor:
    return EmulatedExecutor(Emulator(kernel_cache, Mode.PLAIN))


def test_a_fork_is_ordered(emulated: Executor) -> None:
    recorded = Recorder(16)
    fork(Chats(RecordingExecutor(emulated, recorded)))
    assert {step.name for step in recorded.steps} == set(recorder.DECLARED)
    assert unordered(recorded.steps) == []
    replay = Replay(recorded)
    for seed in range(3):
        assert replay.run(random_order(recorded.steps, seed)) == []


@pytest.mark.parametrize(
    ("kernel", "at", "way"),
    [
        ("page_copy", 0, "to take it"),
        ("page_copy", 0, "to hand it on"),
        ("page_copy", 1, "to take it"),
        ("page_copy", 1, "to hand it on"),
        ("page_write", 1, "to take it"),
        ("page_write", 1, "to hand it on"),
        ("matmul", 0, "to take it"),
        ("page_gather", 0, "to take it"),
        ("page_gather", 0, "to hand it on"),
        ("decode_attention", 0, "to take it"),
        ("decode_attention", 1, "to hand it on"),
        # Prefill attention takes queries of the write before it: they join the two without a fence.
        ("prefill_attention", 1, "to hand it on"),
    ],
)
def test_one_forgotten_fence_is_found(emulated: Executor, kernel: str, at: int, way: Way) -> None:
    recorded = Recorder(16)
    fork(Chats(Forgetful(kernel, way, at).executor(RecordingExecutor(emulated, recorded))))
    assert unordered(recorded.steps)
    assert Replay(recorded).run(order(recorded.steps, latest_first))


@pytest.mark.parametrize("window", [None, 20])
def test_each_launch_touches_the_pages_that_it_declares_and_no_others(
    emulated: Executor, window: int | None
) -> None:
    recorded = Recorder(16)
    chats = Chats(RecordingExecutor(emulated, recorded), replace(SHAPE, window=window))
    chats.decode([[5, 0, 3], [1], [4, 6]], [40, -1, 16], tokens=3)
    chats.decode([[5, 0, 3, 1], [4, 6]], [47, 30], tokens=2)
    queries = chats.write([3, -1, 40, 41, 17, -1, 90, 100, 127])
    chats.prefill(queries, [[5, 0, 3], [7, 2], [4, 6]], [37, -1, 16], 0, 4, 4, 9)
    chats.gather([7, -1, 5, 2], 10, 30)
    chats.copy(3, 4)
    chats.project([50, 51], 6, 3, 2)
    replay = Replay(recorded)
    assert [replay.false_declarations(number) for number in range(7)] == [[]] * 7
    assert all(step.touches[0].pages != Touched() for step in recorded.steps)


def test_a_false_declaration_is_found(emulated: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_more(launch: Launched) -> Touched:
        return decode_attention.touched(launch) | Touched(reads=frozenset({7}))

    def one_less(launch: Launched) -> Touched:
        return Touched(page_gather.touched(launch).reads - {5}, frozenset({1}))

    false = {"decode_attention": one_more, "page_gather": one_less}
    monkeypatch.setattr(recorder, "DECLARED", {**recorder.DECLARED, **false})
    recorded = Recorder(16)
    chats = Chats(RecordingExecutor(emulated, recorded))
    chats.decode([[5, 0]], [20])
    chats.gather([5, 3], 3, 20)
    replay = Replay(recorded)
    assert replay.false_declarations(0) == ["does not read page 7"]
    assert replay.false_declarations(1) == ["writes []", "reads a page that it does not declare"]


def test_a_wait_joins_and_an_operation_of_mlx_does_not(emulated: Executor) -> None:
    for is_waiting in (False, True):
        recorded = Recorder(16)
        chats = Chats(RecordingExecutor(emulated, recorded))
        chats.write([0])
        if is_waiting:
            recorded.waited([chats.pools.fence])
        chats.hand_on(chats.pools.fence + 0)
        chats.gather([0], 0, 1)
        assert bool(unordered(recorded.steps)) is not is_waiting


def test_readers_need_no_order() -> None:
    recorded = [Step("a", Wait(), frozenset(), ()), Step("b", Wait(), frozenset(), ())]
    touch = recorder.Touch(0, Touched(reads=frozenset({1})))
    assert unordered([replace(step, touches=(touch,)) for step in recorded]) == []


@pytest.mark.parametrize("forgets", [False, True])
def test_a_launch_on_the_pools_of_two_layers_is_watched_in_both(emulated: Executor, forgets: bool) -> None:
    recorded = Recorder(16)
    first, second = (Chats(RecordingExecutor(emulated, recorded)) for _ in range(2))
    first.write(list(range(16)))
    second.hand_on(first.pools.fence)
    second.write(list(range(16)))
    first.hand_on(before := second.pools.fence)
    fence = first.copying([first.pools, second.pools], mx.array([0, 1], dtype=mx.int32))
    first.hand_on(fence)
    second.hand_on(before if forgets else fence)
    for chats in (first, second):
        chats.decode([[1]], [16 - 1])
    loose = [(each.pool, each.page) for each in unordered(recorded.steps)]
    assert loose == ([(1, 1)] if forgets else [])
    replay = Replay(recorded)
    assert replay.false_declarations(2) == []
    if not forgets:
        assert replay.run(random_order(recorded.steps, 1)) == []


def test_a_kernel_that_takes_pools_and_declares_nothing_is_refused(
    emulated: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "DECLARED", {})
    with pytest.raises(KernelError, match="page_copy takes pools and does not declare"):
        PageCopy(RecordingExecutor(emulated, Recorder(16)), Counter(), SHAPE)


def test_a_page_that_is_not_there_is_an_error(emulated: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    def outside(launch: Launched) -> Touched:
        return Touched(reads=frozenset({-1}))

    monkeypatch.setattr(recorder, "DECLARED", {**recorder.DECLARED, "page_gather": outside})
    with pytest.raises(KernelError, match=r"page_gather touches the pages \[-1\]"):
        Chats(RecordingExecutor(emulated, Recorder(16))).gather([0], 3, 1)


def test_a_kernel_that_takes_a_pool_and_does_not_say_so_is_refused(emulated: Executor) -> None:
    executor = RecordingExecutor(emulated, Recorder(16))
    chats = Chats(executor)
    chats.write([0])
    rows = chats.pools.keys
    with pytest.raises(KernelError, match="pick takes a pool and does not say so"):
        executor.build(load_source("pick"), Signature(("logits",), ("token", "mass")))(
            Request((rows,), (), {}, (32, 1, 1), (32, 1, 1))
        )
