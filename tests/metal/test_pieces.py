"""Rows changed by pieces are those changed at once, and what a change needs in between stays small."""

from __future__ import annotations

import mlx.core as mx
import pytest

from metal.pieces import PIECE, by_pieces, product_by_pieces

WIDTH = 1 << 12
STEP = PIECE // WIDTH


def _wide(rows: mx.array) -> mx.array:
    """Eight times the bytes on the way, and twice in the end."""
    return (mx.repeat(rows.astype(mx.float32), 2, axis=1) * 2).astype(mx.uint8)


@pytest.mark.parametrize("count", [1, STEP - 1, STEP, STEP + 1, 3 * STEP, 3 * STEP + 1])
def test_pieces_make_the_whole(count: int) -> None:
    rows = mx.random.randint(0, 100, (count, 16), key=mx.random.key(count)).astype(mx.uint8)
    seen: list[int] = []

    def change(some: mx.array) -> mx.array:
        seen.append(some.shape[0])
        return _wide(some)

    assert mx.array_equal(by_pieces(rows, WIDTH, change), _wide(rows))
    assert sum(seen) == count
    assert max(seen) <= STEP


def test_rows_wider_than_a_piece_go_one_by_one() -> None:
    rows = mx.arange(5, dtype=mx.uint8)[:, None]
    assert mx.array_equal(by_pieces(rows, 3 * PIECE, _wide), _wide(rows))


def test_memory_in_between_is_a_pieces() -> None:
    rows = mx.zeros((16 * STEP, WIDTH), mx.uint8)
    mx.eval(rows)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    result = by_pieces(rows, WIDTH, _wide)
    assert mx.get_peak_memory() - before < result.nbytes + 40 * PIECE


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
def test_a_product_by_pieces_is_the_whole_product(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MULTIPLIED", "MULTIPLIED_BY_CPU"):
        monkeypatch.setattr(f"metal.pieces.{name}", 64 * 32)
    key = mx.random.key(count)
    x, halves = mx.random.normal((3, 32), key=key), mx.random.normal((2, count, 32), key=key)
    seen: list[int] = []

    def weights(one: mx.array, other: mx.array) -> mx.array:
        seen.append(len(one))
        return one + other

    product = product_by_pieces(x, list(halves), 32, weights)
    assert mx.allclose(product, x @ (halves[0] + halves[1]).T, atol=1e-5)
    assert (sum(seen), max(seen)) == (count, min(count, 64))
