"""The kernels that touch pages as ops with candidates: decode, prefill, and moving pages about.

These cases show whether kernels agree. What is chosen is a whole set of them, by who runs them in layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal import reference_attention, reference_pages
from metal.candidates_parts import BUILTIN, digest, wide
from metal.candidates_scene import Attention, Scene, make_scene
from metal.decode_attention import DecodeAttention
from metal.errors import KernelError
from metal.exact_attention import Exact
from metal.executors import Executor
from metal.page_copy import PageCopy
from metal.page_gather import PageGather
from metal.page_write import PageWrite
from metal.pools import Pages, Pools, no_fence
from metal.prefill_attention import PrefillAttention
from metal.trial_case import TOLERANCE, CaseBuilder, Contender, Params, SomeRows, against

Run = Callable[[Scene, Pools], tuple[list[mx.array], Pools]]
"""Computes a scene's new tokens on pools; what came out, and the pools after it with their next fence."""

_PARTITION = 512


class AttentionCase:
    """A `Case` whose candidates run on one scene, each on pools of its own, and must leave the same pages.

    Args:
        op: its name, the first word of its key.
        attention: what is computed.
        runs: by candidate, MLX's built-in first.
        kernels: files of the kernels' text.
        exact: what the candidates' outputs should be.
    """

    def __init__(
        self,
        op: str,
        attention: Attention,
        runs: Mapping[str, Run],
        kernels: Sequence[str],
        exact: Callable[[Scene], Sequence[Exact | SomeRows]],
    ) -> None:
        self.spec = attention.spec(op)
        self.key = f"{op} {attention.words}"
        self.tolerance = TOLERANCE[attention.dtype]
        self.counts_host = False
        self.contenders = tuple(Contender(name, "" if name == BUILTIN else digest(*kernels)) for name in runs)
        self._attention, self._runs, self._exact = attention, runs, exact

    @cached_property
    def _scene(self) -> Scene:
        return make_scene(self._attention, _PARTITION)

    def error(self, name: str) -> float:
        """See `Case.error`; the new tokens' pages count as outputs."""
        scene = self._scene
        outputs, pools = self._runs[name](scene, self._pools())
        mx.eval(outputs, pools.keys, pools.values, pools.fence)
        mx.synchronize()  # pages were written where MLX does not look: from here on anybody may read them
        slots = scene.slots[: scene.qkv.shape[0]]
        stored = [pools.keys[:, slots], pools.values[:, slots]]
        return against(*self._exact(scene), scene.new_keys, scene.new_values)([*outputs, *stored])

    def chain(self, name: str, links: int) -> list[mx.array]:
        """See `Case.chain`; a link waits for the last one's outputs."""
        scene, pools = self._scene, self._pools()
        outputs: list[mx.array] = []
        for _ in range(links):
            scene = self.scene_of_link(scene)
            outputs, pools = self._runs[name](scene, pools)
            scene = replace(scene, qkv=mx.depends([scene.qkv], outputs)[0])
        return [*outputs, pools.keys, pools.values, pools.fence]

    def scene_of_link(self, scene: Scene) -> Scene:
        """The scene of a chain's next link, from that of the last."""
        return scene

    def _pools(self) -> Pools:
        scene = self._scene
        pools = Pools.whole(mx.array(scene.keys), mx.array(scene.values), no_fence(scene.keys.dtype))
        mx.eval(pools.keys, pools.values, pools.fence)
        return pools


def decode(params: Params, executor: Executor) -> AttentionCase:
    """Decode attention: 1 to 8 new tokens of each sequence."""
    attention = attention_of(params)
    kernel = DecodeAttention(executor, Counter(), attention.shape)

    def run(scene: Scene, pools: Pools) -> tuple[list[mx.array], Pools]:
        out = kernel(scene.qkv, scene.angles, pages_of(scene, pools), norms=scene.norms, sinks=scene.sinks)
        return [out], replace(pools, fence=out)

    runs = {BUILTIN: _functional(attention), "decode_attention": run}
    return AttentionCase(
        "decode", attention, runs, ("decode_attention", "attention_reduce"), lambda scene: [scene.out]
    )


def prefill(params: Params, executor: Executor) -> AttentionCase:
    """Page write and prefill attention: many new tokens of each sequence."""
    attention = attention_of(params)
    write = PageWrite(executor, Counter(), attention.shape)
    kernel = PrefillAttention(executor, Counter(), attention.shape)
    longest = max(attention.lengths()[1])

    def run(scene: Scene, pools: Pools) -> tuple[list[mx.array], Pools]:
        angles = scene.angles[scene.positions]
        queries = write.queries(scene.qkv, angles, scene.slots, pools, norms=scene.norms)
        out, fence = kernel(queries, pools, scene.sequences, longest, sinks=scene.sinks)
        return [out], replace(pools, fence=fence)

    runs = {BUILTIN: _functional(attention), "prefill_attention": run}
    return AttentionCase(
        "prefill", attention, runs, ("page_write", "prefill_attention"), lambda scene: [scene.out]
    )


def pages(params: Params, executor: Executor) -> AttentionCase:
    """New tokens written, a page copied, and the first sequence gathered through the copy."""
    attention = attention_of(params)
    shape = attention.shape
    write = PageWrite(executor, Counter(), shape)
    copy, gather = PageCopy(executor, Counter(), shape), PageGather(executor, Counter(), shape)
    tokens = sum(count[0] for count in attention.lengths())
    first = mx.array([0], mx.int32)

    def run(scene: Scene, pools: Pools) -> tuple[list[mx.array], Pools]:
        angles = scene.angles[scene.positions]
        q, k, v, fence = write.chunk(scene.qkv, angles, scene.slots, pools, norms=scene.norms)
        pair, table = _copied(scene)
        fence = copy([replace(pools, fence=fence)], pair)
        keys, values, fence = gather(replace(pools, fence=fence), table, first, tokens)
        return [q, k, v, keys, values], replace(pools, fence=fence)

    def functional(scene: Scene, pools: Pools) -> tuple[list[mx.array], Pools]:
        q, k, v, pools = _written(scene, pools, attention)
        pair, table = _copied(scene)
        copied = [reference_pages.copy(pool, pair, shape.page_size) for pool in (pools.keys, pools.values)]
        taken = [reference_pages.gather(pool, table, first, tokens, shape.page_size) for pool in copied]
        heads = [part.swapaxes(0, 1) for part in (q, k, v)]
        return [*heads, *taken], replace(pools, keys=copied[0], values=copied[1])

    def exact(scene: Scene) -> list[Exact]:
        new = attention.lengths()[1][0]
        slots = _slots(scene, 0, tokens - new, shape.page_size)
        gathered = [
            np.concatenate([wide(pool[:, slots]), part[:, :new]], axis=1)
            for pool, part in ((scene.keys, scene.new_keys), (scene.values, scene.new_values))
        ]
        return [scene.queries, scene.new_keys, scene.new_values, *gathered]

    runs = {BUILTIN: functional, "page_write, page_copy, page_gather": run}
    return AttentionCase("pages", attention, runs, ("page_write", "page_copy", "page_gather"), exact)


CASES: Mapping[str, CaseBuilder] = {"decode": decode, "prefill": prefill, "pages": pages}


def attention_of(params: Params) -> Attention:
    """What `params` describe. Raises KernelError for a shape that no kernel is written for."""
    try:
        return Attention(**cast("dict[str, Any]", dict(params)))
    except TypeError as error:
        raise KernelError(f"attention: {error}") from None


def pages_of(scene: Scene, pools: Pools) -> Pages:
    """Where the scene's sequences lie in `pools`."""
    return Pages(pools, scene.tables, scene.lengths)


def _functional(attention: Attention) -> Run:
    """MLX operations that return new pools."""
    before, new = attention.lengths()
    shape = attention.shape

    def run(scene: Scene, pools: Pools) -> tuple[list[mx.array], Pools]:
        q, _, _, pools = _written(scene, pools, attention)
        outs: list[mx.array] = []
        first = 0
        for sequence, (old, count) in enumerate(zip(before, new, strict=True)):
            if count:
                slots = _slots(scene, sequence, old + count, shape.page_size)
                rows = q[first : first + count]
                keys, values = pools.keys[:, slots], pools.values[:, slots]
                outs.append(reference_attention.attend(rows, keys, values, shape, scene.sinks))
            first += count
        return [mx.concatenate(outs)], pools

    return run


def _written(scene: Scene, pools: Pools, attention: Attention) -> tuple[mx.array, mx.array, mx.array, Pools]:
    """Rotated heads (rows, heads, head_dim), and new pools with the keys and values in them."""
    angles = scene.angles[scene.positions]
    q, k, v = reference_attention.split_heads(scene.qkv, angles, attention.shape, scene.norms)
    keys = reference_pages.write(pools.keys, k, scene.slots)
    values = reference_pages.write(pools.values, v, scene.slots)
    return q, k, v, replace(pools, keys=keys, values=values)


def _slots(scene: Scene, sequence: int, tokens: int, page_size: int) -> mx.array:
    """Where the first `tokens` of a sequence lie."""
    positions = mx.arange(tokens)
    return scene.tables[sequence][positions // page_size] * page_size + positions % page_size


def _copied(scene: Scene) -> tuple[mx.array, mx.array]:
    """The first sequence's first page and a page that nobody has, and its table with that."""
    tables = cast("NDArray[np.int32]", np.array(scene.tables))
    free = next(page for page in range(int(tables.max()) + 2) if page not in tables)
    table = tables[0].copy()
    pair = np.array([table[0], free], np.int32)
    table[0] = free
    return mx.array(pair), mx.array(table)
