"""Processes that spill for as long as they live: `python -m tests.engine.kv.spilling_child FOLDER CAP`.

One process reads seeds, a line each, and forks a child for each, so that the imports are paid once. The child
writes its process id and "spilling"; when it is dead "dead" is written.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from engine.kv.page_data import ROOT_KEY
from engine.kv.ssd_settings import SsdSettings
from engine.kv.ssd_tier import SsdTier
from tests.engine.kv.spilled import IDENTITY, assert_holds, pages, read, spilled


def spill_forever(folder: Path, cap: int, seed: int, parent: int) -> None:
    """Write runs at the end of one of eight chains, and read some back, while `parent` lives."""
    rng = random.Random(seed)
    tier = SsdTier(SsdSettings(folder, cap, 0), IDENTITY)
    parents = [ROOT_KEY] * 8
    os.write(1, f"{os.getpid()} spilling\n".encode())  # whole, whoever else writes
    while os.getppid() == parent:
        branch = rng.randrange(8)
        run = spilled(parents[branch], pages(rng.randrange(1 << 20), rng.randint(1, 16)), (f"chat {branch}",))
        if tier.put(run):
            parents[branch] = run.keys[-1]
        if rng.random() < 0.5 and (data := read(tier, run.keys, run.tokens)) is not None:
            assert_holds(data, run.keys)
        if rng.random() < 0.1:
            tier.flush(1)
            parents[branch] = ROOT_KEY


def main(folder: Path, cap: int) -> None:
    """Fork a child for each line of standard input; the next when that one is dead."""
    here = os.getpid()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            spill_forever(folder, cap, int(line), here)
            break
        os.waitpid(child, 0)
        os.write(1, b"dead\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
