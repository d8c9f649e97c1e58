"""The line on the disk cache says what the engine has said."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from app import text
from app.chat.disk_use import DiskUseViewModel
from engine import CacheCounts, ModelUnloaded, Stats


def stats(held: int, written: int, problem: str = "") -> Stats:
    cache = CacheCounts(ssd_bytes=held, spilled_bytes_today=written, ssd_problem=problem)
    return Stats("", 0, 0, 0.0, 0.0, 0, 512, 0, 0, cache=cache)


def test_before_the_first_stats_nothing_is_claimed(qtbot: QtBot) -> None:
    assert DiskUseViewModel(in_use=True).words == "On disk now: – · written today (UTC): –"


def test_the_newest_stats_are_told_once(qtbot: QtBot) -> None:
    use = DiskUseViewModel(in_use=True)
    told: list[str] = []
    use.changed.connect(told.append)
    for event in (stats(0, 0), stats(2_100_000_000, 340_000_000), stats(2_100_000_000, 340_000_000)):
        use.handle(event)
    use.handle(ModelUnloaded("/models/tiny"))
    assert told == [
        "On disk now: nothing · written today (UTC): nothing",
        "On disk now: 2.1 GB · written today (UTC): 340 MB",
    ]
    assert use.words == told[-1]


def test_why_nothing_is_written_is_said_and_taken_back(qtbot: QtBot) -> None:
    use = DiskUseViewModel(in_use=True)
    use.handle(stats(2_100_000, 0, "No space left on device"))
    assert use.words.splitlines()[1:] == ["Nothing is written at present: No space left on device"]
    use.handle(stats(2_100_000, 0))
    assert use.words.splitlines() == ["On disk now: 2.1 MB · written today (UTC): nothing"]


def test_an_engine_without_a_disk_cache_knows_nothing_of_it(qtbot: QtBot) -> None:
    use = DiskUseViewModel(in_use=False)
    use.handle(stats(0, 0))
    assert use.words == text.DISK_UNUSED
