"""The page map as pixels: one cell a page, in the colour of its chat, with marks for its state; without Qt.

A page that nobody owns alone is told apart by its form too: a frame runs, a hole is shared, a foot is on SSD.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from engine import ON_SSD, RUNNING, SHARED

Pixels = NDArray[np.uint8]
"""(height, width, 4): blue, green, red and 255, as QImage's Format_RGB32 has them in memory."""

LEAST, MOST = 5, 18
SPARE_ROWS = 2
ROOM = 260
"""Pixels of a cell's side, gap included, and the height that a map may take before its cells are as small."""


@dataclass(frozen=True, slots=True)
class Inks:
    """Colours as #rrggbb: of free cells, of the ground between cells, and of marks."""

    free: str
    ground: str
    mark: str


@dataclass(frozen=True, slots=True)
class Grid:
    """How many cells there are beside and above each other, and a cell's side in pixels."""

    pages: int
    columns: int
    rows: int
    side: int

    def place(self, x: int, y: int) -> int | None:
        """The page at a pixel; None where there is none."""
        column, row = x // self.side, y // self.side
        page = row * self.columns + column
        return page if 0 <= column < self.columns and row >= 0 and page < self.pages else None


def grid_for(used: int, total: int, width: int) -> Grid:
    """Cells as large as let the first `used` pages fit into `width` x ROOM pixels, between LEAST and MOST.

    A row or two of free ones behind them, of `total` pages, have cells too.
    """
    width = max(width, MOST)
    side = max(LEAST, min(MOST, isqrt(width * ROOM // max(1, used))))
    columns = width // side
    rows = min(-(-total // columns), -(-used // columns) + SPARE_ROWS)
    return Grid(min(total, rows * columns), columns, rows, side)


def paint(grid: Grid, states: bytes, colour_of: Sequence[str], owner_of: Sequence[int], inks: Inks) -> Pixels:
    """The pixels of a map.

    Args:
        states: a byte a page, of `engine.events.pages`' bits; pages behind the last are free.
        colour_of: #rrggbb of each set of owners.
        owner_of: of each page the place of its owners in `colour_of`.
    """
    cells = grid.rows * grid.columns
    state = np.zeros(cells, np.uint8)
    state[: len(states)] = np.frombuffer(states, np.uint8)
    colours = np.array([_bgr(colour) for colour in (*colour_of, inks.ground)], np.uint8)
    owner = np.full(cells, len(colour_of), np.int64)
    owner[: len(states)] = owner_of
    fill = colours[owner]  # (cells, 4)
    fill[: grid.pages][state[: grid.pages] == 0] = _bgr(inks.free)
    tile = np.broadcast_to(fill[:, None, None, :], (cells, grid.side, grid.side, 4)).copy()
    for bit, shape, ink in (
        (SHARED, _hole(grid.side), inks.ground),
        (ON_SSD, _foot(grid.side), inks.mark),
        (RUNNING, _frame(grid.side), inks.mark),
    ):
        tile[np.ix_((state & bit) > 0, *map(np.arange, shape.shape))] = np.where(
            shape[None, :, :, None], _bgr(ink), tile[(state & bit) > 0]
        )
    tile[:, -1, :] = tile[:, :, -1] = _bgr(inks.ground)
    rows = tile.reshape(grid.rows, grid.columns, grid.side, grid.side, 4).swapaxes(1, 2)
    return np.ascontiguousarray(rows.reshape(grid.rows * grid.side, grid.columns * grid.side, 4))


def _bgr(colour: str) -> Pixels:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return np.array([blue, green, red, 255], np.uint8)


def _frame(side: int) -> NDArray[np.bool_]:
    shape = np.zeros((side, side), np.bool_)
    shape[[0, side - 2], : side - 1] = shape[: side - 1, [0, side - 2]] = True
    return shape


def _hole(side: int) -> NDArray[np.bool_]:
    shape = np.zeros((side, side), np.bool_)
    edge = max(1, (side - 1) // 3)
    shape[edge : side - 1 - edge, edge : side - 1 - edge] = True
    return shape


def _foot(side: int) -> NDArray[np.bool_]:
    shape = np.zeros((side, side), np.bool_)
    shape[side - 1 - max(1, (side - 1) // 5) : side - 1, : side - 1] = True
    return shape
