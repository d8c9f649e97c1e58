"""The messages of a conversation and the run of them that exist as widgets, with their heights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPoint, Qt, QTimer, Slot
from PySide6.QtWidgets import QWidget

from app.chat.block_column import BlockColumn
from app.chat.message_view import MessageView
from app.store.records import ChatMessage

MARGIN = 24
GAP = 24
MOST_DELETED = 4
"""Former views that end in one turn of the event loop: each takes a millisecond to be torn down."""


class MessageStack(QWidget):
    """Holds the messages and the views of some. Which ones there should be is not its affair.

    `make_view` makes the view of a message, `width_of` says how wide a view is to be.
    """

    def __init__(
        self,
        make_view: Callable[[ChatMessage], MessageView],
        width_of: Callable[[MessageView], int],
    ) -> None:
        super().__init__()
        self.setObjectName("transcriptColumn")
        self._make_view, self._width_of = make_view, width_of
        self._messages: list[ChatMessage] = []
        self._first = 0  # message that has a view
        self._views: list[MessageView] = []
        self._heights: list[int] = []
        self._widths: list[int] = []  # that each height is for; another one makes it stale
        self._unordered: set[MessageView] = set()  # whose place among the Tab key's stops is to be found
        self._former: list[QWidget] = []  # hidden, and to be deleted a few at a time
        self._ending = QTimer(self)
        self._ending.setInterval(0)
        self._ending.timeout.connect(self._end_some)

    @property
    def messages(self) -> Sequence[ChatMessage]:
        """All messages."""
        return self._messages

    @property
    def views(self) -> Sequence[MessageView]:
        """The views, from the top."""
        return self._views

    @property
    def last(self) -> MessageView | None:
        """The last message's view; None while it has none."""
        return self._views[-1] if self._views and not self.missing_below else None

    @property
    def lacks_above(self) -> bool:
        """Whether messages above the first view have none."""
        return self._first > 0

    @property
    def missing_below(self) -> int:
        """How many messages below the last view have none."""
        return len(self._messages) - self._first - len(self._views)

    def restart(self, messages: Sequence[ChatMessage]) -> None:
        """Take other messages; the first one to be built is the last."""
        self._cut(0)
        self._messages = list(messages)
        self._first = len(messages)

    def change_end(self, messages: Sequence[ChatMessage]) -> None:
        """Take messages that may differ from some place on; the views from there on go, and the last one.

        The last message may be shown in another way now: alone, or beside others.
        """
        pairs = zip(self._messages, messages, strict=False)
        common = next(
            (place for place, (old, new) in enumerate(pairs) if old.id != new.id),
            min(len(self._messages), len(messages)),
        )
        common = min(common, max(0, len(messages) - 1))
        self._cut(max(0, common - self._first))
        self._first = min(self._first, common)
        self._messages = list(messages)

    def replace_last(self, message: ChatMessage) -> None:
        """Take a newer version of the last message; its view is not told."""
        self._messages[-1] = message

    def build_above(self) -> None:
        """Make the view above the first one."""
        self._first -= 1
        self._insert(0, self._make_view(self._messages[self._first]))

    def build_below(self) -> None:
        """Make the view below the last one."""
        place = len(self._views)
        self._insert(place, self._make_view(self._messages[self._first + place]))

    def refit(self, view: MessageView) -> None:
        """Lay one view out anew."""
        place = self._views.index(view)
        self._widths[place] = self._width_of(view)
        self._heights[place] = view.fit(self._widths[place])
        self._unordered.add(view)  # its controls may be others now

    def forget_heights(self) -> None:
        """Every height is stale."""
        self._widths = [0] * len(self._views)

    def stale(self, among: Callable[[MessageView], bool]) -> MessageView | None:
        """The last view `among` those asked for whose height is for another width."""
        for view, width in zip(reversed(self._views), reversed(self._widths), strict=True):
            if width != self._width_of(view) and among(view):
                return view
        return None

    def order_keys(self, before: QWidget) -> bool:
        """Let the Tab key go in reading order through the first view that is new, or was laid out anew.

        It comes there from the view above, or from `before`. Returns whether there was such a view.
        """
        place = next((place for place, view in enumerate(self._views) if view in self._unordered), None)
        if place is None:
            return False
        for above in reversed(self._views[:place]):
            if controls := _controls(above):
                before = controls[-1]
                break
        for control in _controls(self._views[place]):
            QWidget.setTabOrder(before, control)
            before = control
        self._unordered.remove(self._views[place])
        return True

    def place(self, across: int) -> int:
        """Put every view where it belongs, in the middle of `across` pixels; returns the height of all."""
        top = MARGIN
        for view, height, width in zip(self._views, self._heights, self._widths, strict=True):
            view.setGeometry((across - width) // 2, top, width, height)
            top += height + GAP
        return top

    def _insert(self, place: int, view: MessageView) -> None:
        self._views.insert(place, view)
        self._widths.insert(place, self._width_of(view))
        self._heights.insert(place, view.fit(self._widths[place]))
        self._unordered.add(view)
        view.show()

    def _cut(self, length: int) -> None:
        """Let go of all views but the first `length`."""
        for view in self._views[length:]:
            for signal in (view.height_changed, view.drafted):  # it may still be building, or hold an editor
                signal.disconnect()
            view.hide()
            for column in view.findChildren(BlockColumn):
                self._former += column.release()
        self._unordered.difference_update(self._views[length:])
        self._former += self._views[length:]
        self._ending.start()
        del self._views[length:], self._heights[length:], self._widths[length:]

    @Slot()
    def _end_some(self) -> None:
        for view in self._former[:MOST_DELETED]:
            view.deleteLater()
        del self._former[:MOST_DELETED]
        if not self._former:
            self._ending.stop()


def _controls(view: MessageView) -> list[QWidget]:
    """What the Tab key reaches in a view, in reading order."""
    found = [child for child in view.findChildren(QWidget) if child.focusPolicy() & Qt.FocusPolicy.TabFocus]

    def place(control: QWidget) -> tuple[int, int]:
        corner = control.mapTo(view, QPoint(0, control.height()))
        return corner.y(), corner.x()

    return sorted(found, key=place)
