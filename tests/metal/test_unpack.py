"""A chunk's numbers and the angles of its positions against numpy, on every executor."""

from collections import Counter

import mlx.core as mx
import numpy as np
import pytest

from metal.errors import KernelError
from metal.executors import Executor
from metal.unpack import Unpack
from tests.metal.numbers import normal


def check(executor: Executor, dims: int, rows: int, behind: int) -> None:
    """`behind`: numbers that come after the rows' positions."""
    random = np.random.default_rng(rows)
    angles = normal((5000, dims), seed=dims)
    first = int(random.integers(8, 60))
    written = random.integers(-(2**31), 2**31, first + rows + behind, np.int32)
    written[:3] = len(written), rows, first
    positions = written[first : first + rows] = random.integers(0, 5000, rows)
    numbers, own = Unpack(executor, Counter())(mx.array(written), angles, rows)
    assert np.array_equal(np.array(numbers), written)
    assert np.array_equal(np.array(own), np.array(angles)[positions])


@pytest.mark.parametrize(
    ("dims", "rows", "behind"), [(64, 32, 256), (128, 1, 8), (32, 512, 4096), (96, 48, 0), (64, 33, 7000)]
)
def test_numbers_and_angles(executor: Executor, dims: int, rows: int, behind: int) -> None:
    check(executor, dims, rows, behind)


def test_refuses_what_it_does_not_take(executor: Executor) -> None:
    written, angles, unpack = mx.zeros(40, mx.int32), mx.zeros((9, 64)), Unpack(executor, Counter())
    for numbers, table, rows in (
        (written.astype(mx.uint32), angles, 1),
        (written[:7], angles, 1),
        (written, angles.astype(mx.float16), 1),
        (written, angles[0], 1),
        (written, angles, 0),
    ):
        with pytest.raises(KernelError, match="unpack: "):
            unpack(numbers, table, rows)
