"""The pairwise selection: all pairs are in it, it is small, and kernels agree in it under every check."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import combinations, product
from pathlib import Path

import mlx.core as mx
import pytest

from metal.source import KERNELS
from tests.metal.variants import SPACES, selection
from tests.metal.variants_cover import Space, Variant, pairwise, shard, whole_grid

ROOT = Path(__file__).parents[2]


def test_every_two_values_that_can_meet_meet_in_at_most_110_variants() -> None:
    variants = pairwise(SPACES)
    assert len(variants) <= 110
    met = {pair for variant in variants for pair in combinations(sorted(variant.settings, key=str), 2)}
    for space in SPACES:
        for (first, left), (second, right) in combinations(space.factors.items(), 2):
            for a, b in product(left, right):
                assert tuple(sorted([(first, a), (second, b)], key=str)) in met
    assert variants == pairwise(SPACES)


def test_every_variant_is_of_its_kernel_s_space() -> None:
    spaces = {space.kernel: space for space in SPACES}
    for variant in (*pairwise(SPACES), *whole_grid(SPACES)):
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
        "checked",
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
