"""Part of a long table: in columns that are as wide in all of its parts."""

from __future__ import annotations

from collections.abc import Sequence

from app.chat.blocks import Rows
from app.chat.document_style import CELL_PADDING, set_columns, set_rows
from app.chat.prose_view import ProseView
from app.theme import COLUMN_WIDTH, Theme

BORDERS = 4
"""Pixels that a table is wider than its columns, and higher than its rows."""


class RowsView(ProseView):
    """Shows some rows of a table."""

    _rows = Rows("", (), first=True)
    _width = COLUMN_WIDTH  # that its columns are for

    def show_rows(self, rows: Rows, theme: Theme) -> None:
        """Show these rows in the theme's colours."""
        self._rows = rows
        self.show_markdown(rows.text, theme)

    def height_for(self, width: int) -> int:
        """The height it needs at this width, in pixels; lays the table out."""
        if width != self._width:
            self._width = width
            set_columns(self.document(), self._columns())
        return super().height_for(width)

    def _fill(self, markdown: str, theme: Theme) -> None:
        set_rows(self.document(), self._rows, self._columns(), theme)

    def _columns(self) -> Sequence[float]:
        return columns(self._rows.widths, self.fontMetrics().horizontalAdvance("0"), self._width - BORDERS)


def columns(widths: Sequence[int], character: int, room: int) -> Sequence[float]:
    """How wide columns for so many characters of `character` pixels are: together no wider than `room`."""
    wanted = [(width + 1) * character + 2 * CELL_PADDING for width in widths]  # some letters are wider
    found = [0.0] * len(wanted)
    left = float(room)
    by_width = sorted(range(len(wanted)), key=wanted.__getitem__)
    for done, column in enumerate(by_width):
        found[column] = min(wanted[column], left / (len(wanted) - done))
        left -= found[column]
    return found
