"""The messages of a conversation and the run of them that exist as widgets, with their heights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QWidget

from app.chat.message_view import MessageView
from app.store.records import ChatMessage

MARGIN = 24
GAP = 24


class MessageStack(QWidget):
    """Holds the messages and the views of some. Which ones there should be is not its affair.

    `make_view` makes the view of a message.
    """

    def __init__(self, make_view: Callable[[ChatMessage], MessageView]) -> None:
        super().__init__()
        self.setObjectName("transcriptColumn")
        self._make_view = make_view
        self._messages: list[ChatMessage] = []
        self._first = 0  # message that has a view
        self._views: list[MessageView] = []
        self._heights: list[int] = []
        self._widths: list[int] = []  # that each height is for; another one makes it stale

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
        """Take messages that may differ from some place on; the views from there on go."""
        pairs = zip(self._messages, messages, strict=False)
        common = next(
            (place for place, (old, new) in enumerate(pairs) if old.id != new.id),
            min(len(self._messages), len(messages)),
        )
        self._cut(max(0, common - self._first))
        self._first = min(self._first, common)
        self._messages = list(messages)

    def replace_last(self, message: ChatMessage) -> None:
        """Take a newer version of the last message; its view is not told."""
        self._messages[-1] = message

    def build_above(self, width: int) -> None:
        """Make the view above the first one."""
        self._first -= 1
        self._insert(0, self._make_view(self._messages[self._first]), width)

    def build_below(self, width: int) -> None:
        """Make the view below the last one."""
        place = len(self._views)
        self._insert(place, self._make_view(self._messages[self._first + place]), width)

    def refit(self, view: MessageView, width: int) -> None:
        """Lay one view out anew."""
        place = self._views.index(view)
        self._heights[place] = view.fit(width)
        self._widths[place] = width

    def forget_heights(self) -> None:
        """Every height is stale."""
        self._widths = [0] * len(self._views)

    def stale(self, width: int, among: Callable[[MessageView], bool]) -> MessageView | None:
        """The last view `among` those asked for whose height is for another width."""
        for place in reversed(range(len(self._views))):
            if self._widths[place] != width and among(self._views[place]):
                return self._views[place]
        return None

    def order_keys(self, before: QWidget) -> None:
        """Let the Tab key go from `before` through the controls of the views in reading order."""
        for view in self._views:
            for control in _controls(view):
                QWidget.setTabOrder(before, control)
                before = control

    def place(self, left: int) -> int:
        """Put every view where it belongs; returns the height of all."""
        top = MARGIN
        for view, height, width in zip(self._views, self._heights, self._widths, strict=True):
            view.setGeometry(left, top, width, height)
            top += height + GAP
        return top

    def _insert(self, place: int, view: MessageView, width: int) -> None:
        self._views.insert(place, view)
        self._widths.insert(place, width)
        self._heights.insert(place, view.fit(width))
        view.show()

    def _cut(self, length: int) -> None:
        """Let go of all views but the first `length`."""
        for view in self._views[length:]:
            for signal in (view.height_changed, view.drafted):  # it may still be building, or hold an editor
                signal.disconnect()
            view.hide()
            view.deleteLater()
        del self._views[length:], self._heights[length:], self._widths[length:]


def _controls(view: MessageView) -> list[QWidget]:
    """What the Tab key reaches in a view, in reading order."""
    found = [child for child in view.findChildren(QWidget) if child.focusPolicy() & Qt.FocusPolicy.TabFocus]

    def place(control: QWidget) -> tuple[int, int]:
        corner = control.mapTo(view, QPoint(0, control.height()))
        return corner.y(), corner.x()

    return sorted(found, key=place)
