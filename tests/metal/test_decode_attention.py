"""Decode attention against float64 on every executor, over shapes, lengths and pages full of NaN."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from metal import reference_attention
from metal.attention_shape import AttentionShape
from metal.decode_attention import DecodeAttention
from metal.decode_cut import DecodeCut
from metal.emulator import Emulator, LaunchReport, Mode
from metal.errors import KernelError
from metal.executors import EmulatedExecutor, Executor, Launcher, Request, Signature
from metal.pools import Pages, Pools, no_fence
from metal.source import KernelSource
from tests.metal.attention_oracle import Scene, attended, heads_of, make_scene, row_positions, slots_of
from tests.metal.numbers import TOLERANCE, wide

F32, F16, BF16 = mx.float32, mx.float16, mx.bfloat16


def shaped(
    dtype: mx.Dtype, head_dim: int, group: int, kv_heads: int = 2, **options: object
) -> AttentionShape:
    plain = AttentionShape(group * kv_heads, kv_heads, head_dim, head_dim, 16, dtype, head_dim**-0.5)
    return replace(plain, **options)  # pyright: ignore[reportArgumentType]


SMALL = DecodeCut(partition=64, simdgroups=4)
# Pairwise: dtype, head size, group, options, histories, new tokens, cut.
CASES = [
    (shaped(F32, 64, 8), [37], 1, SMALL),
    (shaped(F16, 64, 1), [0, 15, 16, 17], 1, SMALL),
    (shaped(BF16, 128, 4), [63, 64, 65, 0], 1, SMALL),
    (shaped(F16, 80, 3), [100, 31], 2, SMALL),
    (shaped(F32, 96, 5, window=20), [70, 3, 19, 20], 3, SMALL),
    (shaped(F32, 256, 2, rotary_dims=64, norm_epsilon=1e-6), [9, 130], 1, SMALL),
    (shaped(BF16, 64, 16, kv_heads=1, sinks=True), [47, 5], 1, SMALL),
    (shaped(F16, 128, 7, softcap=3.0, page_size=32), [95, 33], 8, SMALL),
    (shaped(F32, 64, 6, sinks=True, window=33, rotary_dims=32), [200, -1, 62], 4, SMALL),
    (shaped(F16, 128, 2, norm_epsilon=1e-5), [40], 5, DecodeCut(partition=256, simdgroups=8, rows=4)),
    (shaped(F16, 64, 8), [300, 129], 1, DecodeCut(partition=256, simdgroups=4, keys=4, ahead=True)),
    # Heads of which threadgroup memory holds a number of sums that is no power of two.
    (shaped(F32, 80, 8, rotary_dims=32, page_size=32), [600, 31], 1, DecodeCut()),
    (shaped(F16, 96, 8), [70], 1, DecodeCut()),
    (shaped(BF16, 256, 8, softcap=5.0, sinks=True), [66], 1, DecodeCut(partition=128, rows=4, keys=4)),
]


def run(executor: Executor, shape: AttentionShape, scene: Scene, cut: DecodeCut) -> mx.array:
    attention = DecodeAttention(executor, Counter(), shape, cut)
    return attention(scene.qkv, scene.angles, scene.pages, norms=scene.norms, sinks=scene.sinks)


def check(
    executor: Executor, shape: AttentionShape, lengths: list[int], tokens: int, cut: DecodeCut, width: int = 0
) -> None:
    scene = make_scene(shape, lengths, tokens, cut.partition, width=width)
    before = [np.array(wide(pool)) for pool in (scene.pages.pools.keys, scene.pages.pools.values)]
    out = wide(run(executor, shape, scene, cut))
    used = [row for row in range(len(out)) if lengths[row // tokens] >= 0]
    expected = attended(scene, shape)
    assert np.abs(out[used] - expected[used]).max() / np.abs(expected[used]).max() <= TOLERANCE[shape.dtype]
    _, k, v = heads_of(scene, shape)
    for pool, old, new in zip(
        (scene.pages.pools.keys, scene.pages.pools.values), before, (k, v), strict=True
    ):
        for sequence, length in enumerate(lengths):
            if length >= 0:
                slots = slots_of(scene.tables[sequence], np.arange(length, length + tokens), shape.page_size)
                old[:, slots] = new[sequence * tokens : (sequence + 1) * tokens].swapaxes(0, 1)
        written = wide(pool)
        assert (np.isnan(written) == np.isnan(old)).all()  # nothing but the new tokens' slots was written
        assert np.nanmax(np.abs(written - old)) <= TOLERANCE[shape.dtype] * np.nanmax(np.abs(old))


@pytest.mark.parametrize(("shape", "lengths", "tokens", "cut"), CASES)
def test_agrees_with_float64(
    executor: Executor, shape: AttentionShape, lengths: list[int], tokens: int, cut: DecodeCut
) -> None:
    check(executor, shape, lengths, tokens, cut)


@pytest.mark.parametrize(("head_dim", "simdgroups"), [(256, 4), (256, 1), (128, 2), (64, 1)])
def test_more_new_tokens_than_the_cut_has_teams(executor: Executor, head_dim: int, simdgroups: int) -> None:
    check(executor, shaped(F32, head_dim, 2), [9, 0], 8, DecodeCut(partition=64, simdgroups=simdgroups))


@pytest.mark.parametrize("shape", [shaped(F16, 64, 8), shaped(F32, 96, 5, window=20)])
def test_partitions_that_a_table_has_room_for_and_nobody_uses_change_nothing(
    executor: Executor, shape: AttentionShape
) -> None:
    check(executor, shape, [5, 70], 1, SMALL, width=500)


def test_many_sequences_are_cut_smaller(executor: Executor) -> None:
    check(executor, shaped(F16, 64, 1, kv_heads=8), [*range(40), *range(500, 524)], 1, DecodeCut())


def test_32769_keys(executor: Executor) -> None:
    check(executor, shaped(F16, 64, 2, kv_heads=1), [32768], 1, DecodeCut())


@pytest.mark.long
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("group", [1, 2, 3, 4, 5, 6, 7, 8, 16])
@pytest.mark.parametrize("tokens", [1, 4, 8])
def test_agrees_with_float64_over_the_grid(
    executor: Executor, dtype: mx.Dtype, head_dim: int, group: int, tokens: int
) -> None:
    check(executor, shaped(dtype, head_dim, group), [0, 15, 16, 17, 511, 512, 513], tokens, DecodeCut())


@pytest.mark.parametrize("case", [0, 2, 4])
def test_the_reference_twin_agrees_with_float64(case: int) -> None:
    shape, lengths, tokens, cut = CASES[case]
    scene = make_scene(shape, lengths, tokens, cut.partition)
    angles = scene.angles[mx.array(row_positions(scene))]
    q, k, v = reference_attention.split_heads(scene.qkv, angles, shape, scene.norms)
    parts: list[mx.array] = []
    for sequence in range(len(lengths)):
        new = slice(sequence * tokens, (sequence + 1) * tokens)
        history = (scene.history_keys[sequence], scene.history_values[sequence])
        keys, values = (
            mx.concatenate(
                [mx.array(old.astype(np.float32)).astype(shape.dtype), x[new].swapaxes(0, 1)], axis=1
            )
            for old, x in zip(history, (k, v), strict=True)
        )
        parts.append(reference_attention.attend(q[new], keys, values, shape, scene.sinks))
    expected = attended(scene, shape)
    error = np.abs(wide(mx.concatenate(parts)) - expected).max() / np.abs(expected).max()
    assert error <= TOLERANCE[shape.dtype]


def test_keys_and_values_are_read_once_for_the_whole_group(kernel_cache: Path) -> None:
    reports: dict[str, LaunchReport] = {}
    executor = EmulatedExecutor(Emulator(kernel_cache, Mode.CHECKED), reports.__setitem__)
    shape, length = shaped(F16, 64, 8), 1000
    scene = make_scene(shape, [length], 1, 512)
    run(executor, shape, scene, DecodeCut())
    row = shape.kv_heads * shape.head_dim * 2
    for name in ("keys", "values"):
        traffic = reports["decode_attention"].traffic[name]
        assert traffic.bytes_read == pytest.approx(length * row, rel=0.05)
        assert traffic.bytes_written == row


class Asked:
    """An executor that launches nothing; `threads` are those of each kernel's last threadgroup."""

    def __init__(self) -> None:
        self.threads: dict[str, int] = {}

    def build(self, source: KernelSource, signature: Signature) -> Launcher:
        def launch(request: Request) -> list[mx.array]:
            self.threads[source.name] = request.threadgroup[0]
            return [mx.zeros(output.shape, output.dtype) for output in request.outputs]

        return launch


@pytest.mark.parametrize(("partitions", "simdgroups"), [(63, 8), (64, 4)])
def test_plenty_of_threadgroups_are_smaller_ones(partitions: int, simdgroups: int) -> None:
    shape = shaped(F16, 64, 8, kv_heads=4)
    pools = mx.zeros((4, 16, 64), F16)
    tables = mx.zeros((1, partitions * 32), mx.int32)
    pages = Pages(Pools.whole(pools, pools, no_fence(pools.dtype)), tables, mx.zeros(8, mx.int32))
    executor = Asked()
    DecodeAttention(executor, Counter(), shape)(mx.zeros((1, 40 * 64), F16), mx.zeros((1, 64)), pages)
    assert executor.threads["decode_attention"] == 32 * simdgroups


def test_launches_are_counted(kernel_cache: Path) -> None:
    executor = EmulatedExecutor(Emulator(kernel_cache, Mode.PLAIN))
    launches: Counter[str] = Counter()
    for length, expected in (
        (10, {"decode_attention": 1}),
        (100, {"decode_attention": 2, "attention_reduce": 1}),
    ):
        scene = make_scene(CASES[0][0], [length], 1, 64)
        DecodeAttention(executor, launches, CASES[0][0], SMALL)(scene.qkv, scene.angles, scene.pages)
        assert launches == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head_dim": 72, "rotary_dims": 64}, "a head size of 72"),
        ({"kv_heads": 3}, "16 heads on 3"),
        ({"rotary_dims": 24}, "24 rotated elements"),
        ({"page_size": 8}, "pages of 8"),
        ({"dtype": mx.int32}, "attention in mlx.core.int32"),
    ],
)
def test_refuses_shapes_it_is_not_written_for(
    kernel_cache: Path, change: dict[str, object], message: str
) -> None:
    shape = replace(shaped(F32, 64, 8), **change)  # pyright: ignore[reportArgumentType]
    with pytest.raises(KernelError, match=message):
        DecodeAttention(EmulatedExecutor(Emulator(kernel_cache, Mode.PLAIN)), Counter(), shape)


def test_refuses_arrays_that_do_not_fit(kernel_cache: Path) -> None:
    shape = shaped(F32, 64, 8)
    attention = DecodeAttention(EmulatedExecutor(Emulator(kernel_cache, Mode.PLAIN)), Counter(), shape, SMALL)
    scene = make_scene(shape, [5], 1, 64)
    with pytest.raises(KernelError, match="qkv is"):
        attention(scene.qkv[:, :-8], scene.angles, scene.pages)
    with pytest.raises(KernelError, match="no whole partitions"):
        attention(scene.qkv, scene.angles, replace(scene.pages, tables=mx.zeros((1, 9), mx.int32)))
    nine = make_scene(shape, [5], 9, 64)
    with pytest.raises(KernelError, match="1 to 8"):
        attention(nine.qkv, nine.angles, nine.pages)
