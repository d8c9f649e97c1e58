"""A page that a kernel is to copy is copied before anything else sees the pools, whatever comes next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.kv.arena import Arena
from engine.kv.page_table import PageCopy as PageCopied
from metal.emulator import Emulator, Mode
from metal.executors import EmulatedExecutor
from metal.page_copy import PageCopy
from tests.metal.conftest import kernel_cache as kernel_cache
from tests.metal.test_page_gather import shaped

LAYERS, PAGES, SIZE = 3, 8, 16
SHAPE = shaped(mx.float16, 64, 2, SIZE)


@pytest.fixture
def launches() -> Counter[str]:
    return Counter()


@pytest.fixture
def copier(kernel_cache: Path, launches: Counter[str]) -> PageCopy:
    return PageCopy(EmulatedExecutor(Emulator(kernel_cache, Mode.CHECKED)), launches, SHAPE)


@pytest.fixture
def arena(copier: PageCopy) -> Arena:
    """Of pages that hold other numbers each."""
    made = Arena(LAYERS, SHAPE.kv_heads, SHAPE.head_dim, SIZE, SHAPE.dtype)
    made.work_in_place([copier] * LAYERS)
    made.reserve(PAGES, PAGES)
    data, rng = made.read(range(PAGES)), np.random.default_rng(0)
    for array in data.arrays.values():
        array[:] = rng.standard_normal(array.shape).astype(np.float16)
    data.copy_into(made.memory(range(PAGES))(0, PAGES))
    return made


def page(arena: Arena, number: int) -> list[bytes]:
    return [array.tobytes() for array in arena.read([number]).arrays.values()]


def grow(arena: Arena) -> None:
    arena.reserve(5 * PAGES, 5 * PAGES)
    assert arena.pages > PAGES


NEXT: dict[str, Callable[[Arena], object]] = {
    "reading": lambda arena: None,
    "growing": grow,
    "another copy": lambda arena: arena.copy(PageCopied(6, 7)),
    "launches": lambda arena: arena.pools,
    "other kernels": lambda arena: arena.work_in_place(None),
    "waiting": lambda arena: mx.eval(arena.state()),
}


@pytest.mark.parametrize("what", NEXT)
def test_whatever_comes_next_finds_it_copied(what: str, arena: Arena) -> None:
    source, target = page(arena, 2), page(arena, 5)
    assert source != target
    arena.copy(PageCopied(2, 5))
    NEXT[what](arena)
    assert page(arena, 5) == page(arena, 2) == source


def test_who_takes_it_copies_it(arena: Arena, copier: PageCopy, launches: Counter[str]) -> None:
    source, target = page(arena, 2), page(arena, 5)
    arena.copy(PageCopied(2, 5))
    pools, copied = arena.take_copy(5)
    assert copied == PageCopied(2, 5)
    assert (page(arena, 5), launches.total()) == (target, 0), "nobody has copied it"
    pools.copy_page([copier] * LAYERS, mx.array([2, 5], mx.int32))
    assert (page(arena, 5), launches.total()) == (source, 1)
    assert arena.take_copy(5)[1] is None


def test_who_takes_another_finds_it_copied(arena: Arena, launches: Counter[str]) -> None:
    source = page(arena, 2)
    arena.copy(PageCopied(2, 5))
    assert arena.take_copy(6)[1] is None
    assert (page(arena, 5), launches.total()) == (source, 1)


def test_it_goes_with_the_arrays(arena: Arena, launches: Counter[str]) -> None:
    arena.copy(PageCopied(2, 5))
    arena.release()
    arena.reserve(PAGES, PAGES)
    assert not any(array.any() for array in arena.read(range(PAGES)).arrays.values())
    assert launches.total() == 0


def test_it_is_copied_once_before_what_is_filled_by_the_host(arena: Arena) -> None:
    source, other = page(arena, 2), arena.read([3])
    arena.copy(PageCopied(2, 5))
    other.copy_into(arena.memory([2])(0, 1))
    assert (page(arena, 2), page(arena, 5)) == (page(arena, 3), source)
    other.copy_into(arena.memory([5])(0, 1))
    assert page(arena, 5) == page(arena, 3)


def test_what_is_due_is_part_of_the_state(arena: Arena, launches: Counter[str]) -> None:
    arena.copy(PageCopied(2, 5))
    arena.state()
    assert launches.total() == 1


def test_who_touches_any_layer_next_waits_for_the_copy(arena: Arena) -> None:
    before = arena.pools.fence
    arena.copy(PageCopied(2, 5))
    assert arena.pools.fence is not before
