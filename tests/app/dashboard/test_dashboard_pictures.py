"""Pictures of the dashboard with real runs, light and dark, to be looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.dashboard.kernels_pane import KernelsPane
from engine import Generate
from tests.app.conftest import OpenDesktop
from tests.app.dashboard.watched import Watched
from tests.app.test_screenshots import save

SIZES = ((1080, 720), (720, 520))
LONG = 250


@pytest.mark.long
@pytest.mark.parametrize("look", ["light", "dark"])
def test_every_pane_while_answers_are_written(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, look: str
) -> None:
    watched = Watched(open_desktop, qtbot, tmp_path)
    desktop = watched.desktop
    desktop.appearance.choose("light" if look == "light" else "dark")
    chats = [watched.say("What is a page?")]
    desktop.conversation.new_chat()
    chats.append(watched.say("How do I open another model?"))
    desktop.pins.pin(chats[0], True)
    for tab, card in (("Live", "gaps"), ("Live", "memory"), ("Cache", ""), ("Kernels", "")):
        watched.look(tab) if desktop.window.is_chat_shown else watched.page.show_tab(tab)
        for place in range(3):
            tokens = tuple(3 + (11 * step * (place + 1)) % 290 for step in range(60 + 300 * place))
            chat = chats[place] if place < len(chats) else ""
            desktop.engine.submit(
                Generate(f"{tab}{card}{place}", tokens=tokens, max_tokens=LONG, ignore_eos=True, chat=chat)
            )
        watched.wait(lambda: watched.last_stats().running == 3)
        QTest.qWait(800)
        if card:
            watched.live.cards[card].click()
        for size in SIZES:
            desktop.window.resize(*size)
            save(desktop, f"{look}-dashboard-{tab.lower()}{card and '-' + card}-{size[0]}")
        watched.settle()
    (kernels,) = watched.page.findChildren(KernelsPane)
    watched.wait(kernels.profile_button.isEnabled)
    kernels.profile_button.click()
    watched.wait(kernels.profile_table.isVisible)
    for size in SIZES:
        desktop.window.resize(*size)
        save(desktop, f"{look}-dashboard-profile-{size[0]}")
    desktop.window.show_chat()
    save(desktop, f"{look}-dashboard-strip")
