"""The agreement suite: every kernel on shapes that a model has, each in a process that it may end."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from queue import SimpleQueue
from threading import Event

import mlx.core as mx

from metal.attention_shape import AttentionShape
from metal.candidates import CASES, rms_norm_spec
from metal.candidates_ends import embed_spec, pick_spec
from metal.candidates_matmul import matmul_spec
from metal.candidates_pages import PageProduct
from metal.candidates_prefill import chunk_spec, odd_spec, short_spec
from metal.candidates_scene import Attention
from metal.executors import Executor
from metal.product import Product, few_rows
from metal.trial_case import CaseBuilder, CaseSpec
from metal.trial_messages import Task
from metal.trial_runner import Checked, Dropped, Outcome, Postponed, TrialRunner
from metal.trial_scope import ExecutorName

_DTYPES = ("float32", "float16", "bfloat16")
_MOST_PROCESSES = 4

# Widths around a simdgroup, a vector and a threadgroup; those of models; one row and many.
RMS_NORM = tuple(
    rms_norm_spec(width, rows, dtype, adds=adds)
    for dtype, (width, rows, adds) in product(
        _DTYPES,
        [(1, 1, False), (33, 7, True), (576, 1, True), (1001, 3, False), (2048, 8, True), (4096, 1, True)],
    )
)

# What comes before and after a product, its sizes and rows of x, pairwise with dtypes.
MATVEC = tuple(
    product.spec
    for product in (
        Product(64, 33, 1, "float32", norm=True),
        Product(2056, 7, 8, "float32", bias=True, activation="gelu"),
        Product(2048, 256, 2, "float16", norm=True, activation="silu"),
        Product(5632, 64, 1, "float16", residual=True),
        Product(576, 1000, 4, "float16", norm=True, out="float32"),
        Product(896, 128, 1, "bfloat16", norm=True, bias=True),
        Product(1024, 513, 8, "bfloat16", residual=True, bias=True),
        Product(256, 96, 3, "bfloat16", norm=True, activation="silu", bias=True),
        Product(2048, 128, 1, "float16", bits=4, group=64, norm=True),
        Product(1024, 65, 8, "float32", bits=4, group=32, residual=True),
        Product(512, 96, 2, "bfloat16", bits=4, group=128, norm=True, activation="silu"),
        Product(2048, 33, 1, "bfloat16", bits=8, group=64, residual=True),
        Product(256, 130, 5, "float16", bits=8, group=32, norm=True, out="float32"),
        few_rows(Product(352, 136, 1, "float16", residual=True, bias=True)),
        few_rows(Product(160, 72, 1, "bfloat16", norm=True, activation="silu")),
    )
)

# Projections that go to pages, with heads of two sizes.
PAGE_PRODUCTS = (
    PageProduct(160, 6, 2, 64, "float16", bias=True).spec,
    PageProduct(96, 2, 2, 96, "bfloat16").spec,
)

# Every format of GGUF's blocks, in rows of one block and of many; rows of a prompt, and of a table.
BLOCKS = (
    *(
        product.spec
        for product in (
            Product(1056, 65, 1, "float16", block="Q4_0", norm=True, activation="silu"),
            Product(2048, 33, 8, "bfloat16", block="Q8_0", residual=True),
            Product(256, 96, 3, "float32", block="Q2_K", norm=True),
            Product(2304, 33, 1, "float16", block="Q3_K", bias=True),
            Product(2048, 256, 1, "float16", block="Q4_K", norm=True, activation="silu"),
            Product(1280, 33, 5, "bfloat16", block="Q5_K", norm=True, bias=True),
            Product(2048, 513, 1, "float16", block="Q6_K", norm=True, out="float32"),
        )
    ),
    matmul_spec("Q4_K", 512, 100, 32, "float16"),
    matmul_spec("Q6_K", 256, 65, 32, "bfloat16"),  # MLX's own product, behind one of ours, may be in TF32
    embed_spec(2048, 1, "float16", block="Q4_K"),
    embed_spec(512, 3, "bfloat16", block="Q6_K"),
)

# Head sizes and groups pairwise with dtypes; one token, page borders, an empty history, keys in several
# parts, windows that begin inside a page.
DECODE = tuple(
    attention.spec("decode")
    for attention in (
        Attention(4, 4, 64, "float32", "0,15,16,17", "1,1,1,1"),
        Attention(32, 4, 64, "float16", "1100,3", "1,1"),
        Attention(6, 2, 80, "float16", "31,600", "4,4", page_size=32, rotary=32),
        Attention(8, 4, 96, "bfloat16", "100", "1", window=37),
        Attention(16, 1, 128, "bfloat16", "512,511", "1,1", norm=True),
        Attention(14, 2, 128, "float32", "47", "8", sinks=True, window=20),
        Attention(8, 2, 256, "float16", "530,0", "2,2", softcap=50.0),
    )
)
PREFILL = tuple(
    attention.spec("prefill")
    for attention in (
        Attention(4, 4, 64, "float32", "0,17", "33,1"),
        Attention(8, 1, 64, "float16", "0,0,100", "70,0,5", page_size=32),
        Attention(6, 2, 80, "bfloat16", "15", "40", rotary=32, softcap=30.0),
        Attention(8, 4, 96, "float16", "50,3", "20,30", window=24),
        Attention(5, 1, 128, "bfloat16", "0", "65", norm=True),
        Attention(4, 2, 256, "float32", "16", "33", sinks=True),
    )
)
PAGES = tuple(
    attention.spec("pages")
    for attention in (
        Attention(4, 2, 64, "float32", "17,0", "20,3"),
        Attention(6, 2, 80, "float16", "1", "1", rotary=32, page_size=32),
        Attention(4, 1, 256, "bfloat16", "40", "9", norm=True),
    )
)

# Tables dense and packed, vocabularies that are whole vectors and that are not.
ENDS = (
    embed_spec(2048, 1, "float16"),
    embed_spec(576, 3, "bfloat16"),
    embed_spec(64, 8, "float32", bits=4, group=32),
    embed_spec(2048, 1, "float16", bits=8, group=64),
    embed_spec(1024, 2, "bfloat16", bits=4, group=128),
    pick_spec(32000, 1),
    pick_spec(1003, 3),
)

# What the engine asks when it loads a model: a chunk on a longer history, whole and in a window.
CHUNKS = (
    chunk_spec(AttentionShape(8, 2, 64, 64, 16, mx.float16, 64**-0.5)),
    chunk_spec(AttentionShape(2, 2, 128, 128, 32, mx.bfloat16, 128**-0.5, window=300)),
    odd_spec(AttentionShape(8, 2, 64, 64, 16, mx.float16, 64**-0.5)),
    odd_spec(AttentionShape(2, 2, 128, 128, 32, mx.bfloat16, 128**-0.5, window=300)),
    short_spec(AttentionShape(8, 2, 64, 64, 16, mx.float16, 64**-0.5)),
    short_spec(AttentionShape(2, 2, 128, 128, 32, mx.bfloat16, 128**-0.5, window=300)),
)

SUITE: tuple[CaseSpec, ...] = (
    *(*RMS_NORM, *MATVEC, *PAGE_PRODUCTS, *BLOCKS),
    *(*DECODE, *PREFILL, *CHUNKS, *PAGES, *ENDS),
)


@dataclass(frozen=True, slots=True)
class Check:
    """What came of one candidate at one shape.

    Attributes:
        key, candidate: the op at its shape, and the kernel's variant.
        error: largest difference as a share of the largest value; None where there is none.
        tolerance: the largest that passes.
        reason: why it failed, or "".
    """

    key: str
    candidate: str
    error: float | None
    tolerance: float
    reason: str

    @property
    def has_passed(self) -> bool:
        """Whether it ran and agreed."""
        return not self.reason


def processes_at_once(executor: ExecutorName, cores: int = os.cpu_count() or 1) -> int:
    """How many processes check at the same time: most of a check is compiling, a process compiles one by one.

    One on an Apple GPU, whose driver keeps what it compiled, and where a kernel that hangs fails what other
    processes have there, too.
    """
    return 1 if executor == "metal" else max(1, min(_MOST_PROCESSES, cores // 2))


def shares(count: int, processes: int) -> list[range]:
    """`count` tasks dealt out like cards: neighbours in the suite take about as long."""
    return [range(first, count, processes) for first in range(min(count, processes))]


def run_suite(
    runner: TrialRunner,
    executor: Executor,
    specs: Sequence[CaseSpec] = SUITE,
    builders: Mapping[str, CaseBuilder] = CASES,
    *,
    processes: int = 1,
) -> Generator[Check]:
    """Runs each kernel candidate of each case once and yields what came of it, as it comes.

    Args:
        runner: makes the processes.
        executor: of the same kind as the runner's; nothing is launched on it.
        specs: the cases.
        builders: by op.
        processes: at a time, each with its share of the cases; one keeps their order.

    Raises:
        TrialError: the processes cannot be started.
    """
    cases = [builders[spec.op](spec.params, executor) for spec in specs]
    left = [[one.name for one in case.contenders[1:]] for case in cases]
    tasks = [Task(spec, tuple(names), is_timed=False) for spec, names in zip(specs, left, strict=True)]
    for outcome in _outcomes(runner, tasks, processes):
        case, names = cases[outcome.index], left[outcome.index]
        if isinstance(outcome, Checked):
            names.remove(outcome.candidate)
            yield Check(case.key, outcome.candidate, outcome.error, case.tolerance, outcome.reason)
        elif isinstance(outcome, Dropped | Postponed):
            for name in names:
                yield Check(case.key, name, None, case.tolerance, outcome.reason)


def _outcomes(runner: TrialRunner, tasks: Sequence[Task], processes: int) -> Iterator[Outcome]:
    """What becomes of all tasks, each share on a thread that watches its process. Closing it ends them."""
    said: SimpleQueue[Outcome | Future[None]] = SimpleQueue()
    is_over = Event()

    def watch(share: range) -> None:
        for outcome in runner.run([tasks[at] for at in share], stop=is_over.is_set):
            said.put(replace(outcome, index=share[outcome.index]))

    with ThreadPoolExecutor(processes) as threads:
        watched = [threads.submit(watch, share) for share in shares(len(tasks), processes)]
        for one in watched:
            one.add_done_callback(said.put)
        try:
            running = len(watched)
            while running:
                item = said.get()
                if isinstance(item, Future):
                    item.result()  # raises what ended it
                    running -= 1
                else:
                    yield item
        finally:
            is_over.set()
