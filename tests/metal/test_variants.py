"""The pairwise selection: all pairs are in it, it is small, and kernels agree in it under every check."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from itertools import combinations, product
from pathlib import Path

import mlx.core as mx
import pytest

from metal.attention_shape import HEAD_DIMS
from metal.decode_cut import DecodeCut, sizes
from metal.matvec_weight import KERNEL_BLOCK_TYPES
from metal.source import KERNELS
from tests.metal.variants import SPACES, selection
from tests.metal.variants_cover import Classes, Setting, Space, Variant, fewest, pairwise, shard, whole_grid
from tests.metal.variants_run import shape_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def chosen() -> list[Variant]:
    return pairwise(SPACES)


def test_the_selection_is_small_and_nearly_the_smallest(chosen: list[Variant]) -> None:
    assert len(chosen) <= 85
    assert len(chosen) <= sum(count for _, count in fewest(SPACES)) + 2
    assert chosen == pairwise(SPACES)


def test_every_two_values_that_can_meet_meet(chosen: list[Variant]) -> None:
    met = {pair for variant in chosen for pair in combinations(sorted(variant.settings, key=str), 2)}
    less = [{"group", "shared"}, {"block", "dtype"}, {"block", "rows"}, {"block", "activation"}]
    for space in SPACES:
        for (first, left), (second, right) in combinations(space.factors.items(), 2):
            if {first, second} in less:
                continue
            for a, b in product(left, right):
                assert tuple(sorted([(first, a), (second, b)], key=str)) in met, (first, a, second, b)


def test_each_kernel_meets_all_that_it_is_written_for(chosen: list[Variant]) -> None:
    met: dict[str, set[Setting]] = defaultdict(set)
    for variant in chosen:
        for kernel in str(variant["kernel"]).split(", "):
            met[kernel] |= set(variant.settings)
    dtypes = {("dtype", dtype) for dtype in ("float32", "float16", "bfloat16")}
    for kernel in met.keys() - {"pick", "matmul"}:
        assert dtypes <= met[kernel], kernel
    assert {("dtype", "float16"), ("dtype", "bfloat16")} <= met["matmul"]
    sizes_of_heads = {("head_dim", size) for size in HEAD_DIMS}
    groups = {("group", group) for group in (*range(1, 9), 16)}
    for kernel in ("decode_attention", "prefill_attention", "page_write", "page_gather", "page_copy"):
        assert sizes_of_heads | groups <= met[kernel], kernel
    formats = {("block", block_type.name) for block_type in KERNEL_BLOCK_TYPES}
    for kernel in ("matvec_blocks", "matmul_blocks", "dequantize_blocks", "embed"):
        assert formats <= met[kernel], kernel
    packings = {("bits", 4), ("bits", 8), *(("affine_group", group) for group in (32, 64, 128))}
    assert packings <= met["matvec_affine"] & met["embed"]


def test_each_format_meets_one_row_and_several_gated_and_not_floats_of_16_bits_and_32(
    chosen: list[Variant],
) -> None:
    met: set[tuple[object, ...]] = set()
    for variant in chosen:
        if "block" in dict(variant.settings):
            met.add((variant["block"], "rows", variant["rows"] == 1))
            met.add((variant["block"], "gated", variant["activation"] != "none"))
            met.add((variant["block"], "wide", variant["dtype"] == "float32"))
    classes = product([one.name for one in KERNEL_BLOCK_TYPES], ("rows", "gated", "wide"), (False, True))
    assert met == set(classes)


def test_a_format_s_text_names_no_dtype_no_rows_and_no_activation() -> None:
    """Were it to, the classes above would say too little."""
    text = re.sub(r"//.*", "", (KERNELS / "blocks.h").read_text())
    around = {*"T W RESULT M COUNT ROWS OUTPUTS NORM BIAS ACTIVATION GATED RESIDUAL".split()}
    names = set(re.findall(r"\w+", text))
    assert "BLOCK" in names
    assert not around & names


def test_decode_attention_meets_each_head_size_with_each_number_of_rows_that_share_a_walk(
    chosen: list[Variant],
) -> None:
    met: set[tuple[int, int]] = set()
    for variant in chosen:
        if variant["kernel"] == "decode_attention":
            cut = DecodeCut(rows=int(variant["shared"]))
            met.add((int(variant["head_dim"]), sizes(shape_of(variant), cut, int(variant["tokens"]))["ROWS"]))
    assert met == set(product(HEAD_DIMS, (1, 2, 4, 8)))


def test_every_variant_is_of_its_kernel_s_space(chosen: list[Variant]) -> None:
    spaces = {space.kernel: space for space in SPACES}
    for variant in (*chosen, *whole_grid(SPACES)):
        factors = spaces[str(variant["kernel"])].factors
        assert list(dict(variant.settings)) == list(factors)
        assert all(value in factors[factor] for factor, value in variant.settings)


def test_every_kernel_is_in_the_selection() -> None:
    named = {name for space in SPACES for name in space.kernel.split(", ")}
    assert named | {"attention_reduce"} == {path.stem for path in KERNELS.glob("*.metal")}  # decode joins


def test_one_variant_serves_two_kernels_where_it_can() -> None:
    # Two kernels share a and b: their pairs need to meet once, in either.
    spaces = [Space(name, {"a": (1, 2, 3), "b": (1, 2, 3)}, {}) for name in ("first", "second")]
    assert len(pairwise(spaces)) == 9
    assert [count for _, count in fewest(spaces)] == [9]


def test_a_factor_that_meets_classes_needs_fewer_variants() -> None:
    factors = {"a": (1, 2, 3), "b": ("x", "y", "z")}
    classes: dict[str, Classes] = {"a": {"b": {"x": "first", "y": "later", "z": "later"}}}
    variants = pairwise([Space("one", factors, {}, classes)])
    assert {(variant["a"], variant["b"] == "x") for variant in variants} == set(
        product((1, 2, 3), (True, False))
    )
    assert {variant["b"] for variant in variants} == {"x", "y", "z"}
    assert len(variants) == 6 == fewest([Space("one", factors, {}, classes)])[0][1]


def test_shards_are_the_whole_grid() -> None:
    whole = selection(full=True)
    parts = [selection(full=True, part=f"{number}/3") for number in (1, 2, 3)]
    assert sorted(map(str, whole)) == sorted(str(one) for part in parts for one in part)
    assert len(set(whole)) == len(whole) == sum(map(len, SPACES))
    with pytest.raises(ValueError, match="a shard is i/n"):
        shard([Variant(())], "3/2")


@pytest.mark.timeout(480)
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("checked", marks=pytest.mark.long),
        "sanitized",
        pytest.param("cuda", marks=pytest.mark.long),  # NVIDIA's compiler needs minutes for all of them
        "metal",
    ],
)
def test_kernels_agree_with_float64_in_the_selection(mode: str) -> None:
    here = {"cuda": mx.cuda.is_available(), "metal": mx.metal.is_available()}
    if not here.get(mode, sys.platform == "linux" and shutil.which("g++") is not None):
        pytest.skip("this machine does not have what that needs")
    jobs = 1 if mode in here else min(2, os.cpu_count() or 1)
    command = [sys.executable, "-m", "tests.metal.variants", "--mode", mode, "--jobs", str(jobs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok ") == len(selection(full=False))
