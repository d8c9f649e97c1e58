"""Lanes: as many as there are now, whoever waits."""

from __future__ import annotations

import threading

import pytest

from app.downloads.lanes import MOST, Crowded, Lanes
from app.downloads.stop import Stop, Stopped
from app.settings import SETTINGS


def test_who_waits_goes_on_when_there_is_room_and_who_is_too_many_hears_of_it() -> None:
    lanes, stop, inside = Lanes(1), Stop(), threading.Semaphore(0)
    leave = threading.Event()

    def work() -> None:
        with lanes.taken(stop):
            inside.release()
            leave.wait(10)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert inside.acquire(timeout=10)
    assert not inside.acquire(timeout=0.05), "two in one lane"
    lanes.check()
    lanes.set_count(2)
    assert inside.acquire(timeout=10)
    assert not inside.acquire(timeout=0.05)
    lanes.set_count(1)
    with pytest.raises(Crowded):
        lanes.check()
    leave.set()
    assert inside.acquire(timeout=10), "nobody was told of the free lane"
    for thread in threads:
        thread.join(10)
    lanes.check()


def test_a_stop_ends_the_wait() -> None:
    lanes, stop, ended = Lanes(1), Stop(), threading.Event()

    def wait() -> None:
        with pytest.raises(Stopped), lanes.taken(stop):
            pass
        ended.set()

    with lanes.taken(Stop()):
        thread = threading.Thread(target=wait)
        thread.start()
        stop.ask()
        assert ended.wait(10)
    thread.join(10)
    with lanes.taken(Stop()):
        pass


@pytest.mark.parametrize("count", [0, -1, MOST + 1])
def test_a_number_that_makes_no_sense_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="from 1 to"):
        Lanes(count)


def test_every_choice_of_the_settings_is_possible() -> None:
    for choice in SETTINGS["files_at_once"].choices:
        assert Lanes(int(choice)).count == int(choice)
