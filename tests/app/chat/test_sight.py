"""What is seen of a stack of messages: views of 100 pixels, 24 apart, through a viewport of 300."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QFrame, QScrollArea
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat.message_stack import MessageStack
from app.chat.message_view import MessageView
from app.chat.sight import Sight
from app.chat.tree import Versions
from app.store.records import ChatMessage

WIDTH, PAGE, HEIGHT = 400, 300, 100


class Plate(MessageView):
    """A message that is as high at any width."""

    def fit(self, width: int) -> int:
        return HEIGHT


class Scene:
    """Ten messages of which those from `first` up to `end` are built, seen from `top` on."""

    def __init__(self, appearance: Appearance) -> None:
        self.area = QScrollArea()
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.resize(WIDTH, PAGE)
        self.stack = MessageStack(lambda message: self.plate(message, appearance), lambda view: WIDTH)
        self.area.setWidget(self.stack)
        self.sight = Sight(self.area, self.stack)
        self.messages = [ChatMessage("c", "user", str(number)) for number in range(10)]

    def plate(self, message: ChatMessage, appearance: Appearance) -> Plate:
        plate = Plate(message, appearance, Versions(), self.stack)
        for signal in (plate.height_changed, plate.drafted):  # the stack lets go of whoever listens
            signal.connect(lambda *_: None)
        return plate

    def build(self, first: int, end: int, top: int = 0) -> None:
        self.stack.restart(self.messages[:end])
        for _ in range(end - first):
            self.stack.build_above()
        if end < len(self.messages):
            self.stack.change_end(self.messages)
        self.stack.resize(WIDTH, self.stack.place(WIDTH))
        self.area.verticalScrollBar().setValue(top)


@pytest.fixture
def scene(qtbot: QtBot, appearance: Appearance) -> Scene:
    scene = Scene(appearance)
    qtbot.addWidget(scene.area)
    scene.area.show()
    return scene


def seen(scene: Scene) -> list[str]:
    return [view.message.text for view in scene.stack.views if scene.sight.includes(view)]


def test_nothing_is_seen_of_an_empty_stack(scene: Scene) -> None:
    sight = scene.sight
    assert (sight.first, sight.lacks_above, sight.lacks_below, sight.at_end) == (None, False, False, True)


@pytest.mark.parametrize(
    ("top", "texts"),
    [(0, ["0", "1", "2"]), (123, ["0", "1", "2", "3"]), (124, ["1", "2", "3"]), (300, ["2", "3", "4"])],
)
def test_a_view_is_seen_from_its_first_pixel_to_its_last(scene: Scene, top: int, texts: list[str]) -> None:
    scene.build(0, 10, top)
    assert seen(scene) == texts
    assert scene.sight.first is scene.stack.views[int(texts[0])]


def test_what_is_near_above_is_to_be_built_and_what_is_further_is_not(scene: Scene) -> None:
    scene.build(1, 10, 449)
    assert scene.sight.lacks_above
    scene.build(1, 10, 450)
    assert not scene.sight.lacks_above
    scene.build(0, 10)
    assert not scene.sight.lacks_above  # there is nothing


def test_what_is_near_below_is_to_be_built_and_what_is_further_is_not(scene: Scene) -> None:
    scene.build(0, 7)  # the views end at 868, and 750 from the top on are kept built
    assert not scene.sight.lacks_below
    scene.build(0, 7, 118)
    assert not scene.sight.lacks_below
    scene.build(0, 7, 119)
    assert scene.sight.lacks_below
    scene.build(0, 10, 900)
    assert not scene.sight.lacks_below  # there is nothing


def test_the_end_is_where_the_last_message_ends_give_or_take_eight_pixels(scene: Scene) -> None:
    scene.build(0, 10)
    end = scene.area.verticalScrollBar().maximum()
    assert end > 0
    for top, is_at_end in ((end, True), (end - 8, True), (end - 9, False)):
        scene.area.verticalScrollBar().setValue(top)
        assert scene.sight.at_end is is_at_end
    scene.build(0, 7, 10_000)
    assert not scene.sight.at_end  # of what is built, not of what there is
