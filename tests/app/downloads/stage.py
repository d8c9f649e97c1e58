"""A queue of downloads in front of a local hub, and what it told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from app.downloads.download import Means
from app.downloads.events import END, DownloadEvent, Failed, Finished, Retrying
from app.downloads.hub import Hub
from app.downloads.journal import Journal
from app.downloads.queue import DownloadQueue
from app.downloads.retry import Patience
from app.downloads.wanted import Wanted, parse_wanted
from tests.hub.connections import AHEAD
from tests.hub.repos import HubFile, Repo
from tests.hub.server import HubServer

E = TypeVar("E")
SECONDS = 30.0
QUICK = Patience(first_wait=0.01, longest_wait=0.05, floor_seconds=0.6, floor=2000)
"""As in the app, but for the waiting between tries, and where bytes trickle in."""
HASTY = replace(QUICK, stall=1.0)
"""For what stalls. A busy machine may hold up for so long what does not: then it is fetched again."""

CONFIG = b'{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}'


def noise(size: int, seed: int = 1) -> bytes:
    """Bytes that no two places share."""
    import random

    return random.Random(seed).randbytes(size)


def take_little_ahead() -> None:
    """Have the system take in a few kilobytes that this process has not read, on connections from now on."""
    connect = socket.socket.connect

    def connect_small(self: socket.socket, address: object) -> None:
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, AHEAD)
        connect(self, address)  # pyright: ignore[reportArgumentType]

    socket.socket.connect = connect_small


def model_repo(repo: str = "org/model", weights: int = 300_000, **more: object) -> Repo:
    """A repository of a whole safetensors model, with things beside it that nobody asked for."""
    files: dict[str, bytes | HubFile] = {
        "config.json": CONFIG,
        "tokenizer.json": b'{"version": "1.0"}',
        "tokenizer_config.json": b"{}",
        "model.safetensors": HubFile(noise(weights), lfs=True),
        "pytorch_model.bin": HubFile(noise(1000, 9), lfs=True),
        "README.md": b"# a card",
    }
    return Repo(repo, {**files, **more})  # pyright: ignore[reportArgumentType]


def gguf_repo(repo: str = "org/model-GGUF", size: int = 300_000) -> Repo:
    """A repository of GGUF files in three quantisations, one of them in two parts."""
    names = ("m-Q4_K_M.gguf", "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf", "m-Q2_K.gguf")
    return Repo(repo, {name: HubFile(noise(size, seed), lfs=True) for seed, name in enumerate(names)})


class Stage:
    """A queue, everything it told, and waiting for it."""

    def __init__(self, server: HubServer, home: Path, endpoint: str | None = None, **means: object) -> None:
        self.hub = server
        self.cache = home / "hub"
        self.events: list[DownloadEvent] = []
        self._told = threading.Condition()
        self.token: str | None = None
        plain = Means(
            Hub(endpoint or server.url, self.cache, lambda: self.token), QUICK, free=lambda folder: 10**12
        )
        self.means = replace(plain, **means)  # pyright: ignore[reportArgumentType]
        self.journal = Journal(home / "downloads.sqlite3")
        self.queue = DownloadQueue(self.means, self.journal, self._hear)
        self.queue.start()

    def _hear(self, event: DownloadEvent) -> None:
        with self._told:
            self.events.append(event)
            self._told.notify_all()

    def close(self) -> None:
        """End the queue."""
        assert self.queue.close(SECONDS)
        self.journal.close()

    def pull(self, text: str, **options: str) -> DownloadEvent:
        """Ask for a download, and wait for its end."""
        before = len(self.events)
        return self.end_of(self.queue.add(parse_wanted(text, **options)), before)

    def finished(self, text: str, **options: str) -> Finished:
        """The same, for one that must succeed."""
        end = self.pull(text, **options)
        assert isinstance(end, Finished), end
        return end

    def failed(self, text: str, **options: str) -> Failed:
        """The same, for one that must fail."""
        end = self.pull(text, **options)
        assert isinstance(end, Failed), end
        assert "\n" not in end.words
        return end

    def begin(self, wanted: Wanted) -> int:
        """Ask for a download."""
        return self.queue.add(wanted)

    def end_of(self, id_: int, after: int = 0) -> DownloadEvent:
        """Wait for the end of a download, told after the first `after` events."""
        return self.wait_for(lambda event: isinstance(event, END) and event.id == id_, after)

    def wait_for(self, right: Callable[[DownloadEvent], bool], after: int = 0) -> DownloadEvent:
        """Wait for an event."""

        def found() -> DownloadEvent | None:
            return next((event for event in self.events[after:] if right(event)), None)

        with self._told:
            self._told.wait_for(lambda: found() is not None, SECONDS)
            event = found()
        assert event is not None, self.events[after:]
        return event

    def of(self, kind: type[E]) -> list[E]:
        """What was told of that kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def whys(self) -> str:
        """Why it was tried again."""
        return "; ".join(event.why for event in self.of(Retrying))
