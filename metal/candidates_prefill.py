"""Attention of a prefill chunk to a history in pages: gathered for MLX's own attention, or where it lies.

And of a chunk whose lengths come once: by MLX's own attention, at these lengths or at rounded ones; of a
short one also where the history lies, in parts.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import mlx.core as mx

from metal.attention_shape import AttentionShape
from metal.candidates_attention import AttentionCase, Run, attention_of
from metal.candidates_parts import BUILTIN, name_of
from metal.candidates_scene import Attention, Scene
from metal.constants import device_integers
from metal.executors import Executor
from metal.padded_attention import attend_padded, padded_mask, rounded
from metal.page_gather import PageGather
from metal.page_write import PageWrite
from metal.pools import Pools
from metal.prefill_attention import PrefillAttention, PrefillCut, few_rows_cuts
from metal.trial_case import CaseBuilder, CaseSpec, Params

_HISTORY, _NEW = 1024, 256
_LONG_HISTORY, _MANY = 8192, 2048
_CHAT = 4096
_FEW = 40
"""New tokens of a chat's next message."""


def chunk_spec(shape: AttentionShape) -> CaseSpec:
    """A chunk of new tokens of one sequence, on a history four times as long."""
    return _attention(shape, _NEW).spec("prefill chunk")


def long_spec(shape: AttentionShape) -> CaseSpec:
    """Many new tokens on a long history: they keep a device busy, and another attention may win."""
    return _attention(shape, _MANY, _LONG_HISTORY).spec("prefill chunk")


def odd_spec(shape: AttentionShape) -> CaseSpec:
    """The few tokens of a next message, on a history that is never as long again."""
    return _attention(shape, _FEW).spec("odd chunk")


def short_spec(shape: AttentionShape) -> CaseSpec:
    """The same tokens behind a long chat, for which attention where the history lies is tried too."""
    return _attention(shape, _FEW, _CHAT).spec("short chunk")


def short_cuts(shape: AttentionShape) -> Mapping[str, PrefillCut]:
    """How that attention is cut, by candidate."""
    return {f"in pages {cut}": cut for cut in few_rows_cuts(shape)}


def _attention(shape: AttentionShape, new: int, history: int = _HISTORY) -> Attention:
    return Attention(
        shape.heads,
        shape.kv_heads,
        shape.head_dim,
        name_of(shape.dtype),
        str(history),
        str(new),
        page_size=shape.page_size,
        rotary=None if shape.rotary_dims == shape.head_dim else shape.rotary_dims,
        window=shape.window,
        norm=shape.norm_epsilon is not None,
    )


def prefill_chunk(params: Params, executor: Executor) -> AttentionCase:
    """Builds the case of `chunk_spec` or `long_spec`; both candidates write pages with our kernel."""
    attention = attention_of(params)
    shape = attention.shape
    write = PageWrite(executor, Counter(), shape)
    runs: Mapping[str, Run] = {
        BUILTIN: _gathered(write, PageGather(executor, Counter(), shape), attention),
        "prefill_attention": _in_pages(write, PrefillAttention(executor, Counter(), shape), attention),
    }
    kernels = "page_write", "page_gather", "prefill_attention", "attention_reduce"
    return AttentionCase("prefill chunk", attention, runs, kernels, lambda scene: [scene.out])


def odd_chunk(params: Params, executor: Executor) -> AttentionCase:
    """Builds the case of `odd_spec`; both candidates take keys and values that our kernel gathered."""
    attention = attention_of(params)
    shape = attention.shape
    write, gather = PageWrite(executor, Counter(), shape), PageGather(executor, Counter(), shape)
    runs: Mapping[str, Run] = {
        BUILTIN: _gathered(write, gather, attention),
        "padded": _gathered(write, gather, attention, pads=True),
    }
    return _OddCase("odd chunk", attention, runs, ("page_write", "page_gather"), lambda scene: [scene.out])


def short_chunk(params: Params, executor: Executor) -> AttentionCase:
    """Builds the case of `short_spec`; all candidates write pages with our kernel."""
    attention = attention_of(params)
    shape = attention.shape
    write, gather = PageWrite(executor, Counter(), shape), PageGather(executor, Counter(), shape)
    runs: dict[str, Run] = {
        BUILTIN: _gathered(write, gather, attention),
        "padded": _gathered(write, gather, attention, pads=True),
    }
    for name, cut in short_cuts(shape).items():
        runs[name] = _in_pages(write, PrefillAttention(executor, Counter(), shape, cut), attention)
    kernels = "page_write", "page_gather", "prefill_attention", "attention_reduce"
    return _OddCase("short chunk", attention, runs, kernels, lambda scene: [scene.out])


_UNSEEN = itertools.count(1)
"""Of this process's links: the oldest tokens that each leaves out."""


class _OddCase(AttentionCase):
    """Each link of a chain sees another number of keys, which none has seen before."""

    def scene_of_link(self, scene: Scene) -> Scene:
        """See AttentionCase: without some of the oldest tokens."""
        return replace(scene, first=next(_UNSEEN))


def _gathered(write: PageWrite, gather: PageGather, attention: Attention, *, pads: bool = False) -> Run:
    shape, history = attention.shape, _history(attention)

    def run(scene: Scene, pools: Pools) -> tuple[list[mx.array], Pools]:
        rows = scene.qkv.shape[0]
        oldest = 0 if shape.window is None else max(0, history - shape.window + 1)
        first = oldest + scene.first % (history - oldest)
        angles = scene.angles[history : history + rows]
        q = write.queries(scene.qkv, angles, scene.slots, pools, norms=scene.norms)
        begin, tokens = device_integers(first)[:1], history + rows - first
        places = replace(pools, fence=q)
        if pads:
            keys, values, fence = gather(places, scene.tables[0], begin, tokens, rounded(tokens))
            mask = padded_mask(rows, tokens, shape.window, shape.dtype)
            out = attend_padded(q, keys, values, shape.scale, mask)
        else:
            keys, values, fence = gather(places, scene.tables[0], begin, tokens)
            mask = _mask(rows, tokens, shape.window)
            out = mx.fast.scaled_dot_product_attention(
                q[None], keys[None], values[None], scale=shape.scale, mask=mask
            )[0]
        return [out.swapaxes(0, 1).reshape(rows, -1)], replace(pools, fence=fence)

    return run


def _in_pages(write: PageWrite, kernel: PrefillAttention, attention: Attention) -> Run:
    history = _history(attention)

    def run(scene: Scene, pools: Pools) -> tuple[list[mx.array], Pools]:
        rows = scene.qkv.shape[0]
        parts = kernel.parts(rows, history + rows)
        angles = scene.angles[history : history + rows]
        queries = write.queries(scene.qkv, angles, scene.slots, pools, norms=scene.norms)
        out, fence = kernel(queries, pools, scene.sequences, rows, parts=parts)
        return [out], replace(pools, fence=fence)

    return run


def _history(attention: Attention) -> int:
    """Tokens before the new ones, of the only sequence."""
    (history,), _ = attention.lengths()
    return history


def _mask(rows: int, tokens: int, window: int | None) -> mx.array | str:
    if window is None or tokens <= window:
        return "causal"
    queries, keys = mx.arange(tokens - rows, tokens)[:, None], mx.arange(tokens)[None]
    return (keys <= queries) & (keys > queries - window)


CASES: Mapping[str, CaseBuilder] = {
    "prefill chunk": prefill_chunk,
    "odd chunk": odd_chunk,
    "short chunk": short_chunk,
}
