"""A process that serves and spills until it is killed: MODEL, FOLDER and SEED are its arguments.

It prints "ready" when the model is loaded, and then a line of JSON for each answer: the prompt, the tokens,
how many of the prompt came from SSD, and how many files were damaged.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from engine import CacheReport, EngineSettings, Generate, SsdSettings, Stats
from tests.engine.watched import restore_always
from tests.fakes.listener import Listener, running_engine

CAP = 300_000
"""Bytes of cache: less than the conversations take."""

PAGES, PAGE = 24, 4


def settings(folder: Path) -> EngineSettings:
    """Few pages, so that almost every request evicts and spills."""
    return EngineSettings(
        page_size=PAGE,
        kv_pages=PAGES,
        prefill_chunk=16,
        ssd=SsdSettings(folder, CAP, floor_bytes=0),
        cache=folder.with_name("engine cache"),
    )


def beginnings() -> list[tuple[int, ...]]:
    """What conversations begin with, in every process."""
    rng = random.Random(0)
    return [tuple(rng.randrange(3, 300) for _ in range(60)) for _ in range(12)]


def serve_forever(model: Path, folder: Path, seed: int) -> None:
    """Ask for one answer after the other."""
    rng, known = random.Random(seed), beginnings()
    restore_always(pytest.MonkeyPatch())
    with running_engine(settings(folder)) as listener:
        listener.load(model)
        print("ready", flush=True)
        number = 0
        while True:
            number += 1
            prompt = (*rng.choice(known)[: rng.randrange(40, 61)], rng.randrange(3, 300))
            print(json.dumps(answer(listener, f"r{number}", prompt)), flush=True)
            listener.events.clear()


def answer(listener: Listener, name: str, prompt: tuple[int, ...]) -> dict[str, object]:
    """Ask, and tell what came."""
    listener.submit(Generate(name, tokens=prompt, max_tokens=6, ignore_eos=True, chat=str(prompt[0])))
    end = listener.finished(name)
    (report,) = (event for event in listener.events if isinstance(event, CacheReport) and event.id == name)
    damaged = max((e.cache.quarantined_files for e in listener.events if isinstance(e, Stats)), default=0)
    return {
        "prompt": prompt,
        "tokens": end.tokens,
        "restored": report.restored_tokens,
        "damaged": damaged,
    }


if __name__ == "__main__":
    serve_forever(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
