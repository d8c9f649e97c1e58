"""The sets of page write and attention as one case: they agree over a run, and what breaks one is seen."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import pytest

from engine.kernels.attention_drivers import FunctionalDriver, Rows
from engine.kernels.attention_run import Run, run_sequences
from engine.kernels.attention_set import CASES, AttentionSet, attention_set, set_cuts, set_spec
from engine.kv.page_table import PageTable
from metal.attention_shape import AttentionShape
from metal.errors import KernelError
from metal.executors import Executor
from metal.trial_scope import open_executor
from tests.metal.conftest import executor as executor
from tests.metal.conftest import kernel_cache as kernel_cache

SMALL = AttentionSet(4, 2, 64, 16, "float32", 0.125, history=40, steps=16, contexts="20,40")
VARIANTS = {
    "plain": SMALL,
    "window-norm": replace(SMALL, window=24, norm_epsilon=1e-5, page_size=32),
    "half": replace(SMALL, dtype="float16", heads=3, kv_heads=1, head_dim=80),
}
WHOLE = AttentionSet(4, 2, 64, 16, "float32", 0.125, contexts="512,600")


@pytest.mark.parametrize("name", VARIANTS)
def test_both_sets_agree_with_float64_while_sequences_come_and_go(name: str, executor: Executor) -> None:
    case = attention_set(asdict(VARIANTS[name]), executor)
    builtin, ours, *_ = (one.name for one in case.contenders)
    assert case.error(builtin) <= case.tolerance
    assert case.error(ours) <= case.tolerance


@pytest.mark.long
@pytest.mark.parametrize("cut", set_cuts(WHOLE.shape))
def test_every_cut_agrees_over_the_run_that_a_trial_makes(cut: str, executor: Executor) -> None:
    case = attention_set(asdict(WHOLE), executor)
    assert case.error(cut) <= case.tolerance


def test_a_chain_is_a_step_at_each_context_on_either_set(executor: Executor) -> None:
    case = attention_set(asdict(SMALL), executor)
    functional, in_place = (case.chain(one.name, 2)[0] for one in case.contenders[:2])
    assert functional.shape == in_place.shape == (1, 4 * 64)
    assert mx.allclose(functional, in_place, atol=1e-5)
    assert case.counts_host


class Forgetful(FunctionalDriver):
    """Leaves the pages that the third sequence takes over as they are."""

    prefills = 0

    def prefill(self, table: PageTable, rows: Rows) -> None:
        self.prefills += 1
        if self.prefills <= 4:  # two chunks of each sequence
            super().prefill(table, rows)
        else:
            self.pager.grow(table, table.length + rows[0].shape[0])
            table.length += rows[0].shape[0]


def test_what_breaks_a_run_is_seen() -> None:
    run = Run.make(SMALL.shape, 40, 16)
    found = run_sequences(FunctionalDriver(SMALL.shape, 3, run.pages), run)
    assert run.error(found) <= 1e-5
    stale = run_sequences(Forgetful(SMALL.shape, 3, run.pages), run)
    assert run.error(stale) > 0.01
    for wrong in (0.01, math.nan):
        row = mx.zeros_like(found[2][1])
        row[3, 5] = wrong
        broken = [found[0], found[1], [found[2][0], found[2][1] + row, found[2][2]]]
        assert not run.error(broken) <= 1e-5


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"head_dim": 72, "rotary_dims": 64}, "a head size of 72"),
        ({"softcap": 50.0}, "softcaps, sinks or partly rotated heads"),
        ({"sinks": True}, "softcaps, sinks or partly rotated heads"),
        ({"rotary_dims": 32}, "softcaps, sinks or partly rotated heads"),
    ],
)
def test_a_shape_that_cannot_be_compared_has_no_case(change: dict[str, Any], says: str) -> None:
    with pytest.raises(KernelError, match=says):
        set_spec(replace(SMALL.shape, **change))


def test_a_spec_builds_the_case_of_its_shape_again(tmp_path: Path) -> None:
    shape = AttentionShape(8, 2, 128, 128, 32, mx.bfloat16, 0.09, window=512, norm_epsilon=1e-6)
    spec = set_spec(shape)
    case = CASES[spec.op](spec.params, open_executor("emulated", tmp_path))
    assert case.spec == spec
    assert case.key == "attention set bfloat16 8/2x128 p32 window512 norm"
    assert AttentionSet(**cast("dict[str, Any]", dict(spec.params))).shape == shape
    with pytest.raises(KernelError, match="attention set: "):
        CASES[spec.op]({"heads": 8}, open_executor("emulated", tmp_path))
