"""Pieces that several threads compute: each kept once, whoever is slow, and nobody is waited for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from threading import Barrier, Event, current_thread, get_native_id, main_thread

import numpy as np
import pytest

from engine.cpu.crew import Crew
from engine.cpu.gate import Gate

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="gates are Linux's")


def kept_by(crew: Crew, pieces: int, compute: Callable[[int], int], most: int = 8) -> dict[int, int]:
    """What was kept of each piece."""
    kept = dict[int, int]()

    def keep(piece: int, computed: int) -> None:
        assert piece not in kept
        kept[piece] = computed

    crew.each(pieces, compute, keep, most=most)
    return kept


def meeting(crew: Crew, tell: Callable[[], int]) -> set[int]:
    """What its threads tell, each at a piece, while all of them are."""
    all_there, begun, told = Barrier(crew.size), set[int](), set[int]()

    def compute(piece: int) -> int:
        if piece not in begun:  # else somebody is at it who has told already
            begun.add(piece)
            all_there.wait(60)
            told.add(tell())
        return piece

    kept_by(crew, crew.size, compute)
    crew.start()  # all are at rest
    return told


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("pieces", [0, 1, 2, 3, 100])
def test_each_piece_is_kept_once(size: int, pieces: int) -> None:
    crew = Crew(size)
    for _ in range(20):
        assert kept_by(crew, pieces, lambda piece: piece**2) == {n: n**2 for n in range(pieces)}


def test_as_many_threads_as_it_has_compute_at_the_same_time() -> None:
    assert len(meeting(Crew(3), get_native_id)) == 3


def test_who_is_slow_is_not_waited_for_and_changes_nothing_later() -> None:
    crew, may_go_on, is_through, at_it = Crew(2), Event(), Event(), Event()

    def compute(piece: int) -> int:
        if current_thread() is not main_thread():
            at_it.set()
            may_go_on.wait(60)
            is_through.set()
            return -1
        at_it.wait(60)
        return piece

    kept = kept_by(crew, 4, compute)
    assert kept == {0: 0, 1: 1, 2: 2, 3: 3}
    may_go_on.set()
    assert is_through.wait(60)
    crew.start()  # its thread is at rest behind it
    assert kept == {0: 0, 1: 1, 2: 2, 3: 3}


def test_who_has_not_begun_when_all_is_kept_is_called_off() -> None:
    crew, may_go_on, begun = Crew(2), Event(), list[int]()
    at_it = Event()

    def slow(_piece: int) -> int:
        if current_thread() is main_thread():
            at_it.wait(60)
        else:
            at_it.set()
            may_go_on.wait(60)
        return 0

    kept_by(crew, 2, slow)  # its helper is still at it
    kept_by(crew, 3, lambda piece: begun.append(get_native_id()) or piece)
    assert begun == [get_native_id()] * 3
    may_go_on.set()
    crew.start()
    assert len(begun) == 3


def test_what_a_piece_raises_is_raised_where_it_was_asked_for() -> None:
    def compute(piece: int) -> int:
        if piece == 5:
            raise MemoryError("no memory for a piece")
        return piece

    crew = Crew(3)
    with pytest.raises(MemoryError, match="no memory for a piece"):
        kept_by(crew, 8, compute)
    assert len(kept_by(crew, 8, lambda piece: piece)) == 8


def test_what_broke_for_a_helper_alone_is_computed_again() -> None:
    at_it = Event()

    def compute(piece: int) -> int:
        if current_thread() is main_thread():
            at_it.wait(60)
            return piece
        at_it.set()
        raise MemoryError("no memory for a helper")

    assert kept_by(Crew(2), 4, compute) == {0: 0, 1: 1, 2: 2, 3: 3}


@on_linux
def test_who_helps_waits_while_the_gate_is_closed_and_who_asks_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.cpu.crew._HELD", 60.0)
    gate = Gate()
    crew, at_it, went_on = Crew(2, gate), Event(), Event()

    def compute(piece: int) -> int:
        if current_thread() is main_thread():
            at_it.wait(60)
            crew.give_way()
            return piece
        gate.close()
        at_it.set()
        crew.give_way()
        went_on.set()
        return piece

    assert kept_by(crew, 2, compute) == {0: 0, 1: 1}
    assert not went_on.is_set()
    gate.open()
    assert went_on.wait(60)


@on_linux
def test_who_is_forgotten_goes_on() -> None:
    gate = Gate()
    crew = Crew(2, gate)
    crew.start()
    gate.close()
    assert meeting(crew, get_native_id) - {get_native_id()}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a single thread step back")
def test_its_threads_leave_the_processors_to_others() -> None:
    usual = os.sched_getscheduler(0)
    assert meeting(Crew(2), lambda: os.sched_getscheduler(0)) == {usual, os.SCHED_IDLE}


def test_products_of_numpy_use_the_thread_that_asks() -> None:
    Crew(2)
    libraries = _numpys()
    assert all(library["num_threads"] == 1 for library in libraries)
    assert libraries or sys.platform != "linux"


def _numpys() -> list[dict[str, object]]:
    from threadpoolctl import threadpool_info  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    np.ones((2, 2)) @ np.ones((2, 2))
    return [info for info in threadpool_info() if str(info["prefix"]).startswith("libscipy")]


def test_who_asks_begins_with_the_first_and_who_helps_with_the_last() -> None:
    crew, both_begun = Crew(2), Barrier(2)
    begun: dict[bool, list[int]] = {True: [], False: []}

    def compute(piece: int) -> int:
        pieces = begun[current_thread() is main_thread()]
        pieces.append(piece)
        if len(pieces) == 1:
            both_begun.wait(60)
        return piece

    assert len(kept_by(crew, 6, compute)) == 6
    crew.start()  # all are at rest
    assert (begun[True][0], begun[False][0]) == (0, 5)
    assert sorted(begun[False]) == begun[False][::-1]


def test_what_a_piece_raises_is_no_end_of_pieces() -> None:
    def compute(_piece: int) -> int:
        raise IndexError("of its own")

    with pytest.raises(IndexError, match="of its own"):
        kept_by(Crew(1), 3, compute)
