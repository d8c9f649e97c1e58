"""Cyclic garbage is collected on the GUI thread."""

from __future__ import annotations

import gc
import threading
import weakref

from pytestqt.qtbot import QtBot

from app.garbage import GarbageCollector


class Cycle:
    """Garbage that only the collector can free; notes where it was freed."""

    def __init__(self, freed: list[int]) -> None:
        self.me = self
        weakref.finalize(self, lambda: freed.append(threading.get_ident()))


def test_garbage_made_on_another_thread_dies_on_this_one(qtbot: QtBot) -> None:
    collector = GarbageCollector()
    collector.start()
    freed: list[int] = []

    def litter() -> None:
        for _ in range(5000):
            Cycle(freed)

    worker = threading.Thread(target=litter)
    worker.start()
    worker.join()
    assert freed == []
    qtbot.waitUntil(lambda: len(freed) == 5000)
    assert set(freed) == {threading.get_ident()}
    collector.stop()
    assert gc.isenabled()
