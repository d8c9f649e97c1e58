"""Hours of chats in minutes: `python -m tests.engine.soaking_child FOLDER REQUESTS`, told in lines of JSON.

Twelve chats of the guide go on, are edited and begun anew, six at a time, with several answers, cancels, pins
and deletions among them, in KV memory of 400 pages with an SSD cache of 60 MB.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue

from engine import (
    Cancel,
    Engine,
    EngineSettings,
    Event,
    Failed,
    Finished,
    Forget,
    Generate,
    LoadModel,
    ModelReady,
    Pin,
    SamplingParams,
    SsdSettings,
)
from engine.machine.process_memory import process_bytes

GUIDE = Path(__file__).parents[2] / "resources" / "guide" / "model"
CAP = 60_000_000
AT_ONCE = 6
PATIENCE = 10.0
"""Seconds for which idle threads may outlast the engine."""
LONGEST = 3000
"""Tokens of a chat; the guide holds 4,096."""


class Chats:
    """What is asked next, of twelve chats."""

    def __init__(self) -> None:
        self._random = random.Random(4)
        self._tokens = {f"chat {number}": self._some(20, 1500) for number in range(12)}

    def ask(self, name: str) -> Generate:
        """A chat goes on, is edited anywhere, begins anew, or answers again."""
        rng, chat = self._random, self._any()
        way, tokens = rng.random(), self._tokens[chat]
        if way < 0.4:
            tokens = tokens[: rng.randrange(1, len(tokens) + 1)] + self._some(1, 60)
        elif way < 0.5:
            tokens = self._some(20, 2500)
        self._tokens[chat] = tokens = tokens[:LONGEST]
        sampling = SamplingParams(temperature=rng.choice((0.0, 0.8)))
        most, count = rng.randrange(1, 60), rng.choice((1, 1, 1, 2, 3))
        return Generate(
            name, tokens=tokens, max_tokens=most, n=count, chat=chat, sampling=sampling, ignore_eos=True
        )

    def beside(self, number: int) -> list[Cancel | Forget | Pin]:
        """What else happens now, beside request `number`."""
        rng, more = self._random, list[Cancel | Forget | Pin]()
        if rng.random() < 0.15:
            more.append(Cancel(str(rng.randrange(max(0, number - 5), number + 1))))
        if rng.random() < 0.05:
            more.append(Forget(self._any()))
        if rng.random() < 0.03:
            chat = self._any()
            more += [Pin(chat, True), Pin(chat, False)]
        return more

    def answered(self, chat: str, tokens: tuple[int, ...]) -> None:
        """An answer is part of its chat now."""
        self._tokens[chat] = (self._tokens[chat] + tokens)[:LONGEST]

    def _any(self) -> str:
        return self._random.choice(list(self._tokens))

    def _some(self, fewest: int, most: int) -> tuple[int, ...]:
        return tuple(self._random.randrange(5, 2000) for _ in range(self._random.randrange(fewest, most)))


def soak(folder: Path, requests: int) -> None:
    """Play so many requests, and tell of every hundredth; at the end what is left of the engine."""
    events, chats, in_flight = SimpleQueue[Event](), Chats(), dict[str, str]()
    ssd = SsdSettings(folder / "kv", CAP, floor_bytes=1 << 30)
    engine = Engine(events.put, EngineSettings(cache=folder / "cache", kv_pages=400, ssd=ssd))
    engine.start()
    engine.submit(LoadModel("guide", str(GUIDE)))
    while not isinstance(events.get(), ModelReady):
        pass
    sent = 0
    while sent < requests or in_flight:
        while sent < requests and len(in_flight) < AT_ONCE:
            command = chats.ask(str(sent))
            in_flight[command.id] = command.chat
            engine.submit(command)
            for each in chats.beside(sent):
                engine.submit(each)
            sent += 1
            if sent % 100 == 0:
                _tell(folder, sent)
        match events.get():
            case Finished(id=name, tokens=tokens):
                chats.answered(in_flight.pop(name), tokens)
            case Failed() as failed:
                raise AssertionError(failed)
            case _:
                pass
    has_ended = engine.close(60)
    until = time.monotonic() + PATIENCE
    while threading.active_count() > 1 and time.monotonic() < until:
        gc.collect()  # pools of threads end with the model that had them, which is in circles
        time.sleep(0.05)
    _tell(folder, sent, has_ended=has_ended, threads=[each.name for each in threading.enumerate()])


def _size(file: Path) -> int | None:
    """In bytes; None of one that the engine has removed meanwhile."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return None


def _tell(folder: Path, requests: int, **more: object) -> None:
    files = [size for path in (folder / "kv").glob("*/*.safetensors") if (size := _size(path)) is not None]
    told = {"requests": requests, "memory": process_bytes(), "ssd": sum(files), **more}
    print(json.dumps(told | {"files": len([*Path("/dev/fd").iterdir()])}), flush=True)


if __name__ == "__main__":
    soak(Path(sys.argv[1]), int(sys.argv[2]))
