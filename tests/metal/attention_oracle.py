"""Paged attention in float64 numpy, and sequences scattered over pages, NaN where nothing was written."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal.attention_shape import AttentionShape, HeadNorms
from metal.pools import Pages, Pools, no_fence
from tests.metal.numbers import normal, wide

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scene:
    """New tokens of some sequences, their pages, and per sequence the keys and values before them."""

    qkv: mx.array
    angles: mx.array
    pages: Pages
    norms: HeadNorms | None
    sinks: mx.array | None
    history_keys: list[Array]
    history_values: list[Array]
    tables: NDArray[np.int32]
    lengths: list[int]


def angle_rows(positions: int, rotary: int) -> mx.array:
    frequencies = 10000.0 ** (-2 * np.arange(rotary // 2) / max(rotary, 1))
    angles = np.arange(positions)[:, None] * frequencies
    return mx.array(np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32))


def make_scene(
    shape: AttentionShape, lengths: list[int], tokens: int, partition: int, seed: int = 0, width: int = 0
) -> Scene:
    """`lengths` tokens in pages and `tokens` new ones each, on shuffled pages; tables for `width` keys."""
    rng = np.random.default_rng(seed)
    page, longest = shape.page_size, max(max(lengths) + tokens, width)
    table_pages = -(-longest // partition) * partition // page
    counts = [-(-(max(length, 0) + tokens) // page) for length in lengths]
    total = sum(counts) + 3
    order = rng.permutation(total)
    tables = np.full((len(lengths), table_pages), -1, np.int32)
    keys = np.full((shape.kv_heads, total * page, shape.head_dim), np.nan, np.float32)
    values = keys.copy()
    history_keys: list[Array] = []
    history_values: list[Array] = []
    taken = 0
    for sequence, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        tables[sequence, :count] = order[taken : taken + count]
        taken += count
        pair = [
            normal((shape.kv_heads, max(length, 0), shape.head_dim), shape.dtype, int(rng.integers(1 << 30)))
            for _ in range(2)
        ]
        slots = slots_of(tables[sequence], np.arange(max(length, 0)), page)
        keys[:, slots] = np.array(pair[0].astype(mx.float32))
        values[:, slots] = np.array(pair[1].astype(mx.float32))
        history_keys.append(wide(pair[0]))
        history_values.append(wide(pair[1]))
    padded = [*lengths, *([-7] * max(0, 8 - len(lengths)))]
    norms = None
    if shape.norm_epsilon is not None:
        norms = HeadNorms(*(normal((shape.head_dim,), shape.dtype, s) + 1 for s in (91, 92)))
    return Scene(
        normal((len(lengths) * tokens, shape.qkv_width), shape.dtype, seed + 1),
        angle_rows(max(lengths) + tokens, shape.rotary_dims),
        Pages(
            Pools.whole(
                mx.array(keys).astype(shape.dtype),
                mx.array(values).astype(shape.dtype),
                no_fence(shape.dtype),
            ),
            mx.array(tables),
            mx.array(padded, dtype=mx.int32),
        ),
        norms,
        normal((shape.heads,), shape.dtype, 93) if shape.sinks else None,
        history_keys,
        history_values,
        tables,
        lengths,
    )


def slots_of(table: NDArray[np.int32], tokens: NDArray[np.int64], page: int) -> NDArray[np.int64]:
    return table[tokens // page].astype(np.int64) * page + tokens % page


def row_positions(scene: Scene) -> NDArray[np.int64]:
    tokens = scene.qkv.shape[0] // len(scene.lengths)
    starts = np.maximum(np.array(scene.lengths), 0)
    return (starts[:, None] + np.arange(tokens)).reshape(-1)


def rotated(x: Array, angles: Array) -> Array:
    """x (rows, heads, head_dim) by angles (rows, rotary)."""
    rotary = angles.shape[1]
    cosine, sine = angles[:, None, : rotary // 2], angles[:, None, rotary // 2 :]
    out = x.copy()
    first, second = x[..., : rotary // 2], x[..., rotary // 2 : rotary]
    out[..., : rotary // 2] = first * cosine - second * sine
    out[..., rotary // 2 : rotary] = second * cosine + first * sine
    return out


def normed(x: Array, weight: Array, epsilon: float) -> Array:
    return weight * x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


def heads_of(scene: Scene, shape: AttentionShape) -> tuple[Array, Array, Array]:
    """Rotated queries and keys, and values, (rows, heads, head_dim); keys and values as they are stored."""
    qkv = wide(scene.qkv)
    angles = wide(scene.angles)[row_positions(scene)]
    cuts = [shape.heads * shape.head_dim, (shape.heads + shape.kv_heads) * shape.head_dim]
    q, k, v = (part.reshape(len(qkv), -1, shape.head_dim) for part in np.split(qkv, cuts, axis=1))
    if scene.norms is not None and shape.norm_epsilon is not None:
        q = normed(q, wide(scene.norms.query), shape.norm_epsilon)
        k = normed(k, wide(scene.norms.key), shape.norm_epsilon)
    k = wide(mx.array(rotated(k, angles).astype(np.float32)).astype(shape.dtype))
    return rotated(q, angles), k, v


def attended(scene: Scene, shape: AttentionShape) -> Array:
    """(rows, heads · head_dim): every new token over what its sequence had, and the new ones up to itself."""
    q, k, v = heads_of(scene, shape)
    sequences = len(scene.lengths)
    tokens = len(q) // sequences
    out = np.zeros((len(q), shape.heads, shape.head_dim))
    for row in range(len(q)):
        sequence = row // tokens
        new = slice(sequence * tokens, row + 1)
        keys = np.concatenate([scene.history_keys[sequence], k[new].swapaxes(0, 1)], axis=1)
        values = np.concatenate([scene.history_values[sequence], v[new].swapaxes(0, 1)], axis=1)
        if shape.window is not None:
            keys, values = keys[:, -shape.window :], values[:, -shape.window :]
        for head in range(shape.heads):
            scores = keys[head // shape.group] @ q[row, head] * shape.scale
            if shape.softcap is not None:
                scores = shape.softcap * np.tanh(scores / shape.softcap)
            extra = -np.inf if scene.sinks is None else wide(scene.sinks)[head]
            weights = np.exp(scores - max(scores.max(), extra))
            share = weights.sum() + np.exp(extra - max(scores.max(), extra))
            out[row, head] = weights @ values[head // shape.group] / share
    return out.reshape(len(q), -1)
