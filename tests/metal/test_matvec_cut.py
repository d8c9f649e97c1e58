"""The cuts of a matrix-vector product: what is offered for a shape is allowed, and right."""

from __future__ import annotations

from collections import Counter
from itertools import product

import mlx.core as mx
import pytest

from metal.errors import KernelError
from metal.executors import Executor
from metal.matvec import Matvec
from metal.matvec_cut import Cut, Work, candidates, default_cut
from metal.matvec_weight import AffineWeight, DenseWeight
from tests.metal.matvec_oracle import exact, make_scene
from tests.metal.numbers import TOLERANCE, error, normal, wide

WORKS = [
    Work(rows, columns, width, lane_width, gated)
    for rows, columns, width, lane_width, gated in product(
        range(1, 9), (1, 256, 2048, 11008, 128256), (64, 896, 2048, 5632, 14336), (8, 16, 32), (False, True)
    )
]


def test_what_is_offered_is_allowed_and_begins_with_the_default() -> None:
    for work in WORKS:
        offered = candidates(work)
        assert 1 <= len(offered) <= 6
        assert len(set(offered)) == len(offered)
        assert offered[0] == default_cut(work)
        for cut in offered:
            assert work.rows * cut.outputs <= cut.count(work.rows) <= 32
            assert cut.split * cut.unroll <= max(work.steps, cut.split)


def test_loads_of_common_widths_need_no_bound() -> None:
    for width in (1024, 2048, 4096, 8192, 14336):
        assert width % (default_cut(Work(1, 2048, width, 8, gated=False)).unroll * 256) == 0


@pytest.mark.parametrize("width", [2048, 1088])
@pytest.mark.parametrize("number", range(6))
def test_every_candidate_agrees_with_float64(executor: Executor, number: int, width: int) -> None:
    scene = make_scene(mx.float16, 1, 33, width, "norm silu residual")
    plain = normal((66, width), mx.float16) * width**-0.5
    packed = AffineWeight(*mx.quantize(plain, group_size=64, bits=4), 64, 4)
    restored = mx.dequantize(packed.weight, packed.scales, packed.biases, group_size=64, bits=4)
    for weight, values in ((DenseWeight(plain), plain), (packed, restored)):
        cuts = candidates(Work(1, 33, width, weight.lane_width, gated=True))
        if number < len(cuts):
            kernel = Matvec(
                executor, Counter(), weight, norm=scene.norm, activation=scene.activation, cut=cuts[number]
            )
            y = kernel(scene.x, scene.residual)
            assert error(y, exact(wide(values), scene)) <= TOLERANCE[mx.float16]


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ((3, 4, 2, 1), r"Cut\(outputs=3, .* is not supported"),
        ((2, 4, 0, 1), "unroll=0.* is not supported"),
        ((2, 4, 2, 3), "split=3.* is not supported"),
        ((2, 2, 2, 4), "2 simdgroups in teams of 4"),
        ((2, 64, 2, 1), "64 simdgroups in teams of 1"),
    ],
)
def test_cuts_that_no_kernel_has(numbers: tuple[int, int, int, int], says: str) -> None:
    with pytest.raises(KernelError, match=says):
        Cut(*numbers)


def test_sums_for_more_lanes_than_there_are() -> None:
    with pytest.raises(KernelError, match="8 outputs for 5 rows are over 32 sums"):
        Cut(8, 4, 1).count(5)
