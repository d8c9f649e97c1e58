"""What of a stack of messages is seen through its scroll area, and whether enough is built around that."""

from __future__ import annotations

from PySide6.QtWidgets import QScrollArea

from app.chat.message_stack import MessageStack
from app.chat.message_view import MessageView

NEAR = 1.5  # viewport heights that are kept built above and below the one on show
AT_END = 8  # pixels from the end that still count as the end


class Sight:
    """Where the viewport of `area` stands on the views of `stack`, which it scrolls. It changes neither."""

    def __init__(self, area: QScrollArea, stack: MessageStack) -> None:
        self._area, self._stack = area, stack

    @property
    def first(self) -> MessageView | None:
        """The topmost view of which something is seen; None where there is none."""
        return next((view for view in self._stack.views if view.y() + view.height() > self._top), None)

    def includes(self, view: MessageView) -> bool:
        """Whether something of this view is seen."""
        return view.y() < self._top + self._page and view.y() + view.height() > self._top

    @property
    def lacks_above(self) -> bool:
        """Whether messages above the views are so near that they should have some too."""
        return self._stack.lacks_above and self._top < NEAR * self._page

    @property
    def lacks_below(self) -> bool:
        """Whether messages below the views are so near that they should have some too."""
        views = self._stack.views
        end = views[-1].y() + views[-1].height() if views else 0
        return bool(self._stack.missing_below) and end < self._top + (1 + NEAR) * self._page

    @property
    def at_end(self) -> bool:
        """Whether the end of the last message is seen, or nearly."""
        return (
            not self._stack.missing_below and self._top >= self._area.verticalScrollBar().maximum() - AT_END
        )

    @property
    def _top(self) -> int:
        return self._area.verticalScrollBar().value()

    @property
    def _page(self) -> int:
        return self._area.viewport().height()
