"""The SSD tier after its process was killed while it spilled: clean, counted right, and never wrong."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.tier import SsdTier
from tests.engine.kv.spilled import IDENTITY, assert_holds, read

KILLS = 200
CAP = 60_000
MOST_CALLS = 4_000
"""Beginnings and ends of system calls after which a child has died."""


class Spillers:
    """Children that spill to `folder`, one at a time, each until it is killed."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.engine.kv.spilling_child", str(folder), str(CAP)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def spill_and_die(self, seed: int, calls: int) -> None:
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{seed} {calls}\n")
        process.stdin.flush()
        assert process.stdout.readline() == f"{-signal.SIGKILL}\n", "it ended in another way"

    def __enter__(self) -> Spillers:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.process.kill()  # its child ends with it
        _, errors = self.process.communicate()
        assert kind is not None or (errors, self.process.returncode) == ("", 0)


def check(folder: Path) -> int:
    """Start on what is there; every file is whole, found and bit-exact. Number of pages served."""
    tier = SsdTier(SsdSettings(folder, CAP, 0), IDENTITY)
    files = list(folder.glob("*/*.safetensors"))
    assert tier.reason == ""
    assert tier.quarantined_files == 0
    assert list(folder.rglob(".*.tmp")) in ([], [folder / ".ledger.json.tmp"])
    assert tier.usage.total_bytes == sum(file.stat().st_size for file in files) <= CAP
    served = 0
    for file in files:
        tokens = tuple(tuple(page) for page in load_file(file)["tokens"].tolist())
        with file.open("rb") as opened:
            header = opened.read(16_384)
        keys = [bytes.fromhex(key) for key in header.split(b'"keys":"')[1].split(b'"')[0].decode().split(",")]
        assert all(tier.find(key) for key in keys)
        assert_holds(read(tier, keys, tokens), keys)
        served += len(keys)
    tier.close(1)
    return served


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_next_start_is_clean_wherever_the_process_was_killed(tmp_path: Path) -> None:
    rng = random.Random(4)
    seen = Counter[str]()
    begin = time.monotonic()
    with Spillers(tmp_path) as spillers:
        for kill in range(KILLS):
            spillers.spill_and_die(kill, rng.randint(1, MOST_CALLS))
            seen["leftovers"] += len(list(tmp_path.glob("*/.*.tmp")))
            seen["pages served"] += check(tmp_path)
            written = sum(path.stat().st_mtime_ns for path in tmp_path.glob("*/*.safetensors"))
            seen["changed"] += written != seen.pop("at", 0)
            seen["at"] = written
    del seen["at"]
    print(f"\n{KILLS} kills in {time.monotonic() - begin:.0f} s: {dict(seen)}")
    assert seen["leftovers"] > 0  # some died in the middle of a write
    assert seen["changed"] > KILLS / 2
    assert seen["pages served"] > 10 * KILLS
