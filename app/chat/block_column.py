"""The blocks of an answer, one under the other: built in slices of a frame, and only where they changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from PySide6.QtCore import QTimer, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.appearance import Appearance
from app.chat.blocks import Block, Code, Prose, Rows
from app.chat.code_view import CodeView
from app.chat.document_style import LIST_GAP
from app.chat.prose_view import ProseView
from app.chat.rows_view import BORDERS, RowsView

_View = TypeVar("_View", CodeView, ProseView, RowsView)

GAP = 12
SLICE_SECONDS = 0.006
FIT_SECONDS = 0.03
"""The first slice for a new width: an answer of a usual length is laid out at once."""
MOST_DELETED = 4
"""Views of former blocks that end in one slice: a large table takes a millisecond to be torn down."""


class BlockColumn(QWidget):
    """Shows blocks. A very long text takes several slices; `height_changed` follows each but the first."""

    height_changed = Signal()

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._appearance = appearance
        self._wanted: Sequence[Block] = ()
        self._shown: list[Block] = []  # what _views show; shorter than _wanted while there is work left
        self._views: list[ProseView | CodeView] = []
        self._heights: list[int] = []  # of the first views
        self._right = 0  # of them are right; the others are for another width, or for other words
        self._width = 0
        self._growing = False
        self._former: list[QWidget] = []  # hidden, and to be deleted a few at a time
        self._work = QTimer(self)
        self._work.setInterval(0)
        self._work.timeout.connect(self._work_a_slice)

    @property
    def complete(self) -> bool:
        """Whether everything wanted is shown."""
        return len(self._shown) == len(self._wanted)

    def show_blocks(self, blocks: Sequence[Block], growing: bool = False) -> None:
        """Show these blocks, the last of which may be `growing`; widgets whose block is the same stay."""
        self._wanted = blocks
        self._growing = growing
        same = 0
        while same < min(len(self._shown), len(blocks)) and self._shown[same] == blocks[same]:
            same += 1
        del self._shown[same:]
        self._doubt_heights(same)
        del self._heights[len(blocks) :]
        for view in self._views[len(blocks) :]:
            self._drop(view)
        del self._views[len(blocks) :]
        self._settle(same)
        self._build()

    def restyle(self) -> None:
        """Show everything anew, in the theme that is in force now."""
        self._shown.clear()
        self._doubt_heights(0)
        self._growing = False  # until the next words come
        self._build()

    def release(self) -> list[QWidget]:
        """Show nothing any more. Returns the views, for the caller to end them."""
        views = [*self._views, *self._former]
        self._wanted, self._views, self._former = (), [], []
        self._shown.clear()
        self._heights.clear()
        self._right = 0
        self._work.stop()
        return views

    def fit(self, width: int) -> int:
        """Stack the blocks and return their height; heights known for this width are used again.

        Of very many blocks some that are not seen keep their height for another width until the next slices.
        """
        until = time.monotonic() + (SLICE_SECONDS if width == self._width else FIT_SECONDS)
        if width != self._width:
            self._width = width
            self._doubt_heights(0)
            self._measure_what_is_seen()
        self._measure(until)
        top = 0
        for place, view in enumerate(self._views):
            top += _gap(self._wanted[place]) if place else 0
            view.setGeometry(0, top, width, self._heights[place])
            top += self._heights[place]
        return top

    def _measure(self, until: float) -> None:
        """Have a height of every view, and till then the right one of as many as possible."""
        while self._right < len(self._heights) and time.monotonic() < until:
            self._heights[self._right] = self._views[self._right].height_for(self._width)
            self._right += 1
        all_right = self._right == len(self._heights)
        for view in self._views[len(self._heights) :]:
            self._heights.append(view.height_for(self._width))
        if all_right:
            self._right = len(self._heights)
        else:
            self._work.start()

    def _measure_what_is_seen(self) -> None:
        for place, view in enumerate(self._views[: len(self._heights)]):
            if not view.visibleRegion().isEmpty():
                self._heights[place] = view.height_for(self._width)

    def _doubt_heights(self, place: int) -> None:
        """Those of the views from `place` on hold until they are measured again."""
        self._right = min(self._right, place)

    def _settle(self, count: int) -> None:
        """Bring the first `count` blocks, but for one that grows, into their final form."""
        for place, view in enumerate(self._views[:count]):
            if isinstance(view, ProseView) and not self._grows(place) and view.settle(self._appearance.theme):
                self._doubt_heights(place)

    def _grows(self, place: int) -> bool:
        return self._growing and place == len(self._wanted) - 1

    def _build(self) -> None:
        until = time.monotonic() + SLICE_SECONDS
        while not self.complete and time.monotonic() < until:
            self._show_next()
        if self.complete:
            for view in self._former[:MOST_DELETED]:
                view.deleteLater()
            del self._former[:MOST_DELETED]
        if self.complete and not self._former and self._right == len(self._heights):
            self._work.stop()
        else:
            self._work.start()

    @Slot()
    def _work_a_slice(self) -> None:
        self._build()
        self.height_changed.emit()

    def _show_next(self) -> None:
        place = len(self._shown)
        block, theme = self._wanted[place], self._appearance.theme
        match block:
            case Code():
                self._code_at(place).show_code(block.text, block.language)
            case Rows():
                self._rows_at(place).show_rows(block, theme)
            case Prose() if self._grows(place):
                self._prose_at(place).grow_markdown(block.text, theme, block.number)
            case Prose():
                self._prose_at(place).show_markdown(block.text, theme, block.number)
        self._doubt_heights(place)
        self._shown.append(block)

    def _prose_at(self, place: int) -> ProseView:
        return self._view_at(place, ProseView, lambda: ProseView(self))

    def _rows_at(self, place: int) -> RowsView:
        return self._view_at(place, RowsView, lambda: RowsView(self))

    def _code_at(self, place: int) -> CodeView:
        return self._view_at(place, CodeView, lambda: CodeView(self._appearance, self))

    def _view_at(self, place: int, kind: type[_View], make: Callable[[], _View]) -> _View:
        """The view at `place`, made or replaced when there is none of this kind."""
        there = self._views[place] if place < len(self._views) else None
        if isinstance(there, kind) and type(there) is kind:  # one for rows is one for prose too
            return there
        view = make()
        view.show()
        if there:
            self._drop(there)
            self._views[place] = view
        else:
            self._views.append(view)
        return view

    def _drop(self, view: QWidget) -> None:
        view.hide()
        self._former.append(view)


def _gap(block: Block) -> int:
    """Pixels above a block that is not the first."""
    match block:
        case Prose(number=int()):
            return LIST_GAP
        case Rows(first=False):
            return -BORDERS  # the line above it is the one below the part before
        case _:
            return GAP
