"""The settings of what chats have computed, by clicks."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.settings import KvCache, Settings
from app.settings import Switch as OnOff
from app.widgets.cache_section import CacheSection


def make(qtbot: QtBot, appearance: Appearance, ssd: OnOff = "on", kv: KvCache = "full") -> CacheSection:
    section = CacheSection(appearance, Settings(ssd_cache=ssd, kv_cache=kv))
    qtbot.addWidget(section)
    section.resize(460, section.sizeHint().height())
    section.show()
    return section


@pytest.mark.parametrize(("now", "wished"), [("on", "off"), ("off", "on")])
def test_the_disk_is_switched(qtbot: QtBot, appearance: Appearance, now: OnOff, wished: OnOff) -> None:
    section = make(qtbot, appearance, ssd=now)
    assert section.disk_cache.isChecked() == (now == "on")
    with qtbot.waitSignal(section.disk_cache_chosen) as chosen:
        qtbot.mouseClick(section.disk_cache, Qt.MouseButton.LeftButton, pos=QPoint(10, 10))
    assert chosen.args == [wished]
    assert section.disk_cache.isChecked() == (wished == "on")


@pytest.mark.parametrize(("now", "wished"), [("full", "8"), ("8", "4"), ("4", "full")])
def test_bits_are_chosen(qtbot: QtBot, appearance: Appearance, now: KvCache, wished: KvCache) -> None:
    section = make(qtbot, appearance, kv=now)
    assert section.kv_cache.current == now
    button = section.kv_cache.button(wished)
    with qtbot.waitSignal(section.kv_cache_chosen) as chosen:
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton, pos=QPoint(10, button.height() // 2))
    assert chosen.args == [wished]
    assert section.kv_cache.current == wished


def test_the_use_of_the_disk_is_shown(qtbot: QtBot, appearance: Appearance) -> None:
    section = make(qtbot, appearance)
    section.show_disk_use("On disk now: 2.1 GB")
    assert section.disk_use == "On disk now: 2.1 GB"
