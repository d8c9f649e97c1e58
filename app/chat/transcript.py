"""The conversation as a scrolling column that builds only the messages near the viewport."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app.appearance import Appearance
from app.chat.answer_view import AnswerView
from app.chat.message_view import MessageView
from app.chat.throttle import Throttle
from app.chat.user_message_view import UserMessageView
from app.store.records import ChatMessage
from app.theme import COLUMN_WIDTH, Theme
from app.widgets.icon_button import IconButton

MARGIN = 24
GAP = 24
NEAR = 1.5  # viewport heights that are kept built above the one on show
SLICE_SECONDS = 0.006
AT_END = 8  # pixels from the end that still count as the end


class Transcript(QScrollArea):
    """Shows messages. It follows the newest one until the user scrolls up."""

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("transcript")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Conversation")
        self._appearance = appearance
        self._column = QWidget()
        self._column.setObjectName("transcriptColumn")
        self.setWidget(self._column)
        self._messages: list[ChatMessage] = []
        self._views: list[MessageView] = []  # of the last len(_views) messages
        self._heights: list[int] = []
        self._widths: list[int] = []  # that each height is for; another one makes it stale
        self._activity = ""
        self._following = True
        self._placing = False
        self._work = QTimer(self)
        self._work.setInterval(0)
        self._work.timeout.connect(self._work_a_slice)
        self._throttle = Throttle(self)
        self._throttle.due.connect(self._show_last)
        self._jump = self._make_jump_button()
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        appearance.changed.connect(self._set_theme)

    @property
    def following(self) -> bool:
        """Whether it stays at the newest words."""
        return self._following

    @property
    def built(self) -> int:
        """How many messages exist as widgets."""
        return len(self._views)

    def show_messages(self, messages: Sequence[ChatMessage]) -> None:
        """Show another conversation, from its end; what is above is built when it is needed."""
        self._throttle.reset()
        for view in self._views:
            view.hide()
            view.deleteLater()
        self._messages = list(messages)
        self._views, self._heights, self._widths = [], [], []
        self._activity = ""
        self._follow(True)
        self._place()
        self._work.start()

    def add(self, message: ChatMessage) -> None:
        """A new message at the end: the conversation jumps there."""
        self._messages.append(message)
        self._build(message, len(self._views))
        self._follow(True)
        self._place()

    def update_last(self, message: ChatMessage) -> None:
        """A newer version of the last message, shown at once, or later when laying it out is slow."""
        self._messages[-1] = message
        if message.status != "streaming":
            self._throttle.reset()
        self._throttle.ask()

    def show_activity(self, activity: str) -> None:
        """Say under the last message what is going on before its first word."""
        self._activity = activity
        if self._views:
            self._views[-1].show_activity(activity)

    @Slot()
    def jump_to_end(self) -> None:
        """Go to the newest words and stay with them."""
        self._follow(True)
        self._place()

    def scroll_pages(self, pages: float) -> None:
        """Scroll by so many viewports; negative is up."""
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + round(pages * bar.pageStep() * 0.9))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """What is on show is laid out at once, the rest in slices."""
        super().resizeEvent(event)
        self._fit_stale(near_only=True)
        self._place()
        self._work.start()

    def _make_jump_button(self) -> IconButton:
        button = IconButton(
            self._appearance, "arrow-down", "Jump to the newest words", colour="text", parent=self
        )
        button.setObjectName("jumpButton")
        button.clicked.connect(self.jump_to_end)
        button.hide()
        return button

    def _build(self, message: ChatMessage, place: int) -> None:
        make = UserMessageView(message, self._column) if message.role == "user" else None
        view = make or AnswerView(message, self._appearance, self._column)
        view.height_changed.connect(lambda: self._refit(view))
        self._views.insert(place, view)
        self._widths.insert(place, self._line_width())
        self._heights.insert(place, view.fit(self._line_width()))
        if self._activity and place == len(self._views) - 1:
            view.show_activity(self._activity)
        view.show()

    def _refit(self, view: MessageView) -> None:
        place = self._views.index(view)
        self._heights[place] = view.fit(self._line_width())
        self._widths[place] = self._line_width()
        self._place()

    @Slot()
    def _show_last(self) -> None:
        if self._views and self._views[-1].message.id == self._messages[-1].id:
            self._views[-1].show_message(self._messages[-1])
            self._refit(self._views[-1])

    def _line_width(self) -> int:
        # Of the whole width, scroll bar or not: nothing moves when one appears.
        return max(120, min(COLUMN_WIDTH, self.width() - 2 * MARGIN))

    def _place(self) -> None:
        """Stack the views, and keep on show what was on show."""
        anchor = None if self._following else self._first_visible()
        anchor_y = anchor.y() - self.verticalScrollBar().value() if anchor else 0
        left = (self.width() - self._line_width()) // 2
        top = MARGIN
        for view, height, width in zip(self._views, self._heights, self._widths, strict=True):
            view.setGeometry(left, top, width, height)
            top += height + GAP
        self._placing = True
        self._column.resize(self.viewport().width(), max(top, self.viewport().height()))
        bar = self.verticalScrollBar()
        if self._following:
            bar.setValue(bar.maximum())
        elif anchor:
            bar.setValue(anchor.y() - anchor_y)
        self._placing = False
        self._jump.move(
            (self.viewport().width() - self._jump.width()) // 2, self.height() - self._jump.height() - 16
        )

    def _first_visible(self) -> MessageView | None:
        value = self.verticalScrollBar().value()
        return next((view for view in self._views if view.y() + view.height() > value), None)

    def _near(self, view: MessageView) -> bool:
        value, page = self.verticalScrollBar().value(), self.viewport().height()
        return view.y() < value + page and view.y() + view.height() > value

    def _stale(self, near_only: bool) -> int | None:
        """The last view whose height is for another width."""
        width = self._line_width()
        for place in reversed(range(len(self._views))):
            if self._widths[place] != width and (not near_only or self._near(self._views[place])):
                return place
        return None

    def _fit_stale(self, near_only: bool) -> None:
        while (place := self._stale(near_only)) is not None:
            self._widths[place] = self._line_width()
            self._heights[place] = self._views[place].fit(self._line_width())

    @Slot()
    def _work_a_slice(self) -> None:
        """Build what is missing above, then lay out what is stale, for part of a frame."""
        until = time.monotonic() + SLICE_SECONDS
        while time.monotonic() < until:
            if self._lacks_above():
                self._build(self._messages[-len(self._views) - 1], 0)
                self._place()
            elif (place := self._stale(near_only=False)) is not None:
                self._refit(self._views[place])
            else:
                self._work.stop()
                return

    def _lacks_above(self) -> bool:
        if len(self._views) == len(self._messages):
            return False
        return self.verticalScrollBar().value() < NEAR * self.viewport().height()

    @Slot()
    def _scrolled(self) -> None:
        if self._placing:
            return
        bar = self.verticalScrollBar()
        self._follow(bar.value() >= bar.maximum() - AT_END)
        if self._lacks_above():
            self._work.start()

    def _follow(self, following: bool) -> None:
        self._following = following
        self._jump.setVisible(not following)

    @Slot(object)
    def _set_theme(self, theme: Theme) -> None:
        for view in self._views:
            view.set_theme(theme)
        self._widths = [0] * len(self._views)
        self._fit_stale(near_only=True)
        self._place()
        self._work.start()
