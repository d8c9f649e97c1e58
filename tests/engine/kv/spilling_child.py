"""A process that spills for as long as it lives: `python -m tests.engine.kv.spilling_child FOLDER SEED CAP`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from engine.kv.page_data import ROOT_KEY
from engine.kv.ssd_tier import SsdTier
from engine.settings import SsdSettings
from tests.engine.kv.spilled import IDENTITY, assert_holds, pages, spilled


def spill_forever(folder: Path, seed: int, cap: int) -> None:
    """Write runs at the end of one of eight chains, read some back; the first line says that it has begun."""
    rng = random.Random(seed)
    tier = SsdTier(SsdSettings(folder, cap, 0), IDENTITY)
    parents = [ROOT_KEY] * 8
    print("spilling", flush=True)
    while True:
        branch = rng.randrange(8)
        run = spilled(parents[branch], pages(rng.randrange(1 << 20), rng.randint(1, 16)), (f"chat {branch}",))
        if tier.put(run):
            parents[branch] = run.keys[-1]
        if rng.random() < 0.5 and (data := tier.get(run.keys, run.tokens)) is not None:
            assert_holds(data, run.keys)
        if rng.random() < 0.1:
            tier.flush(1)
            parents[branch] = ROOT_KEY


if __name__ == "__main__":
    spill_forever(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
