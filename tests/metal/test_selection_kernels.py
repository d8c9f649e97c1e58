"""Selection between MLX and kernels of ours: on the emulator that it works, on a GPU what it costs."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from metal.candidates import CASES, rms_norm_spec
from metal.product import Product
from metal.selection import Selection
from metal.trial_runner import TrialRunner
from metal.trial_scope import ExecutorName, Scope, gpu_executor, open_executor, this_scope

SCOPE = Scope("a Mac", "0.32.4", "emulated")


def test_a_kernel_of_ours_is_tried_from_its_text(tmp_path: Path, kernel_cache: Path) -> None:
    spec = rms_norm_spec(64, 2, "float32", adds=True)
    tried = CASES[spec.op](spec.params, open_executor("emulated", kernel_cache))
    chooser = Selection(tmp_path, SCOPE, TrialRunner("emulated", kernel_cache))
    chooser.choose(tried)
    (record,) = chooser.run_pending()
    assert [one.status for one in record.candidates] == ["chosen", "slower"]  # the emulator is slow
    assert 0 < (record.candidates[1].error or 0.0) <= 1e-5


@pytest.mark.parametrize("name", ["cuda", "metal"])
def test_products_of_a_model_are_tried_on_the_gpu_in_seconds(name: ExecutorName, tmp_path: Path) -> None:
    if name != gpu_executor():
        pytest.skip("needs that GPU")
    common = Product(2048, 2560, 1, "float16", copies=22)
    products = [
        replace(common, norm=True),
        replace(common, columns=2048, residual=True),
        replace(common, columns=5632, norm=True, activation="silu"),
        replace(common, width=5632, columns=2048, residual=True),
        replace(common, columns=32000, norm=True, out="float32", copies=1),
    ]
    executor = open_executor(name, tmp_path)
    for folder in (tmp_path / "cold", tmp_path / "warm"):  # MLX keeps what it compiled, where it can
        chooser = Selection(folder, this_scope(name))
        for product in products:
            chooser.choose(CASES["matvec"](product.spec.params, executor))
        began = time.monotonic()
        records = chooser.run_pending()
        seconds = time.monotonic() - began
        print(folder.name, f"{seconds:.1f} s", *records, sep="\n")
        assert chooser.problem == ""
        assert {one.status for record in records for one in record.candidates} == {"chosen", "slower"}
        assert all(one.microseconds for record in records for one in record.candidates)
