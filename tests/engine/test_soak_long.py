"""Thousands of requests behind each other: memory, files, threads and the SSD cache stay as they were."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from tests.engine.soaking_child import CAP

REQUESTS = 1600
GROWTH = 1.15
"""Most of the process's memory in the second half of the requests, by that in the first: medians, since it
goes up and down by 5 % with what requests there are. Shows 35 kB a request that nobody gives back, not half
a page of the guide's."""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_an_engine_takes_does_not_grow(tmp_path: Path) -> None:
    child = [sys.executable, "-m", "tests.engine.soaking_child", str(tmp_path), str(REQUESTS)]
    played = subprocess.run(child, capture_output=True, text=True, check=False)
    assert played.returncode == 0, played.stderr
    told = [json.loads(line) for line in played.stdout.splitlines()]
    *during, end = told
    print(f"\n{[round(each['memory'] / 1e6) for each in told]} MB, {[each['files'] for each in told]} files")
    memory, half = [each["memory"] for each in during], len(during) // 2
    assert median(memory[half:]) <= GROWTH * median(memory[:half])
    assert max(each["ssd"] for each in told) <= CAP
    assert end["ssd"] > CAP / 4  # it was at its cap, but for chats that were deleted
    assert (end["has_ended"], end["threads"]) == (True, ["MainThread"])
    assert end["files"] <= max(each["files"] for each in during)
