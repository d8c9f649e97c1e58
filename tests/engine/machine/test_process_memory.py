"""The memory of this process, against what the system says elsewhere and a structure laid out by hand."""

from __future__ import annotations

import mmap
import re
import struct
import sys
from pathlib import Path

import pytest

from engine.machine.process_memory import LOOK_EVERY, MemoryLook, footprint_in, process_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_it_is_what_status_says() -> None:
    before = process_bytes()
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    assert before == pytest.approx(1024 * int(found[1]), rel=0.05)


def test_it_grows_with_what_is_touched() -> None:
    before = process_bytes()
    with mmap.mmap(-1, 64 << 20) as block:  # which is new; what was freed before may be there still
        block.write(b"\x01" * len(block))
        assert process_bytes() - before > 48 << 20


def test_the_footprint_is_the_eighth_number_behind_the_uuid() -> None:
    info = bytearray(96)
    struct.pack_into("<Q", info, 16 + 7 * 8, 123_456_789)
    assert footprint_in(bytes(info)) == 123_456_789


def test_the_system_is_asked_once_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def count() -> int:
        asked.append(1)
        return len(asked)

    monkeypatch.setattr("engine.machine.process_memory.process_bytes", count)
    look = MemoryLook()
    for now in (5.0, 5.1, 5.0 + LOOK_EVERY - 0.01):
        look.look(now)
    assert look.process_bytes == 1
    look.look(5.0 + LOOK_EVERY)
    assert look.process_bytes == 2
