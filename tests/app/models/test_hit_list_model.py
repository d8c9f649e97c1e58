"""Ten thousand rows: they come a page at a time, are scrolled without a stall, and never move."""

from __future__ import annotations

import time
from statistics import median

from PySide6.QtCore import QModelIndex
from PySide6.QtWidgets import QListView
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.models.hit_list_model import HitListModel, Listed
from app.models.hit_row import HEIGHT, HitRow

PAGE = 100
ALL = 10_000
FRAME = 1 / 60


def rows(first: int) -> list[Listed]:
    names = range(first, min(first + PAGE, ALL))
    return [Listed(f"maker/model-{number}", f"{number} downloads", label="Gated") for number in names]


def test_ten_thousand_rows_are_fetched_as_they_come_into_view(qtbot: QtBot, appearance: Appearance) -> None:
    model, view = HitListModel(), QListView()
    qtbot.addWidget(view)
    view.setModel(model)
    view.setItemDelegate(HitRow(appearance, view))
    view.setUniformItemSizes(True)
    view.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
    view.resize(380, 600)
    model.more_wanted.connect(lambda: model.grow(rows(model.rowCount())))
    model.restart(rows(0))
    model.set_has_more(True)
    view.show()
    qtbot.waitExposed(view)
    assert model.rowCount() < 4 * PAGE, "all of it was fetched at once"
    steps: list[float] = []
    while model.rowCount() < ALL:
        begun = time.thread_time()
        top = view.indexAt(view.rect().center()).row()
        bar = view.verticalScrollBar()
        bar.setValue(bar.value() + 80 * HEIGHT)
        if bar.value() == bar.maximum():
            model.fetchMore(QModelIndex())
        view.viewport().repaint()
        steps.append(time.thread_time() - begun)
        assert view.indexAt(view.rect().center()).row() >= top
    model.set_has_more(False)
    assert not model.canFetchMore(QModelIndex())
    assert median(steps) < FRAME
    assert [model.listed(model.index(place)).repo for place in (0, 4321, ALL - 1)] == [
        "maker/model-0",
        "maker/model-4321",
        "maker/model-9999",
    ]
