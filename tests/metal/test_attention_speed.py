"""The attention harness itself: both sides agree before they are timed, and what the table says."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from metal.decode_cut import cuts
from metal.trial_scope import open_executor
from tests.metal import attention_speed
from tests.metal.attention_speed import Layers, Row, decode_shape, error, measured, table

SHAPE = decode_shape(4, 2, 64)


def test_every_cut_agrees_and_is_timed_beside_mlx(kernel_cache: Path) -> None:
    row = measured(SHAPE, 40, 2, open_executor("emulated", kernel_cache), rounds=2)
    assert len(row.errors) == len(cuts(SHAPE))
    assert all(0 < found < 1e-3 for found in row.errors.values())
    assert set(row.microseconds) == {"contiguous", *row.errors}
    assert all(low <= row.microseconds[name] <= high for name, (low, high) in row.spread.items())


def test_nothing_is_timed_when_ours_disagrees(kernel_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_speed, "TOLERANCE", {"float16": 1e-9})
    with pytest.raises(SystemExit, match=r"at 40 keys differs by .* from MLX's"):
        measured(SHAPE, 40, 1, open_executor("emulated", kernel_cache), rounds=1)


def test_attention_without_its_new_token_is_found_wrong() -> None:
    data = Layers(SHAPE, 17, 1)

    def of_old_keys(_layer: int, qkv: mx.array) -> mx.array:
        q = qkv[:, :256].reshape(1, 4, 1, 64)
        keys, values = (part[:, :, :-1] for part in data.contiguous[0])
        return mx.fast.scaled_dot_product_attention(q, keys, values, scale=SHAPE.scale).reshape(1, -1)

    assert error(data, of_old_keys) > 0.05


def test_the_fastest_cut_is_set_against_mlx() -> None:
    times = {"contiguous": 20.0, "512/8/8/8": 16.0, "256/8/8/8": 15.0}
    rows = [
        Row(8192, {"512/8/8/8": 2e-4, "256/8/8/8": 3e-4}, times, dict.fromkeys(times, (14.0, 21.0))),
        Row(128, {"512/8/8/8": 2e-4}, {}, {}),
    ]
    assert list(table(rows))[2:] == [
        "| 8,192 | 20.0 (14.0 to 21.0) | 15.0 (14.0 to 21.0) | 256/8/8/8 | 0.75 | 3.0e-04 |",
        "| 128 | – | – | 512/8/8/8 | – | 2.0e-04 |",
        "emulated kernels are not timed",
    ]
