"""The blocks of an answer, one under the other: built in slices of a frame, and only where they changed."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PySide6.QtCore import QTimer, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.appearance import Appearance
from app.chat.code_view import CodeView
from app.chat.markdown_blocks import Block, Code, Prose
from app.chat.prose_view import ProseView

GAP = 12
SLICE_SECONDS = 0.006
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
        self._heights: list[int] = []  # of the first views, for _width
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
        del self._shown[same:], self._heights[same:]
        for view in self._views[len(blocks) :]:
            self._drop(view)
        del self._views[len(blocks) :]
        self._settle(same)
        self._build()

    def restyle(self) -> None:
        """Show everything anew, in the theme that is in force now."""
        self._shown.clear()
        self._heights.clear()
        self._growing = False  # until the next words come
        self._build()

    def fit(self, width: int) -> int:
        """Stack the blocks and return their height; heights known for this width are used again."""
        if width != self._width:
            self._width = width
            self._heights.clear()
        top = 0
        for place, view in enumerate(self._views):
            if place == len(self._heights):
                self._heights.append(view.height_for(width))
            view.setGeometry(0, top, width, self._heights[place])
            top += self._heights[place] + GAP
        return max(0, top - GAP)

    def _settle(self, count: int) -> None:
        """Bring the first `count` blocks, but for one that grows, into their final form."""
        for place, view in enumerate(self._views[:count]):
            if isinstance(view, ProseView) and not self._grows(place) and view.settle(self._appearance.theme):
                del self._heights[place:]

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
        if self.complete and not self._former:
            self._work.stop()
        else:
            self._work.start()

    @Slot()
    def _work_a_slice(self) -> None:
        self._build()
        self.height_changed.emit()

    def _show_next(self) -> None:
        place = len(self._shown)
        block = self._wanted[place]
        view = self._view_at(place, ProseView if isinstance(block, Prose) else CodeView)
        if isinstance(view, CodeView) and isinstance(block, Code):
            view.show_code(block.text, block.language)
        elif isinstance(view, ProseView) and self._grows(place):
            view.grow_markdown(block.text, self._appearance.theme)
        elif isinstance(view, ProseView):
            view.show_markdown(block.text, self._appearance.theme)
        self._shown.append(block)

    def _view_at(self, place: int, kind: type[ProseView] | type[CodeView]) -> ProseView | CodeView:
        """The view at `place`, made or replaced when there is none of this kind."""
        if place < len(self._views) and type(self._views[place]) is kind:
            return self._views[place]
        view = CodeView(self._appearance, self) if kind is CodeView else ProseView(self)
        view.show()
        if place < len(self._views):
            self._drop(self._views[place])
            self._views[place] = view
        else:
            self._views.append(view)
        return view

    def _drop(self, view: QWidget) -> None:
        view.hide()
        self._former.append(view)
