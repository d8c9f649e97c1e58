"""Shortage of memory as the system tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import pressure


@pytest.mark.parametrize(
    ("available", "expected"), [("1000000 kB", True), ("1300000 kB", False), ("9000000 kB", False)]
)
def test_linux_is_short_below_a_twentieth(available: str, expected: bool, tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(
        f"MemTotal:       24000000 kB\nMemFree: 5 kB\nMemAvailable:  {available}\nHugePages_Total: 0\n"
    )
    assert pressure._linux_has_little(meminfo) is expected


def test_a_system_that_says_nothing_is_not_short(tmp_path: Path) -> None:
    assert not pressure._linux_has_little(tmp_path / "absent")
    (tmp_path / "empty").write_text("")
    assert not pressure._linux_has_little(tmp_path / "empty")


def test_this_machine_answers() -> None:
    assert pressure.is_short_of_memory() in (True, False)
