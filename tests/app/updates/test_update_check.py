"""Updates as the window sees them: asked when that is wanted, quiet otherwise, never in the window's way."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from nacl.signing import SigningKey
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import VERSION
from app.appearance import Appearance
from app.bridge import FrameQueue
from app.models.background import Background
from app.updates.channel import RELEASES, Channel
from app.updates.envelope import sealed
from app.updates.manifest import Manifest, encoded
from app.updates.memory import MemoryFile
from app.updates.update_check import UpdateCheck
from app.updates.updates_section import UpdatesSection
from app.updates.words import CANNOT, NEVER, NOTE
from tests.app.updates.conftest import MANIFEST, Site


class Checked:
    """An UpdateCheck with what it told."""

    def __init__(self, updates: UpdateCheck, queue: FrameQueue) -> None:
        self.updates = updates
        self.queue = queue
        self.wanted = False
        self.found: list[Manifest] = []
        self.updated = 0
        updates.found.connect(self.found.append)
        updates.updated.connect(self._note_update)

    def _note_update(self) -> None:
        self.updated += 1


@pytest.fixture
def checked(
    application: QApplication, channel: Channel, memory: MemoryFile, trusted: ssl.SSLContext
) -> Iterator[Checked]:
    queue = FrameQueue()
    background = Background("test-updates", queue.post)
    updates = UpdateCheck(channel, memory, background, lambda: checked.wanted, trusted)
    checked = Checked(updates, queue)
    yield checked
    updates.stop()
    assert background.close(10)
    queue.close()


def settled(checked: Checked, qtbot: QtBot) -> None:
    """Wait until all that was asked of the background is told."""
    done: list[bool] = []
    checked.updates._background.ask(lambda: None, lambda _: done.append(True), lambda _: None)
    qtbot.waitUntil(lambda: bool(done))


def test_nobody_is_asked_unless_that_is_wanted(checked: Checked, site: Site, qtbot: QtBot) -> None:
    checked.updates.start()
    settled(checked, qtbot)
    assert site.asked == []
    assert checked.updates.state.words == NEVER


def test_once_a_day_where_it_is_wanted(
    checked: Checked, site: Site, memory: MemoryFile, qtbot: QtBot
) -> None:
    checked.wanted = True
    checked.updates.start()
    settled(checked, qtbot)
    assert checked.found == [MANIFEST]
    assert checked.updates.state.phase == "newer"
    for _ in range(3):
        checked.updates.look_if_due()
    settled(checked, qtbot)
    assert len(site.asked) == 1
    memory.note(asked=datetime.now(UTC) - timedelta(days=1))
    checked.updates.look_if_due()
    settled(checked, qtbot)
    assert len(site.asked) == 2


def test_without_a_network_it_is_quiet_until_somebody_asks(
    checked: Checked, site: Site, qtbot: QtBot, key: SigningKey
) -> None:
    checked.wanted = True
    site.status = 500
    checked.updates.start()
    settled(checked, qtbot)
    assert (checked.updates.state.phase, checked.updates.state.words) == ("unknown", NEVER)
    checked.updates.look()
    settled(checked, qtbot)
    assert checked.updates.state.phase == "failed"
    assert "HTTP 500" in checked.updates.state.words
    assert checked.found == []


def test_asked_by_hand_it_answers_also_within_the_day(checked: Checked, site: Site, qtbot: QtBot) -> None:
    for _ in range(2):
        checked.updates.look()
        settled(checked, qtbot)
    assert len(site.asked) == 2
    assert checked.found == []  # whoever asked looks at the answer
    assert "MLXR 0.2.0 is available" in checked.updates.state.words


def test_the_newest_is_told_to_be_that(checked: Checked, site: Site, key: SigningKey, qtbot: QtBot) -> None:
    site.body = sealed(encoded(replace(MANIFEST, version=VERSION)), [key])
    checked.updates.look()
    settled(checked, qtbot)
    assert checked.updates.state.phase == "current"
    assert checked.updates.state.words.startswith("This is the newest version, as of 22 November 2026")


def test_a_slow_server_does_not_hold_up_the_window(checked: Checked, site: Site, qtbot: QtBot) -> None:
    site.gate.clear()
    checked.updates.look()
    checked.updates.look()  # impatience is no second question
    assert checked.updates.state.phase == "asking"
    qtbot.waitUntil(lambda: len(site.asked) == 1)
    site.gate.set()
    qtbot.waitUntil(lambda: checked.updates.state.phase == "newer")
    assert len(site.asked) == 1


@pytest.mark.parametrize(("ran", "times"), [("", 0), ("0.0.9", 1), (VERSION, 0), ("99.0.0", 0)])
def test_an_update_is_told_once(
    checked: Checked, memory: MemoryFile, qtbot: QtBot, ran: str, times: int
) -> None:
    memory.note(ran=ran)
    checked.updates.start()
    checked.updates.start()
    settled(checked, qtbot)
    assert checked.updated == times
    assert memory.read().ran == VERSION


def test_what_was_found_before_is_told_again(checked: Checked, memory: MemoryFile, qtbot: QtBot) -> None:
    memory.note(asked=datetime.now(UTC), newest="0.2.0")
    checked.updates.start()
    settled(checked, qtbot)
    assert checked.updates.state.words == "MLXR 0.2.0 is available."


def test_a_build_without_a_key_says_so_and_asks_nobody(memory: MemoryFile, application: QApplication) -> None:
    background = Background("test-updates", lambda call: None)
    updates = UpdateCheck(RELEASES, memory, background, lambda: True)
    updates.look()
    updates.look_if_due()
    assert not background.is_running
    assert (updates.state.words, updates.can_check) == (CANNOT, False)


@pytest.mark.parametrize("can_check", [True, False])
def test_the_setting_is_offered_where_it_can_be_kept(
    appearance: Appearance, qtbot: QtBot, *, can_check: bool
) -> None:
    section = UpdatesSection(appearance, "off", can_check=can_check)
    qtbot.addWidget(section)
    told: list[str] = []
    section.chosen.connect(told.append)
    section.switch.click()
    section.switch.click()
    assert told == (["on", "off"] if can_check else [])
    assert section.note.text() == (NOTE if can_check else CANNOT)
