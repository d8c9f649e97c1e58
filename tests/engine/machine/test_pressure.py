"""Shortage of memory as the system tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.machine import pressure


@pytest.mark.parametrize(
    ("available", "more", "expected"),
    [
        ("1000000 kB", 0, True),
        ("1300000 kB", 0, False),
        ("9000000 kB", 0, False),
        ("1300000 kB", 90_000 << 10, False),
        ("1300000 kB", 110_000 << 10, True),
    ],
)
def test_linux_is_short_below_a_twentieth(available: str, more: int, expected: bool, tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(
        f"MemTotal:       24000000 kB\nMemFree: 5 kB\nMemAvailable:  {available}\nHugePages_Total: 0\n"
    )
    assert pressure._linux_has_little(meminfo, more) is expected


def test_a_system_that_says_nothing_is_not_short(tmp_path: Path) -> None:
    assert not pressure._linux_has_little(tmp_path / "absent", 1 << 30)
    (tmp_path / "empty").write_text("")
    assert not pressure._linux_has_little(tmp_path / "empty", 1 << 30)


def test_this_machine_answers() -> None:
    assert pressure.is_short_of_memory() in (True, False)
