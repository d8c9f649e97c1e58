"""Runs a variant: arrays, the kernel, and the comparison with float64 that the kernel's own tests make."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import mlx.core as mx

from metal.attention_shape import AttentionShape
from metal.block_types import BY_NAME
from metal.decode_cut import DecodeCut
from metal.emulator import Emulator, Mode
from metal.executors import CudaExecutor, EmulatedExecutor, Executor, MetalExecutor
from metal.matmul import matmul_cuts
from metal.matmul_pages import page_cuts
from metal.matvec_cut import MAX_ROWS, Work, candidates
from metal.matvec_weight import BlockWeight
from metal.prefill_attention import PrefillCut, prefill_cuts
from metal.unpack import Room
from tests.metal import (
    test_decode_attention,
    test_dequantize_blocks,
    test_embed,
    test_matmul,
    test_matmul_blocks,
    test_matmul_pages,
    test_matvec,
    test_matvec_affine,
    test_matvec_blocks,
    test_page_copy,
    test_page_gather,
    test_page_write,
    test_pick,
    test_prefill_attention,
    test_rms_norm,
    test_unpack,
)
from tests.metal.conftest import BUILD
from tests.metal.variants_cover import Variant

_DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}


def open_executor(mode: str) -> Executor:
    """What runs variants in this mode; the emulator in an order of threads that no other test has."""
    if mode == "cuda":
        return CudaExecutor()
    if mode == "metal":
        return MetalExecutor()
    return EmulatedExecutor(Emulator(BUILD, Mode[mode.upper()], seed=11))


def run(variant: Variant, executor: Executor) -> None:
    """Raises AssertionError where a kernel disagrees, and what the executor raises."""
    for kernel in str(variant["kernel"]).split(", "):
        _CHECKS[kernel](variant, executor)


def _dtype(variant: Variant) -> mx.Dtype:
    return _DTYPES[str(variant["dtype"])]


def _number(variant: Variant, factor: str) -> int:
    return int(variant[factor])


def shape_of(variant: Variant) -> AttentionShape:
    """Heads of the variant's sizes; factors that its kernel has not are left out."""
    settings = dict(variant.settings)
    head_dim, group = _number(variant, "head_dim"), int(settings.get("group", 1))
    rotary, softcap = settings.get("rotary", "all"), settings.get("softcap", "none")
    window = settings.get("window", "none")
    kv_heads = 1 if group > 4 else 2
    return AttentionShape(
        group * kv_heads,
        kv_heads,
        head_dim,
        head_dim if rotary == "all" else int(rotary),
        _number(variant, "page_size"),
        _dtype(variant),
        head_dim**-0.5,
        None if window == "none" else int(window),
        None if softcap == "none" else float(softcap),
        settings.get("sinks") == "yes",
        1e-6 if settings.get("norm") == "yes" else None,
    )


def _decode(variant: Variant, executor: Executor) -> None:
    """Histories around pages and partitions, an empty one, and a row that no sequence has."""
    shape, page = shape_of(variant), _number(variant, "page_size")
    shared = _number(variant, "shared")
    cut = (
        DecodeCut(64, 4, shared) if variant["cut"] == "default" else DecodeCut(128, 8, shared, 4, ahead=True)
    )
    lengths = [0, page - 1, -1, page + 1, cut.partition]
    test_decode_attention.check(executor, shape, lengths, _number(variant, "tokens"), cut)


def _prefill(variant: Variant, executor: Executor) -> None:
    shape, page = shape_of(variant), _number(variant, "page_size")
    others = ((prefill_cuts(shape)[-1], 3), (PrefillCut(2, 3, 8, striped=True), None))
    sequences = [(0, page + 1), (page - 1, 3), (-1, 2), (2 * page + 5, 1), (3, 0)]
    for cut, parts in others if variant["cut"] == "other" else ((None, None),):
        test_prefill_attention.check(executor, shape, sequences, cut, parts)


def _page_write(variant: Variant, executor: Executor) -> None:
    test_page_write.check(executor, shape_of(variant), 11)


def _page_gather(variant: Variant, executor: Executor) -> None:
    page = _number(variant, "page_size")
    test_page_gather.check(executor, shape_of(variant), page - 1, 2 * page + 3)


def _page_copy(variant: Variant, executor: Executor) -> None:
    test_page_copy.check(executor, shape_of(variant), (3, 9))


def _matvec(variant: Variant, executor: Executor) -> None:
    dtype, rows, width, columns = (
        _dtype(variant),
        *(_number(variant, name) for name in ("rows", "width", "columns")),
    )
    options = _options(variant)
    work = Work(rows, columns, width, 8, gated=variant["activation"] != "none")
    cut = None if variant["cut"] == "default" else candidates(work)[-1]
    out = None if variant["out"] == "same" else mx.float32
    test_matvec.check(executor, dtype, width, columns, rows, options, dtype, cut, out)


def _matvec_affine(variant: Variant, executor: Executor) -> None:
    names = ("bits", "affine_group", "packed_width", "columns", "rows")
    bits, group, width, columns, rows = (_number(variant, name) for name in names)
    dtype = _dtype(variant)
    work = Work(rows, columns, width, 128 // bits, gated=variant["activation"] != "none")
    cut = None if variant["cut"] == "default" else candidates(work)[-1]
    options = _options(variant)
    test_matvec_affine.check(executor, dtype, bits, group, width, columns, rows, options, dtype, cut)


def _matvec_blocks(variant: Variant, executor: Executor) -> None:
    block_type, dtype = BY_NAME[str(variant["block"])], _dtype(variant)
    columns, rows = _number(variant, "columns"), _number(variant, "rows")
    width = _number(variant, "blocks") * block_type.block_weights
    weight = BlockWeight(mx.zeros((1, block_type.bytes_per_row(width)), mx.uint8), block_type)
    work = Work(rows, columns, width, weight.lane_width, gated=variant["activation"] != "none")
    cut = None if variant["cut"] == "default" else candidates(work)[-1]
    test_matvec_blocks.check(executor, block_type, dtype, width, columns, rows, _options(variant), cut)


def _matmul(variant: Variant, executor: Executor) -> None:
    """Columns and a width that no threadgroup's fit; what goes to pages is normalised and not gated."""
    if variant["to"] == "pages":
        shape = test_page_write.shaped(_dtype(variant), 80, 3)
        paired = next(iter(page_cuts().values()))
        bias = variant["residual"] == "yes"
        test_matmul_pages.check(executor, shape, 224, _number(variant, "tall"), paired, bias=bias)
        return
    activation = None if variant["activation"] == "none" else "silu"
    cut = next(iter(matmul_cuts(is_paired=activation is not None).values()))
    sizes = _number(variant, "tall"), 72, 224
    norm, residual = (variant[name] == "yes" for name in ("norm", "residual"))
    test_matmul.check(
        executor, _dtype(variant), sizes, cut, activation, norm=norm, bias=True, residual=residual
    )


def _matmul_blocks(variant: Variant, executor: Executor) -> None:
    """Prompts: more rows than a matrix-vector product takes."""
    block_type, rows = BY_NAME[str(variant["block"])], MAX_ROWS + _number(variant, "rows")
    columns, blocks = _number(variant, "columns"), _number(variant, "blocks")
    test_matmul_blocks.check(executor, block_type, _dtype(variant), rows, columns, blocks)


def _dequantize_blocks(variant: Variant, executor: Executor) -> None:
    test_dequantize_blocks.check(executor, BY_NAME[str(variant["block"])], _dtype(variant))


def _options(variant: Variant) -> str:
    named = [name for name in ("norm", "bias", "residual") if variant[name] == "yes"]
    return " ".join([*named, *([] if variant["activation"] == "none" else [str(variant["activation"])])])


def _rms_norm(variant: Variant, executor: Executor) -> None:
    dtype = _dtype(variant)
    test_rms_norm.check(executor, dtype, dtype, _number(variant, "width"), 3)


def _embed(variant: Variant, executor: Executor) -> None:
    """Out of a table in the variant's form: packed, in blocks, or dense."""
    settings, dtype = dict(variant.settings), _dtype(variant)
    if "bits" in settings:
        group = _number(variant, "affine_group")
        test_embed.check_packed(executor, _number(variant, "bits"), group, dtype)
    elif "block" in settings:
        test_embed.check_blocks(executor, BY_NAME[str(variant["block"])], dtype)
    else:
        test_embed.check_dense(executor, dtype, _number(variant, "width"))


def _pick(variant: Variant, executor: Executor) -> None:
    test_pick.check(executor, 3, _number(variant, "vocab"))


def _unpack(variant: Variant, executor: Executor) -> None:
    shape = shape_of(variant)
    if shape.rotary_dims:  # or a layer reads no angles
        test_unpack.check(executor, shape.rotary_dims, Room(9, 40, 8), 20, 7, page=shape.page_size)


_CHECKS: Mapping[str, Callable[[Variant, Executor], None]] = {
    "decode_attention": _decode,
    "prefill_attention": _prefill,
    "page_write": _page_write,
    "page_gather": _page_gather,
    "page_copy": _page_copy,
    "matvec": _matvec,
    "matvec_affine": _matvec_affine,
    "matvec_blocks": _matvec_blocks,
    "matmul": _matmul,
    "matmul_blocks": _matmul_blocks,
    "dequantize_blocks": _dequantize_blocks,
    "rms_norm": _rms_norm,
    "pick": _pick,
    "unpack": _unpack,
    "embed": _embed,
}
