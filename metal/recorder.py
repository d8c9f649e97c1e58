"""What was launched on pools, in what order, and whether arrays that were handed on say so.

MLX orders a launch after those whose outputs it takes, and after nothing else. On a processor all runs in
the order of the calls, so that a forgotten fence never shows. Here it does: two launches that touch one page,
one of them writing, must be joined by a path of such arrays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import local
from typing import cast

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal import decode_attention, matmul_pages, page_copy, page_gather, page_write, prefill_attention
from metal.errors import KernelError
from metal.executors import Executor, Launcher, Request, Signature
from metal.pools import pool_name
from metal.source import KernelSource
from metal.touched import Declaration, Launched, Touched

Bytes = NDArray[np.uint8]

DECLARED: Mapping[str, Declaration] = {
    "decode_attention": decode_attention.touched,
    "prefill_attention": prefill_attention.touched,
    "page_write": page_write.touched,
    "page_gather": page_gather.touched,
    "page_copy": page_copy.touched,
    "matmul": matmul_pages.touched,
}
"""What each kernel that takes pools says of a launch."""


@dataclass(frozen=True, slots=True)
class RecordedPool:
    """A layer's keys and values (kv_heads, slots, head_dim), and the bytes they held when first seen."""

    keys: mx.array
    values: mx.array
    before: tuple[Bytes, Bytes]

    @property
    def now(self) -> tuple[Bytes, Bytes]:
        """The bytes of keys and values, in place."""
        return bytes_of(self.keys), bytes_of(self.values)


@dataclass(frozen=True, slots=True)
class Touch:
    """Pages of pool number `pool`."""

    pool: int
    pages: Touched


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel's launch: how to repeat it, and what it made."""

    launch: Launcher
    request: Request
    signature: Signature
    outputs: tuple[mx.array, ...]


@dataclass(frozen=True, slots=True)
class Growth:
    """The host copied pool number `source` to the beginning of pool number `target`."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Wait:
    """The host waited for arrays: all that it does later comes after what made them."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was done, in the order of the program.

    Attributes:
        name: for people.
        what: the thing itself.
        after: the steps that arrays say it comes after, as numbers.
        touches: what it reads and writes.
    """

    name: str
    what: Launch | Growth | Wait
    after: frozenset[int]
    touches: tuple[Touch, ...] = ()


@dataclass(frozen=True, slots=True)
class Unordered:
    """Two steps that nothing joins though they touch one page of one pool, one of them writing."""

    first: int
    second: int
    pool: int
    page: int


@dataclass(slots=True)
class Recorder:
    """Keeps every launch that takes pools of `page_size` tokens a page, with the arrays it took and made.

    Only arrays that went straight from launch to launch count, and what shares their memory: one that an
    operation of MLX computed joins nothing here, which is stricter than MLX is.
    """

    page_size: int
    steps: list[Step] = field(default_factory=list[Step])
    pools: list[RecordedPool] = field(default_factory=list[RecordedPool])
    _makers: dict[int, tuple[mx.array, frozenset[int]]] = field(
        default_factory=dict[int, tuple[mx.array, frozenset[int]]]
    )
    _last_wait: int | None = None
    _launching_now: local = field(default_factory=local)  # each thread for itself

    def recorded(self, launch: Launcher, source: KernelSource, signature: Signature) -> Launcher:
        """`launch`, with each call kept.

        Raises KernelError for a kernel that takes pools and does not declare what it touches.
        """
        if not (names := pool_names(signature)):
            return self._unrecorded(source.name, launch)
        if source.name not in DECLARED:
            raise KernelError(f"kernel {source.name} takes pools and does not declare what it touches")
        touched = DECLARED[source.name]

        def launch_and_keep(request: Request) -> list[mx.array]:
            arrays = dict(zip(signature.inputs, request.inputs, strict=True))
            with self._launching():
                pools = [self._pool(arrays[keys], arrays[values]) for keys, values in names]
                made = launch(request)
                pages = touched(Launched(arrays, request.template, self.page_size))
            for pool in pools:
                self._check(source.name, pool, pages)
            step = Step(
                source.name,
                Launch(launch, request, signature, tuple(made)),
                self._after(request.inputs),
                tuple(Touch(pool, pages) for pool in pools),
            )
            self._keep(made, frozenset({len(self.steps)}))
            self.steps.append(step)
            return made

        return launch_and_keep

    def waited(self, arrays: Iterable[mx.array]) -> None:
        """The host has waited for `arrays`. What an emulated launch itself waits for is no such thing."""
        if self._is_launching:
            return
        made = self._made(arrays)
        if made:
            self.steps.append(Step("wait", Wait(), made | self._host()))
            self._last_wait = len(self.steps) - 1

    def grew(self, old: tuple[mx.array, mx.array], new: tuple[mx.array, mx.array]) -> None:
        """The host has copied a pool's keys and values to new, larger arrays that nothing has used yet."""
        source, target = self._pool(*old), self._pool(*new)
        touches = (
            Touch(source, Touched(reads=self.all_pages(source))),
            Touch(target, Touched(writes=self.all_pages(target))),
        )
        self.steps.append(Step("growth", Growth(source, target), self._after([]), touches))
        self._keep(new, frozenset({len(self.steps) - 1}))

    def all_pages(self, pool: int) -> frozenset[int]:
        """The pages of pool number `pool`."""
        return frozenset(range(self.pools[pool].keys.shape[1] // self.page_size))

    @property
    def _is_launching(self) -> bool:
        return getattr(self._launching_now, "is_on", False)

    @contextmanager
    def _launching(self) -> Generator[None]:
        before, self._launching_now.is_on = self._is_launching, True
        try:
            yield
        finally:
            self._launching_now.is_on = before

    def _unrecorded(self, name: str, launch: Launcher) -> Launcher:
        def run(request: Request) -> list[mx.array]:
            known = {id(array) for pool in self.pools for array in (pool.keys, pool.values)}
            if any(id(array) in known for array in request.inputs):
                raise KernelError(f"kernel {name} takes a pool and does not say so")
            with self._launching():
                made, makers = launch(request), self._made(request.inputs)
            if makers:
                self._keep(made, makers)
            return made

        return run

    def _after(self, arrays: Iterable[mx.array]) -> frozenset[int]:
        return self._made(arrays) | self._host()

    def _made(self, arrays: Iterable[mx.array]) -> frozenset[int]:
        with self._launching():
            known = [self._makers[place][1] for place in map(_address, arrays) if place in self._makers]
        return frozenset[int]().union(*known)

    def _keep(self, made: Iterable[mx.array], makers: frozenset[int]) -> None:
        """Who made arrays, which stay alive, so that nothing else comes to lie where they do."""
        with self._launching():
            self._makers |= {_address(array): (array, makers) for array in made}

    def _host(self) -> frozenset[int]:
        return frozenset() if self._last_wait is None else frozenset({self._last_wait})

    def _pool(self, keys: mx.array, values: mx.array) -> int:
        for number, pool in enumerate(self.pools):
            if pool.keys is keys:
                return number
        pool = RecordedPool(keys, values, (bytes_of(keys).copy(), bytes_of(values).copy()))
        self.pools.append(pool)
        return len(self.pools) - 1

    def _check(self, name: str, pool: int, pages: Touched) -> None:
        if strange := (pages.reads | pages.writes) - self.all_pages(pool):
            raise KernelError(f"{name} touches the pages {sorted(strange)} that its pools have not")


class RecordingExecutor:
    """`executor`, with a recorder beside it."""

    def __init__(self, executor: Executor, recorder: Recorder) -> None:
        self._executor, self._recorder = executor, recorder

    def build(self, source: KernelSource, signature: Signature) -> Launcher:
        """See `Executor.build`."""
        return self._recorder.recorded(self._executor.build(source, signature), source, signature)


def pool_names(signature: Signature) -> list[tuple[str, str]]:
    """What a kernel calls the keys and values of each layer whose pools it takes."""
    layers = sum(name.startswith("keys") for name in signature.inputs)
    return [(pool_name("keys", number), pool_name("values", number)) for number in range(layers)]


def unordered(steps: Sequence[Step]) -> list[Unordered]:
    """Each pair of steps that touches a page, one of them writing, and that no path of arrays joins.

    Sets of steps are the bits of an integer, so that this is linear in steps × pages.
    """
    found: list[Unordered] = []
    before: list[int] = []  # of each step, the steps that come before it
    readers: defaultdict[tuple[int, int], int] = defaultdict(int)
    writers: defaultdict[tuple[int, int], int] = defaultdict(int)
    for number, step in enumerate(steps):
        before.append(0)
        for earlier in step.after:
            before[number] |= before[earlier] | 1 << earlier
        for touch in step.touches:
            for page in touch.pages.reads | touch.pages.writes:
                place = (touch.pool, page)
                is_written = page in touch.pages.writes
                others = writers[place] | (readers[place] if is_written else 0)
                loose = others & ~before[number]
                found += [Unordered(first, number, *place) for first in _bits(loose)]
                if is_written:
                    writers[place] |= 1 << number
                else:
                    readers[place] |= 1 << number
    return found


def without(steps: Sequence[Step], first: int, second: int) -> list[Step]:
    """The steps, less the arrays that `second` took of `first`."""
    changed = list(steps)
    changed[second] = replace(steps[second], after=steps[second].after - {first})
    return changed


def bytes_of(array: mx.array) -> Bytes:
    """The array's own memory (first dimension kept); evaluates it. Raises KernelError for a copy."""
    plain = array.view(mx.uint16) if array.dtype == mx.bfloat16 else array
    mx.eval(plain)
    view = cast("NDArray[np.generic]", np.array(plain, copy=False))
    if not view.flags.c_contiguous:
        raise KernelError(f"an array of {array.shape} is not row-contiguous")
    return view.reshape(*view.shape[:-1], -1).view(np.uint8)


def _address(array: mx.array) -> int:
    """Where it lies."""
    plain = array.view(mx.uint16) if array.dtype == mx.bfloat16 else array
    mx.eval(plain)
    return cast("NDArray[np.generic]", np.array(plain, copy=False)).ctypes.data


def _bits(number: int) -> list[int]:
    return [place for place in range(number.bit_length()) if number >> place & 1]
