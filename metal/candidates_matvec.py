"""The candidates of a product of few rows: MLX's own, and our kernel in each cut worth measuring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal import reference_matvec
from metal.candidates_parts import BUILTIN, digest, dtype_named, exact_norm, normal, wide
from metal.dequantize import dequantize
from metal.errors import KernelError
from metal.executors import Executor
from metal.matmul import Matmul, MatmulCut, matmul_cuts
from metal.matvec import Matvec, Norm
from metal.matvec_cut import MAX_ROWS, Cut
from metal.matvec_weight import AffineWeight, BlockWeight, DenseWeight, Weight, block_named
from metal.product import Product
from metal.random_weight import random_blocks
from metal.trial_case import TOLERANCE, Arrays, Case, Data, OpCandidate, OpCase, Params, Step

_EPSILON = 1e-5
_COLD_BYTES = 192 << 20  # more than the caches of the GPUs that there are
_SAMPLE = 64
"""Columns at both ends of a large product that agreement looks at, and twice as many between: no threadgroup
takes more than 32."""
_SMALL = 1 << 20
"""Weights of which all columns are looked at."""


def matvec(params: Params, executor: Executor) -> Case:
    """Builds the case of `Product.spec`."""
    try:
        product = Product(**cast("dict[str, int]", dict(params)))  # pyright: ignore[reportArgumentType]
    except TypeError as error:
        raise KernelError(f"matvec: {error}") from None
    text = digest(
        "matmul"
        if product.rows > MAX_ROWS
        else "matvec_blocks"
        if product.block
        else "matvec_affine"
        if product.bits
        else "matvec"
    )
    tried = product.tried
    builtin = _builtin(tried)
    cuts = (
        product.cuts() if product.rows <= MAX_ROWS else matmul_cuts(is_paired=product.activation is not None)
    )

    def ours(cut: Cut | MatmulCut) -> Callable[[Arrays], Step]:
        return lambda constants: _ours(tried, _Constants.of(tried, constants), executor, cut)

    return OpCase(
        product.spec,
        product.key,
        [
            OpCandidate(BUILTIN, lambda constants: lambda x: [builtin(x, *constants)]),
            *(OpCandidate(name, ours(cut), text) for name, cut in cuts.items()),
        ],
        data=lambda: _data(tried),
        tolerance=TOLERANCE[product.dtype],
        follow=lambda _x, outputs: _fitted(outputs[0], tried),
    )


@dataclass(frozen=True, slots=True)
class _Constants:
    """The arrays of a product but x, by what they are."""

    weight: Weight
    norm: Norm | None
    bias: mx.array | None
    residual: mx.array | None

    @staticmethod
    def of(product: Product, arrays: Arrays) -> _Constants:
        """From the order of `_constants`."""
        norm, bias, residual, *weight = arrays
        return _Constants(
            _weight(product, weight),
            Norm(norm, _EPSILON) if product.norm else None,
            bias if product.bias else None,
            residual if product.residual else None,
        )


def _weight(product: Product, arrays: Sequence[mx.array]) -> Weight:
    """Of one array blocks or a dense weight, of three an affine one."""
    if product.block:
        return BlockWeight(arrays[0], block_named(product.block))
    if not product.bits:
        return DenseWeight(arrays[0])
    packed, scales, biases = arrays
    return AffineWeight(packed, scales, biases, product.group, product.bits)


def _builtin(product: Product) -> Callable[..., mx.array]:
    """MLX's own of x and a set of constants, fused by its compiler as far as that fuses."""

    def step(x: mx.array, *arrays: mx.array) -> mx.array:
        constants = _Constants.of(product, arrays)
        return reference_matvec.matvec(
            x,
            constants.weight,
            norm=constants.norm,
            bias=constants.bias,
            activation=product.activation,
            residual=constants.residual,
            out_dtype=_out_dtype(product),
        )

    return mx.compile(step)


def _ours(product: Product, constants: _Constants, executor: Executor, cut: Cut | MatmulCut) -> Step:
    if isinstance(cut, MatmulCut):
        weight = constants.weight
        if not isinstance(weight, DenseWeight):
            raise KernelError(f"matmul: {product.key}: dense weights are taken")
        many = Matmul(
            executor,
            Counter(),
            weight,
            cut,
            norm=constants.norm,
            bias=constants.bias,
            activation=product.activation,
        )
        return lambda x: [many(x, constants.residual)]
    kernel = Matvec(
        executor,
        Counter(),
        constants.weight,
        norm=constants.norm,
        bias=constants.bias,
        activation=product.activation,
        out_dtype=_out_dtype(product),
        cut=cut,
    )
    return lambda x: [kernel(x, constants.residual)]


def _out_dtype(product: Product) -> mx.Dtype | None:
    return dtype_named(product.out) if product.out else None


def _fitted(y: mx.array, product: Product) -> mx.array:
    """An answer as the next link's x; without a launch where one row is only to be cut."""
    y = y.astype(dtype_named(product.dtype))
    rows, columns, width = product.rows, product.columns, product.width
    if columns < width:
        times = -(-width // columns)
        y = mx.broadcast_to(y[:, None], (rows, times, columns)).reshape(rows, times * columns)
    return y if y.shape[1] == width else mx.contiguous(y[:, :width])


def _data(product: Product) -> Data:
    dtype = dtype_named(product.dtype)
    x = normal((product.rows, product.width), dtype, 0)
    first = _constants(product, 1)
    size = sum(array.nbytes for array in first)
    copies = max(1, min(product.copies, _COLD_BYTES // size))
    sets = (first, *(_elsewhere(first) for _ in range(1, copies)))
    sample = _sampled(product)
    return Data(x, sets, _comparison(product, sample, _exact(product, x, first, sample)))


def _constants(product: Product, seed: int) -> Arrays:
    dtype, rows = dtype_named(product.dtype), product.weight_rows
    if product.block:
        block_type = block_named(product.block)
        packed = [random_blocks(block_type, rows, product.width, mx.random.key(seed))]
    else:
        weight = normal((rows, product.width), dtype, seed, product.width**-0.5)
        packed = mx.quantize(weight, product.group, product.bits) if product.bits else [weight]
    return (
        normal((product.width,), dtype, seed + 1) + 1,
        normal((rows,), dtype, seed + 2),
        normal((product.rows, product.columns), dtype, seed + 3),
        *packed,
    )


def _elsewhere(arrays: Arrays) -> Arrays:
    """The same in other memory: what the numbers are changes no time."""
    return tuple(array + mx.zeros((), array.dtype) for array in arrays)


def _sampled(product: Product) -> NDArray[np.int64]:
    """All columns, or of a large product the first, the last and some between."""
    columns = product.columns
    if columns <= 4 * _SAMPLE or columns * product.width <= _SMALL:
        return np.arange(columns)
    middle = np.random.default_rng(0).integers(_SAMPLE, columns - _SAMPLE, 2 * _SAMPLE)
    return np.unique(np.concatenate([np.arange(_SAMPLE), middle, np.arange(columns - _SAMPLE, columns)]))


def _exact(product: Product, x: mx.array, arrays: Arrays, sample: NDArray[np.int64]) -> NDArray[np.float64]:
    """The sampled columns of the answer in float64."""
    norm, bias, residual, *packed = arrays
    exact = exact_norm(wide(x), wide(norm), _EPSILON) if product.norm else wide(x)

    def part(first: int) -> NDArray[np.float64]:
        rows = mx.array(sample + first)
        y = exact @ _dense(product, [array[rows] for array in packed]).T
        return y + wide(bias[rows]) if product.bias else y

    y = part(0)
    if product.activation == "silu":
        y = y / (1 + np.exp(-y)) * part(product.columns)
    elif product.activation == "gelu":
        y = 0.5 * y * (1 + np.tanh(0.7978845608 * (y + 0.044715 * y**3))) * part(product.columns)
    return y + wide(residual)[:, sample] if product.residual else y


def _dense(product: Product, packed: Sequence[mx.array]) -> NDArray[np.float64]:
    """A weight's rows, as exactly as its parts say."""
    if product.block:
        return wide(dequantize(packed[0], block_named(product.block)))
    if not product.bits:
        return wide(packed[0])
    words, scales, biases = packed
    single = [part.astype(mx.float32) for part in (scales, biases)]
    return wide(mx.dequantize(words, *single, group_size=product.group, bits=product.bits))


def _comparison(
    product: Product, sample: NDArray[np.int64], exact: NDArray[np.float64]
) -> Callable[[Sequence[mx.array]], float]:
    def error(outputs: Sequence[mx.array]) -> float:
        (y,) = outputs
        if y.shape != (product.rows, product.columns):
            return float("inf")
        found = wide(y)
        difference = float(np.abs(found[:, sample] - exact).max() / np.abs(exact).max())
        return difference if np.isfinite(found).all() else float("nan")

    return error
