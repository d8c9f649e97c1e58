"""What the dialect's names mean, the same on every executor: each against numpy or MLX."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from metal.executors import Executor, Output
from tests.metal.numbers import normal, wide

LaunchBody = Callable[..., list[mx.array]]
STORAGE = [mx.float32, mx.float16, mx.bfloat16]
TOLERANCE = {mx.float32: 1e-6, mx.float16: 1e-3, mx.bfloat16: 1e-2}


def test_simdgroup_operations(executor: Executor, launch_body: LaunchBody) -> None:
    x = normal((64,))
    (y,) = launch_body(
        "lanes",
        executor,
        {"x": x},
        {"y": Output((8, 64), mx.float32)},
        grid=(64, 1, 1),
        threadgroup=(64, 1, 1),
    )
    lanes, indices = wide(x).reshape(2, 32), np.arange(64).reshape(2, 32)
    order = np.arange(32)
    below = np.where(order < 29, lanes[:, np.minimum(order + 3, 31)], 0)
    expected = [
        np.repeat(lanes.sum(1), 32),
        np.repeat(lanes.max(1), 32),
        lanes[:, ::-1].ravel(),
        lanes[:, order ^ 5].ravel(),
        below.ravel(),
        np.repeat(lanes[:, 7], 32),
        np.repeat(indices.sum(1) - indices.max(1), 32),
        (np.repeat(indices.sum(1), 32).reshape(2, 32) + indices[:, order ^ 1]).ravel(),
    ]
    np.testing.assert_allclose(np.array(y), np.array(expected), rtol=1e-5)


@pytest.mark.parametrize("dtype", STORAGE, ids=str)
def test_vectors(executor: Executor, launch_body: LaunchBody, dtype: mx.Dtype) -> None:
    x = normal((64, 8), dtype)
    words = mx.arange(256, dtype=mx.uint32)
    y, z, sums, bits = launch_body(
        "vectors",
        executor,
        {"x": x, "words": words},
        {
            "y": Output((320,), dtype),
            "z": Output((64, 8), dtype),
            "sums": Output((64,), mx.uint32),
            "bits": Output((64,), mx.float32),
        },
        grid=(64, 1, 1),
        threadgroup=(64, 1, 1),
        template={"T": dtype},
    )
    eights = wide(x)
    low, high = eights[:, :4], eights[:, 4:]
    far = eights[::-1]
    np.testing.assert_allclose(
        wide(y)[:256].reshape(64, 4), 2 * low + high - low * high + [1, 2, 3, 4], atol=8 * TOLERANCE[dtype]
    )
    np.testing.assert_allclose(
        wide(y)[256:], far[:, :4] @ [1, 0.5, 0.25, 0.125] + far[:, 4], atol=8 * TOLERANCE[dtype]
    )
    np.testing.assert_array_equal(wide(z), far)
    np.testing.assert_array_equal(np.array(sums), np.arange(256).reshape(64, 4) @ [1, 3, 5, 7])
    np.testing.assert_array_equal(np.array(bits), np.arange(3, 256, 4))


@pytest.mark.parametrize("dtype", STORAGE, ids=str)
def test_matrices(executor: Executor, launch_body: LaunchBody, dtype: mx.Dtype) -> None:
    a, b, c = (normal((2, 8, 8), dtype, seed) for seed in range(3))
    (d,) = launch_body(
        "matrices",
        executor,
        {"a": a, "b": b, "c": c},
        {"d": Output((2, 8, 8), mx.float32)},
        grid=(64, 1, 1),
        threadgroup=(64, 1, 1),
        template={"T": dtype},
    )
    expected = wide(a) @ wide(b) + wide(a) @ wide(c).transpose(0, 2, 1)
    np.testing.assert_allclose(wide(d), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", STORAGE, ids=str)
def test_lanes_find_their_elements_of_a_matrix(
    executor: Executor, launch_body: LaunchBody, dtype: mx.Dtype
) -> None:
    a, b, v = normal((8, 16), dtype, 0), normal((8, 16), dtype, 1), normal((8, 32), dtype, 2)
    weights = normal((16,), dtype, 3)
    y, where, totals, weighed, seen = launch_body(
        "looks_inside",
        executor,
        {"a": a, "b": b, "v": v, "weights": weights},
        {
            "y": Output((8, 32), mx.float32),
            "where": Output((8, 8), mx.float32),
            "totals": Output((16,), mx.float32),
            "weighed": Output((8, 8), mx.float32),
            "any": Output((8,), mx.int32),
        },
        grid=(32, 1, 1),
        threadgroup=(32, 1, 1),
        template={"T": dtype},
    )
    scores = wide(a) @ wide(b).T
    less = scores - scores.max(1, keepdims=True)
    np.testing.assert_allclose(wide(where), scores, atol=1e-5)
    np.testing.assert_allclose(wide(totals), [*less.sum(1), *(wide(a) ** 2).sum(1)], atol=1e-4)
    product = wide((a.astype(mx.float32) * weights.astype(mx.float32)).astype(dtype))  # rounded once
    np.testing.assert_allclose(wide(weighed), product @ wide(b).T, atol=1e-5)
    expected = 2 * less @ wide(v)
    np.testing.assert_allclose(wide(y), expected, atol=TOLERANCE[dtype] * np.abs(expected).max())
    assert seen.tolist()[:2] == [1, 0]


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=str)
def test_conversions_round_to_nearest_even(
    executor: Executor, launch_body: LaunchBody, dtype: mx.Dtype
) -> None:
    bits = np.arange(65536, dtype=np.uint16)
    stored = mx.array(bits).view(dtype)
    exact = np.array(stored.astype(mx.float32))
    # Every value of the format, the middle between it and the next in size, and that middle's neighbours.
    following = np.array(mx.array(bits + np.uint16(1)).view(dtype).astype(mx.float32))
    with np.errstate(invalid="ignore", over="ignore"):
        middle = (exact.astype(np.float64) + following) / 2
        middle = middle.astype(np.float32)
        above, below = np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))
    values = np.concatenate([exact, middle, above, below])
    pairs = np.tile(bits[::-1], 4)
    narrow, widened, halved, low = launch_body(
        "conversions",
        executor,
        {"wide": mx.array(values), "stored": mx.concatenate([stored] * 4), "pairs": mx.array(pairs)},
        {
            "narrow": Output(values.shape, dtype),
            "widened": Output(values.shape, mx.float32),
            "halved": Output(values.shape, mx.float32),
            "low": Output(values.shape, mx.uint32),
        },
        grid=(values.size, 1, 1),
        threadgroup=(1024, 1, 1),
        template={"T": dtype},
    )
    np.testing.assert_array_equal(np.array(widened)[:65536], exact)
    np.testing.assert_array_equal(np.array(halved)[:65536], bits.view(np.float16).astype(np.float32))
    np.testing.assert_array_equal(np.array(low), pairs)
    np.testing.assert_array_equal(wide(narrow), wide(mx.array(values).astype(dtype)))


def test_places(executor: Executor, launch_body: LaunchBody) -> None:
    size, groups = (4, 8, 2), (3, 2, 2)
    grid = tuple(a * b for a, b in zip(size, groups, strict=True))
    (y,) = launch_body(
        "places",
        executor,
        {"unused": mx.zeros(8)},
        {"y": Output((grid[2], grid[1], grid[0], 8), mx.uint32)},
        grid=grid,
        threadgroup=size,
    )
    z, row, x = np.meshgrid(*(np.arange(n) for n in reversed(grid)), indexing="ij")
    index = x % 4 + 4 * (row % 8) + 32 * (z % 2)
    ones = np.ones_like(x)
    expected = [
        x // 4 + 10 * (row // 8) + 100 * (z // 2),
        x % 4 + 10 * (row % 8) + 100 * (z % 2),
        ones * (4 + 80 + 200),
        ones * (3 + 20 + 200),
        index,
        index % 32,
        index // 32,
        ones * 2,
    ]
    np.testing.assert_array_equal(np.array(y), np.stack(expected, axis=-1))


def test_mathematics(executor: Executor, launch_body: LaunchBody) -> None:
    x = normal((64,))
    (y,) = launch_body(
        "mathematics",
        executor,
        {"x": x},
        {"y": Output((8, 64), mx.float32)},
        grid=(64, 1, 1),
        threadgroup=(64, 1, 1),
    )
    v = wide(x)
    expected = [
        np.exp2(v),
        1 / np.sqrt(np.abs(v) + 1),
        v * v - 1,
        np.maximum(v, 0.5) - np.minimum(v, 0.25),
        np.exp(v) + np.log(np.abs(v) + 1),
        np.sin(v) * np.cos(v),
        np.tanh(v) + np.sqrt(np.abs(v)),
        np.log2(np.abs(v) + 2),
    ]
    np.testing.assert_allclose(np.array(y), np.array(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", STORAGE, ids=str)
def test_initial_values_and_writing_in_place(
    executor: Executor, launch_body: LaunchBody, dtype: mx.Dtype
) -> None:
    pool = mx.arange(64).astype(dtype)
    mx.eval(pool)
    (y,) = launch_body(
        "some",
        executor,
        {"pool": pool},
        {"y": Output((128,), dtype)},
        grid=(64, 1, 1),
        threadgroup=(64, 1, 1),
        template={"T": dtype},
        init_value=0.5,
        in_place=("pool",),
    )
    mx.eval(y)
    mx.synchronize()
    np.testing.assert_array_equal(wide(y).reshape(64, 2), np.tile([1, 0.5], (64, 1)))
    np.testing.assert_array_equal(wide(pool), np.arange(1, 65))
