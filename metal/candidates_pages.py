"""Projections of a short chunk, and where they go: MLX's product and our page write, or one launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import cast

import mlx.core as mx

from metal import reference_attention, reference_matvec
from metal.attention_shape import AttentionShape
from metal.candidates_parts import BUILTIN, digest, dtype_named, exact_norm, normal, wide
from metal.errors import KernelError
from metal.exact_attention import Exact
from metal.executors import Executor
from metal.matmul_pages import MatmulPages, page_cuts, takes_heads
from metal.matvec import Norm
from metal.matvec_weight import DenseWeight
from metal.page_write import PageWrite
from metal.pools import SMALLEST, Pools, no_fence
from metal.trial_case import TOLERANCE, CaseBuilder, CaseSpec, Contender, Params, against

_EPSILON = 1e-5
_ROWS, _TOKENS, _ROOM = 32, 29, 64
_FIRST = _PAGE = 16
_COLD_BYTES = 192 << 20  # more than the caches of the GPUs that there are


@dataclass(frozen=True, slots=True)
class PageProduct:
    """Projections of so few rows as short chunks have, by a dense weight.

    Attributes:
        width: of x.
        heads, kv_heads, head_dim: see AttentionShape.
        dtype: of all of it.
        bias: whether there is one.
        copies: layers of a model. No part of the shape class: a chain takes as many in turn.
    """

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    bias: bool = False
    copies: int = 1

    @property
    def key(self) -> str:
        """The shape class in words."""
        bias, heads = " bias" if self.bias else "", f"{self.heads}/{self.kv_heads}x{self.head_dim}"
        return f"project to pages dense{bias} {self.dtype} K{self.width} {heads} m{_ROWS}"

    @property
    def shape(self) -> AttentionShape:
        """Of the heads; what attention does with them is no part of it."""
        dtype = dtype_named(self.dtype)
        sizes = self.heads, self.kv_heads, self.head_dim, self.head_dim, _PAGE
        return AttentionShape(*sizes, dtype, self.head_dim**-0.5)

    @property
    def spec(self) -> CaseSpec:
        """From which a trial process builds the case."""
        return CaseSpec("metal.candidates", "project to pages", asdict(self))


def page_product(
    width: int, shape: AttentionShape, dtype: str, *, bias: bool, copies: int
) -> PageProduct | None:
    """Of a layer with a dense weight; None where heads or sizes are none that MatmulPages takes."""
    is_taken = takes_heads(shape) and width % 32 == 0 and dtype in ("float16", "bfloat16")
    sizes = shape.heads, shape.kv_heads, shape.head_dim
    return PageProduct(width, *sizes, dtype, bias=bias, copies=copies) if is_taken else None


@dataclass(frozen=True, slots=True)
class _Layer:
    weight: mx.array
    norm: mx.array
    bias: mx.array | None


_Run = Callable[[mx.array, Pools], mx.array]
"""Queries of x, whose keys and values go to pools."""


class PageProductCase:
    """A `Case` whose candidates must leave the same pages.

    Args:
        product: what is computed.
        executor: what runs our kernels.
    """

    def __init__(self, product: PageProduct, executor: Executor) -> None:
        product.shape.check()
        self.spec, self.key = product.spec, product.key
        self.tolerance, self.counts_host = TOLERANCE[product.dtype], False
        self._product, self._executor = product, executor
        text = digest("matmul")
        ours = [Contender(name, text) for name in page_cuts()]
        self.contenders = (Contender(BUILTIN), *ours)
        self._runs: dict[str, list[_Run]] = {}

    def error(self, name: str) -> float:
        """See `Case.error`; the rows' pages count as outputs, and whether others were left alone."""
        pools = self._empty()
        queries = self._runs_of(name)[0](self._x, pools)
        mx.eval(queries)
        mx.synchronize()  # pages were written where MLX does not look: from here on anybody may read them
        (q, k, v), end = self._exact, _FIRST + _TOKENS
        stored = [pool[:, _FIRST:end] for pool in (pools.keys, pools.values)]
        others = [part for pool in (pools.keys, pools.values) for part in (pool[:, :_FIRST], pool[:, end:])]
        is_left = not any(mx.any(part).item() for part in others)
        found = against(q, k[:, :_TOKENS], v[:, :_TOKENS])([queries, *stored])
        return found if is_left else float("inf")

    def chain(self, name: str, links: int) -> list[mx.array]:
        """See `Case.chain`; the next x is made of the queries' elements."""
        runs, x = self._runs_of(name), self._x
        for link in range(links):
            queries = runs[link % len(runs)](x, self._pools[link % len(runs)])
            x = _fitted(queries, self._product.width)
        return [x]

    @cached_property
    def _x(self) -> mx.array:
        return normal((_ROWS, self._product.width), self._product.shape.dtype, 0)

    @cached_property
    def _slots(self) -> mx.array:
        slots = [_FIRST + row if row < _TOKENS else -1 for row in range(_ROWS)]
        return mx.array([*slots, 0, 0, 0, _ROOM, *[0] * (SMALLEST - 4)], dtype=mx.int32)

    @cached_property
    def _angles(self) -> mx.array:
        half = self._product.head_dim // 2
        turns = mx.arange(_ROWS)[:, None] * mx.power(10000.0, -mx.arange(half) / half)
        return mx.concatenate([mx.cos(turns), mx.sin(turns)], axis=1).astype(mx.float32)

    @cached_property
    def _layers(self) -> list[_Layer]:
        product, shape = self._product, self._product.shape
        dtype = shape.dtype
        weight = normal((shape.qkv_width, product.width), dtype, 1, product.width**-0.5)
        norm = normal((product.width,), dtype, 2) + 1
        bias = normal((shape.qkv_width,), dtype, 3) if product.bias else None
        copies = max(1, min(product.copies, _COLD_BYTES // weight.nbytes))
        layers: list[_Layer] = []
        for _ in range(copies):
            layers.append(_Layer(weight + mx.zeros((), dtype), norm, bias))
            mx.eval(layers[-1].weight, norm)
        return layers

    @cached_property
    def _pools(self) -> list[Pools]:
        return [self._empty() for _ in self._layers]

    def _empty(self) -> Pools:
        shape = self._product.shape
        size = shape.kv_heads, _ROOM, shape.head_dim
        keys, values = (mx.zeros(size, shape.dtype) for _ in range(2))
        pools = Pools.whole(keys, values, no_fence(shape.dtype))
        mx.eval(pools.keys, pools.values, pools.fence)
        return pools

    @cached_property
    def _exact(self) -> tuple[Exact, Exact, Exact]:
        """Rotated queries, keys and values, (heads, rows, head_dim)."""
        layer, shape = self._layers[0], self._product.shape
        qkv = exact_norm(wide(self._x), wide(layer.norm), _EPSILON) @ wide(layer.weight).T
        if layer.bias is not None:
            qkv = qkv + wide(layer.bias)
        with mx.stream(mx.cpu):  # float32 there is float32, and a kernel of ours has no part in it
            heads = reference_attention.split_heads(mx.array(qkv.astype("float32")), self._angles, shape)
            q, k, v = (wide(part).swapaxes(0, 1) for part in heads)
        return q, k, v

    def _runs_of(self, name: str) -> list[_Run]:
        if name not in self._runs:
            make = self._builtin if name == BUILTIN else self._fused(name)
            self._runs[name] = [make(layer) for layer in self._layers]
        return self._runs[name]

    def _builtin(self, layer: _Layer) -> _Run:
        write = PageWrite(self._executor, Counter(), self._product.shape)
        weight, norm, bias = DenseWeight(layer.weight), Norm(layer.norm, _EPSILON), layer.bias

        def project(x: mx.array) -> mx.array:
            return reference_matvec.matvec(x, weight, norm=norm, bias=bias)

        compiled = mx.compile(project)
        slots = self._slots[:_ROWS]
        return lambda x, pools: write.queries(compiled(x), self._angles, slots, pools)

    def _fused(self, name: str) -> Callable[[_Layer], _Run]:
        cut = page_cuts()[name]

        def make(layer: _Layer) -> _Run:
            product = MatmulPages(
                self._executor,
                Counter(),
                DenseWeight(layer.weight),
                cut,
                self._product.shape,
                norm=Norm(layer.norm, _EPSILON),
                bias=layer.bias,
            )
            return lambda x, pools: product(x, self._angles, self._slots, pools)

        return make


def _fitted(queries: mx.array, width: int) -> mx.array:
    """As many of them as x has, without a launch where there are enough."""
    flat = queries.reshape(-1)
    if flat.size < _ROWS * width:
        flat = mx.concatenate([flat] * -(-_ROWS * width // flat.size))
    return flat[: _ROWS * width].reshape(_ROWS, width)


def project_to_pages(params: Params, executor: Executor) -> PageProductCase:
    """Builds the case of `PageProduct.spec`."""
    try:
        product = PageProduct(**cast("dict[str, int]", dict(params)))  # pyright: ignore[reportArgumentType]
    except TypeError as error:
        raise KernelError(f"project to pages: {error}") from None
    return PageProductCase(product, executor)


CASES: Mapping[str, CaseBuilder] = {"project to pages": project_to_pages}
