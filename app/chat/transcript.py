"""The conversation as a scrolling column that builds only the messages near the viewport."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app.appearance import Appearance
from app.chat.answer_view import AnswerView
from app.chat.answers_view import AnswersView
from app.chat.edits import Edits
from app.chat.jump_button import JumpButton
from app.chat.message_stack import MessageStack
from app.chat.message_view import MessageView
from app.chat.sight import Sight
from app.chat.surroundings import Surroundings
from app.chat.throttle import Throttle
from app.chat.user_message_view import UserMessageView
from app.store.records import ChatMessage
from app.theme import Theme
from app.widgets.key_frame import KeyFrame

SIDE = 24
SLICE_SECONDS = 0.006
NEW_MESSAGES = 2  # a question and its answer; more of them are built in slices


class Transcript(QScrollArea):
    """Shows messages. It follows the newest one until the user scrolls up or looks at another version.

    Intents, each with a message's id: `edited(id, text, answers)`, `regenerated(id, answers)`, `kept(id)`,
    `branched(id)`, `stepped(id, -1 or 1)`, `way_chosen(id, number)` of its ways out; and `drafted(id, text)`
    while a message is being changed, with ("", "") when that is over.
    """

    edited = Signal(str, str, int)
    regenerated = Signal(str, int)
    kept = Signal(str)
    branched = Signal(str)
    stepped = Signal(str, int)
    way_chosen = Signal(str, int)
    drafted = Signal(str, str)

    def __init__(
        self, appearance: Appearance, around: Surroundings, edits: Edits, parent: QWidget | None = None
    ) -> None:
        """`edits`: of messages that are being changed, also those that are not on show."""
        super().__init__(parent)
        self.setObjectName("transcript")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Conversation")
        self._appearance = appearance
        self._around, self._edits = around, edits
        self._stack = MessageStack(self._make_view, lambda view: view.width_in(self._room()))
        self.setWidget(self._stack)
        self._sight = Sight(self, self._stack)
        self._activity = ""
        self._ready = True
        self._following = True
        self._placing = False
        self._work = QTimer(self)
        self._work.setInterval(0)
        self._work.timeout.connect(self._work_a_slice)
        self._throttle = Throttle(self)
        self._throttle.due.connect(self._show_last)
        self._jump = JumpButton(appearance, self)
        self._jump.clicked.connect(self.jump_to_end)
        KeyFrame(self)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        appearance.changed.connect(self._set_theme)

    @property
    def following(self) -> bool:
        """Whether it stays at the newest words."""
        return self._following

    @property
    def editing(self) -> tuple[str, str] | None:
        """Of the messages on show that are being changed, the one written in last: its new words, its id."""
        return self._edits.newest({message.id for message in self._stack.messages})

    @property
    def built(self) -> int:
        """How many messages exist as widgets."""
        return len(self._stack.views)

    def show_messages(self, messages: Sequence[ChatMessage]) -> None:
        """Show another conversation, from its end; what is above is built when it is needed."""
        self._throttle.reset()
        self._stack.restart(messages)
        self._activity = ""
        self._follow(True)
        self._place()
        self._work.start()

    def show_asked(self, messages: Sequence[ChatMessage]) -> None:
        """The path has a new end, where an answer will be: the conversation jumps there."""
        self._change_end(messages)
        if self._stack.missing_below > NEW_MESSAGES:
            self.show_messages(messages)
            return
        while self._stack.missing_below:
            self._stack.build_below()
        self._follow(True)
        self._place()
        self._work.start()

    def show_switched(self, messages: Sequence[ChatMessage]) -> None:
        """Another version is on show in the place of one; what is above it stays where it is."""
        self._change_end(messages)
        self._follow(False)
        self._stack.build_below()
        self._place()
        self._work.start()

    def update_last(self, message: ChatMessage) -> None:
        """A newer version of the last message, shown at once, or later when laying it out is slow."""
        self._stack.replace_last(message)
        if all(other.status != "streaming" for other in self._around.together(message.id)):
            self._throttle.reset()
            self._work.start()
        self._throttle.ask()

    def show_activity(self, activity: str) -> None:
        """Say under the last message what is going on before its first word."""
        self._activity = activity
        if self._stack.last:
            self._stack.last.show_activity(activity)

    def set_ready(self, ready: bool) -> None:
        """Whether the engine can be asked now."""
        self._ready = ready
        for view in self._stack.views:
            view.set_ready(ready)

    @Slot()
    def jump_to_end(self) -> None:
        """Go to the newest words and stay with them."""
        if self._stack.missing_below:
            activity = self._activity
            self.show_messages(self._stack.messages)
            self._activity = activity
        self._follow(True)
        self._place()

    def edit(self, message_id: str, answers: int) -> None:
        """Open the editor of one of the user's messages, where it is built, to ask for so many answers."""
        self._edits.ask_for(message_id, answers)
        for view in self._stack.views:
            if view.message.id == message_id and isinstance(view, UserMessageView):
                view.start_editing()

    def scroll_pages(self, pages: float) -> None:
        """Scroll by so many viewports; negative is up."""
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + round(pages * bar.pageStep() * 0.9))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """What is on show is laid out at once, the rest in slices."""
        super().resizeEvent(event)
        self._fit_visible()

    def _change_end(self, messages: Sequence[ChatMessage]) -> None:
        self._throttle.reset()
        self._activity = ""
        self._stack.change_end(messages)

    def _make_view(self, message: ChatMessage) -> MessageView:
        view = self._new_view(message)
        view.set_ready(self._ready)
        view.offer(self._around.ways_out(message.id))
        if message is self._stack.messages[-1]:
            view.show_activity(self._activity)  # before it is listened to: it has no place yet
        words = self._edits.words(message.id)
        if words is not None and isinstance(view, UserMessageView):
            view.show_editor(words)
        view.height_changed.connect(lambda: self._refit(view))
        view.edited.connect(lambda words: self._send_edit(view, words))
        view.regenerated.connect(lambda answers: self.regenerated.emit(view.message.id, answers))
        view.kept.connect(self.kept)
        view.way_chosen.connect(lambda number: self.way_chosen.emit(view.message.id, number))
        view.branched.connect(lambda: self.branched.emit(view.message.id))
        view.stepped.connect(lambda step: self._step(view, step))
        view.drafted.connect(lambda words: self._draft(view, words))
        return view

    def _new_view(self, message: ChatMessage) -> MessageView:
        if message is self._stack.messages[-1] and len(self._around.together(message.id)) > 1:
            return AnswersView(message, self._appearance, self._around.together, self._stack)
        make = UserMessageView if message.role == "user" else AnswerView
        return make(message, self._appearance, self._around.versions(message.id), self._stack)

    def _step(self, view: MessageView, step: int) -> None:
        place, by_key = self._stack.views.index(view), view.switch.is_focused
        self.stepped.emit(view.message.id, step)
        if by_key:  # the next press goes on from the version that is there now
            self._stack.views[place].switch.take_focus(step)

    def _send_edit(self, view: MessageView, words: str) -> None:
        old = view.message.id
        self.edited.emit(old, words, self._edits.answers(old))
        self._edits.drop(old)  # a kill between the two leaves them twice, and not lost

    def _draft(self, view: MessageView, words: str | None) -> None:
        if words is None:
            self._edits.drop(view.message.id)
            self.drafted.emit("", "")
            return
        self._edits.write(view.message.id, words)
        self._follow(False)
        self._refit(view)
        self.ensureWidgetVisible(view, 0, SIDE)
        self.drafted.emit(view.message.id, words)

    def _refit(self, view: MessageView) -> None:
        self._stack.refit(view)
        self._place()
        self._work.start()

    @Slot()
    def _show_last(self) -> None:
        view = self._stack.last
        if view:
            view.show_message(self._stack.messages[-1])
            view.offer(self._around.ways_out(view.message.id))
            self._stack.refit(view)
            self._place()

    def _room(self) -> int:
        # Of the whole width, scroll bar or not: nothing moves when one appears.
        return max(120, self.width() - 2 * SIDE)

    def _place(self) -> None:
        """Stack the views, and keep on show what was on show."""
        anchor = None if self._following else self._sight.first
        anchor_y = anchor.y() - self.verticalScrollBar().value() if anchor else 0
        height = self._stack.place(self.width())
        bar, page = self.verticalScrollBar(), self.viewport().height()
        if self._stack.missing_below:  # what is not there yet has its room: a short column would scroll
            height = max(height, bar.value() + page)
        self._placing = True
        self._stack.resize(self.viewport().width(), max(height, page))
        if self._following:
            bar.setValue(bar.maximum())
        elif anchor:
            bar.setValue(anchor.y() - anchor_y)
        self._placing = False
        self._show_jump()
        self._jump.place(self.viewport().width(), self.height())

    def _fit_visible(self) -> None:
        while (view := self._stack.stale(self._sight.includes)) is not None:
            self._stack.refit(view)
        self._place()
        self._work.start()  # the rest

    @Slot()
    def _work_a_slice(self) -> None:
        """Build what is missing, then lay out what is stale, for part of a frame."""
        until = time.monotonic() + SLICE_SECONDS
        while time.monotonic() < until:
            if self._sight.lacks_above:
                self._stack.build_above()
                self._place()
            elif self._sight.lacks_below:
                self._stack.build_below()
                self._place()
            elif (view := self._stack.stale(lambda _: True)) is not None:
                self._refit(view)
            elif not self._stack.order_keys(self):
                self._work.stop()
                self._follow(self._following or self._sight.at_end)
                return

    @Slot()
    def _scrolled(self) -> None:
        if self._placing:
            return
        self._follow(self._sight.at_end)
        if self._sight.lacks_above or self._sight.lacks_below:
            self._work.start()

    def _follow(self, following: bool) -> None:
        self._following = following
        self._show_jump()

    def _show_jump(self) -> None:
        self._jump.setVisible(not self._following and not self._sight.at_end)

    @Slot(object)
    def _set_theme(self, theme: Theme) -> None:
        for view in self._stack.views:
            view.set_theme(theme)
        self._stack.forget_heights()
        self._fit_visible()
