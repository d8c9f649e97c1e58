"""How prefill attention is cut, into how many parts, and which cuts it refuses."""

from collections import Counter
from pathlib import Path

import mlx.core as mx
import pytest

from metal.emulator import Emulator, Mode
from metal.errors import KernelError
from metal.executors import EmulatedExecutor
from metal.prefill_attention import (
    PrefillAttention,
    PrefillCut,
    few_rows_cuts,
    prefill_cuts,
    striped_cuts,
)
from tests.metal.test_page_write import shaped
from tests.metal.texts import TextExecutor

F32, F16 = mx.float32, mx.float16


def test_a_long_history_is_split_until_there_is_work_for_a_device() -> None:
    attention = PrefillAttention(TextExecutor(Path()), Counter(), shaped(F16, 64, 8, kv_heads=4))
    assert attention.parts(64, 512) == 2  # 8 tiles of 64 rows, of four simdgroups, for each of 4 heads
    assert attention.parts(64, 8192) == 8
    assert attention.parts(1, 8192) == 32
    assert attention.parts(2048, 32768) is None


def test_a_striped_cut_needs_no_parts_but_for_very_few_rows() -> None:
    shape = shaped(F16, 64, 8, kv_heads=4)
    attention = PrefillAttention(TextExecutor(Path()), Counter(), shape, PrefillCut(2, 8, 16, striped=True))
    assert attention.parts(28, 8192) is None  # 14 tiles of 16 rows, of eight simdgroups, for each of 4 heads
    assert attention.parts(12, 8192) is None
    assert attention.parts(8, 8192) == 4
    assert attention.parts(4, 600) is None


def test_striped_cuts_fit_and_the_widest_comes_first() -> None:
    names = [str(cut) for cut in striped_cuts(shaped(F16, 64, 8))]
    assert names == ["2x10x16 striped", "2x8x16 striped", "2x6x16 striped", "2x4x16 striped"]
    assert [cut.simdgroups for cut in striped_cuts(shaped(F16, 128, 4))] == [6, 4]
    assert striped_cuts(shaped(F32, 256, 1)) == []


def test_few_rows_may_walk_32_wide_keys_at_once_where_they_fit() -> None:
    wide = PrefillCut(2, 8, 32)
    assert wide in few_rows_cuts(shaped(F16, 128, 4))
    assert wide not in prefill_cuts(shaped(F16, 128, 4))
    assert few_rows_cuts(shaped(F16, 64, 8)).count(wide) == 1
    assert wide not in few_rows_cuts(shaped(F16, 256, 1))


def test_parts_of_few_rows_are_at_work_at_once_on_132_cores() -> None:
    """Eight simdgroups have room on a core, whatever registers they need: more would be a second round."""
    for head_dim, group, kv_heads in ((64, 8, 4), (128, 4, 8), (128, 8, 1)):
        shape = shaped(F16, head_dim, group, kv_heads=kv_heads)
        for cut in (PrefillCut(2, 8, 32), PrefillCut(2, 4, 16)):
            parts = PrefillAttention(TextExecutor(Path()), Counter(), shape, cut).parts(32, 8192)
            assert parts is not None
            tiles = -(-32 * group // cut.rows)
            assert parts * tiles * kv_heads * cut.simdgroups <= 132 * 8


def test_a_cut_that_does_not_fit_is_refused(kernel_cache: Path) -> None:
    executor = EmulatedExecutor(Emulator(kernel_cache, Mode.PLAIN))
    with pytest.raises(KernelError, match="does not fit heads of 256"):
        PrefillAttention(executor, Counter(), shaped(F32, 256, 1), PrefillCut(2, 4, 16))


def test_a_cut_that_the_text_is_not_written_for_is_refused(kernel_cache: Path) -> None:
    executor = EmulatedExecutor(Emulator(kernel_cache, Mode.PLAIN))
    for cut in (PrefillCut(2, 4, 24), PrefillCut(3, 4, 16)):
        with pytest.raises(KernelError, match=f"no cut {cut}"):
            PrefillAttention(executor, Counter(), shaped(F16, 64, 8), cut)
