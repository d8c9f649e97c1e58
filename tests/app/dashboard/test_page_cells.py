"""The page map's pixels: each cell in its colour, with the marks of its state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dashboard.page_cells import LEAST, MOST, ROOM, SPARE_ROWS, Grid, Inks, grid_for, paint
from app.dashboard.palette import colours
from app.theme import DARK, LIGHT, Theme, contrast
from engine import CACHED, ON_SSD, RUNNING, SHARED

INKS = Inks(free="#eeeeee", ground="#ffffff", mark="#000000")
RED, GREEN = "#ff0000", "#00ff00"


def colour(pixel: np.ndarray) -> str:
    blue, green, red, alpha = (int(value) for value in pixel)
    assert alpha == 255
    return f"#{red:02x}{green:02x}{blue:02x}"


def cell(pixels: np.ndarray, grid: Grid, page: int) -> np.ndarray:
    row, column = divmod(page, grid.columns)
    side = grid.side
    return pixels[row * side : (row + 1) * side, column * side : (column + 1) * side]


@given(st.integers(0, 20_000), st.integers(1, 200_000), st.integers(300, 3000))
def test_every_used_page_has_a_cell_of_its_own(used: int, total: int, width: int) -> None:
    used = min(used, total)
    grid = grid_for(used, total, width)
    assert LEAST <= grid.side <= MOST
    assert grid.columns * grid.side <= max(width, MOST)
    assert used <= grid.pages <= min(total, grid.rows * grid.columns)
    assert grid.pages == total or grid.pages >= used + SPARE_ROWS * grid.columns - grid.columns
    if grid.side > LEAST:
        assert grid.rows * grid.side <= 1.1 * ROOM + (1 + SPARE_ROWS) * MOST
    for page in (0, grid.pages // 2, grid.pages - 1):
        row, column = divmod(page, grid.columns)
        assert grid.place(column * grid.side + 1, row * grid.side + grid.side - 1) == page
    assert grid.place(-1, 0) is None
    assert grid.place(grid.columns * grid.side, 0) is None
    assert grid.place(0, grid.rows * grid.side) is None


@given(st.lists(st.sampled_from([0, CACHED, RUNNING, CACHED | RUNNING]), min_size=1, max_size=60))
def test_a_cell_has_the_colour_of_its_owners(states: list[int]) -> None:
    grid = Grid(len(states), 7, -(-len(states) // 7), 9)
    owners = [1 + page % 2 for page in range(len(states))]
    pixels = paint(grid, bytes(states), ["#888888", RED, GREEN], owners, INKS)
    assert pixels.shape == (grid.rows * 9, 7 * 9, 4)
    for page, state in enumerate(states):
        expected = INKS.free if not state else (RED, GREEN)[page % 2]
        assert colour(cell(pixels, grid, page)[4, 2]) == expected
    for empty in range(len(states), grid.rows * 7):
        assert {colour(pixel) for pixel in cell(pixels, grid, empty).reshape(-1, 4)} == {INKS.ground}


@pytest.mark.parametrize("side", [LEAST, 9, MOST])
@pytest.mark.parametrize(
    ("bit", "seen", "ink"),
    [(RUNNING, (0, 0), INKS.mark), (SHARED, (None, None), INKS.ground), (ON_SSD, (-2, None), INKS.mark)],
)
def test_marks_differ_in_form(side: int, bit: int, seen: tuple[int | None, int | None], ink: str) -> None:
    middle = (side - 1) // 2
    row, column = (middle if place is None else place for place in seen)
    grid = Grid(2, 2, 1, side)
    pixels = paint(grid, bytes([CACHED, CACHED | bit]), [RED], [0, 0], INKS)
    assert colour(cell(pixels, grid, 0)[row, column]) == RED
    assert colour(cell(pixels, grid, 1)[row, column]) == ink
    assert RED in {colour(pixel) for pixel in cell(pixels, grid, 1).reshape(-1, 4)}


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_colours_stand_out_from_the_ground_and_from_each_other(theme: Theme) -> None:
    found = colours(theme)
    assert all(contrast(one, theme.surface) >= 3 for one in found)
    assert all(_apart(one, other) > 60 for one in found for other in found if one != other)
    for seen in (_without_red, _without_green):
        assert all(_apart(seen(one), seen(other)) > 20 for one in found for other in found if one != other)


def _apart(one: str, other: str) -> float:
    """Distance of two #rrggbb colours."""
    return sum((int(one[i : i + 2], 16) - int(other[i : i + 2], 16)) ** 2 for i in (1, 3, 5)) ** 0.5


def _without_red(colour: str) -> str:
    """As an eye without red cones sees it, after Viénot, Brettel and Mollon (1999), on linear light."""
    return _seen(colour, red=0.11238, blue=0.00401)


def _without_green(colour: str) -> str:
    """As an eye without green cones sees it, after the same."""
    return _seen(colour, red=0.29275, blue=-0.02234)


def _seen(colour: str, red: float, blue: float) -> str:
    linear = [(int(colour[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5)]
    yellow = red * linear[0] + (1 - red) * linear[1]
    shown = (yellow, yellow, blue * (linear[0] - linear[1]) + linear[2])
    return "#" + "".join(f"{round(255 * min(1.0, max(0.0, c)) ** (1 / 2.2)):02x}" for c in shown)
