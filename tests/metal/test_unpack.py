"""What a chunk's layers read of it against numpy, on every executor."""

from collections import Counter

import mlx.core as mx
import numpy as np
import pytest

from metal.errors import KernelError
from metal.executors import Executor
from metal.sequences import numbers_of_one
from metal.unpack import Room, Unpack
from tests.metal.numbers import normal

PAGE = 16


def check(
    executor: Executor, dims: int, room: Room, begin: int, tokens: int, more: int = 0, page: int = PAGE
) -> None:
    """`more`: integers that come after what was written."""
    random = np.random.default_rng(begin)
    angles = normal((5000, dims), seed=dims)
    pages, pair = random.integers(0, 9999, -(-(begin + tokens) // page)), random.integers(0, 9999, 3)
    ids, behind = random.integers(0, 2**31, tokens), random.integers(-(2**31), 2**31, room.behind)
    there = int(random.integers(0, 2**31))
    numbers = room.numbers(begin, ids.tolist(), pages.tolist(), there, pair.tolist(), behind.tolist())
    assert len(numbers) <= room.written
    anything = random.integers(-(2**31), 2**31, more).tolist()
    made = Unpack(executor, Counter(), page)(mx.array([*numbers, *anything], mx.int32), angles, room)

    padding, positions = room.rows - tokens, begin + np.arange(tokens)
    slots = np.pad(pages[positions // page] * page + positions % page, (0, padding), constant_values=-1)
    positions = np.pad(positions, (0, padding), mode="edge")
    assert made.slots.tolist() == [*slots, *pair, there, 0, 0, 0, 0]
    table = [*pages.tolist(), *[-1] * (room.pages - len(pages))]
    assert made.sequences.numbers.tolist() == numbers_of_one(
        begin, tokens, table, slots=there, rows=room.rows
    )
    assert (made.sequences.count, made.sequences.width) == (1, room.pages)
    assert np.array_equal(np.array(made.angles), np.array(angles)[positions])
    handed = [*positions, *(behind % 2**32)] if room.behind else []
    assert made.rest.tolist() == [*ids, *[0] * padding, *handed]


@pytest.mark.parametrize(
    ("dims", "room", "begin", "tokens", "more"),
    [
        (64, Room(32, 512), 4091, 28, 40),
        (128, Room(8, 16, 8), 200, 1, 0),
        (32, Room(512, 512), 3000, 470, 9),
        (96, Room(48, 64, 24), 0, 48, 0),
        (64, Room(33, 300, 64), 4790, 10, 500),
        (64, Room(9, 6), 80, 9, 0),
    ],
    ids=str,
)
def test_agrees_with_numpy(
    executor: Executor, dims: int, room: Room, begin: int, tokens: int, more: int
) -> None:
    check(executor, dims, room, begin, tokens, more)


def test_refuses_what_it_does_not_take(executor: Executor) -> None:
    numbers, angles, unpack = mx.zeros(40, mx.int32), mx.zeros((9, 64)), Unpack(executor, Counter(), PAGE)
    for given, table, rows in (
        (numbers.astype(mx.uint32), angles, 1),
        (numbers[:15], angles, 1),
        (numbers, angles.astype(mx.float16), 1),
        (numbers, angles[0], 1),
        (numbers, angles, 0),
    ):
        with pytest.raises(KernelError, match="unpack: "):
            unpack(given, table, Room(rows, 16))
