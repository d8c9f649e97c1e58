"""Random faults at random bytes, and processes killed at random moments: each download ends whole and
verified, or clearly failed and going on later; nothing half-done is ever a model; little is fetched twice."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir, snapshot_download
from huggingface_hub.errors import CacheNotFound, LocalEntryNotFoundError

from app.downloads.journal import Journal
from app.library.hugging_face import find_in_cache
from tests.app.downloads.puller import Puller
from tests.app.downloads.stage import CONFIG, noise
from tests.hub.faults import Fault, Kind
from tests.hub.fixtures import HubHome
from tests.hub.repos import HubFile, Repo
from tests.hub.server import HubServer

SIZE = 3_000_000
NAMES = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
KILLED = -signal.SIGKILL
KINDS: tuple[Kind, ...] = ("cut", "cut", "stall", "status", "html", "drop", "redirect_loop", "short_length")
FOR_GOOD: tuple[Kind, ...] = ("status", "drop", "html")


@dataclass
class World:
    """A hub, a process that downloads from it, and what became of it."""

    hub: HubServer
    home: Path
    puller: Puller
    random: random.Random
    needed: int = 0
    kills: int = 0
    failures: int = 0
    faults: list[str] = field(default_factory=list[str])

    @property
    def sent(self) -> int:
        """Bytes of files that the hub sent."""
        return sum(served.bytes_sent for served in self.hub.requests if served.has_content)

    @property
    def twice(self) -> float:
        """Share of the bytes that were sent again."""
        return (self.sent - self.needed) / self.needed


@pytest.fixture
def world(hub_home: HubHome) -> Iterator[World]:
    with HubServer() as hub:
        hub_home.connect(hub)
        puller = Puller(hub.url, hub_home.path)
        yield World(hub, hub_home.path, puller, random.Random(42))
        hub.faults.clear()
        puller.close()


def test_a_few_downloads(world: World) -> None:
    for number in range(3):
        download(world, number)
    check_the_end(world, most_twice=0.05)  # one kill is a lot of so few


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_hundred_downloads(world: World) -> None:
    for number in range(200):
        download(world, number)
    print(
        f"\n200 downloads, {200 * 5} files, {world.needed / 1e6:.0f} MB; {len(world.faults)} faults, "
        f"{world.kills} kills, {world.failures} failures that went on later; "
        f"{world.faults.count('wrong_byte')} of the faults wrong bytes; fetched twice {world.twice:.3%}"
    )
    check_the_end(world, most_twice=0.01)


def download(world: World, number: int) -> None:
    """One repository, until its download has ended well, with whatever happens on the way."""
    repo = make_repo(world.random, number)
    world.hub.update(repo)
    world.needed += sum(file.true_size for file in repo.tree.values())
    spoil(world, repo)
    kills = world.random.choice((0, 0, 1, 1))
    for _ in range(8):
        child = world.puller.begin(repo.id)
        if kills:
            kills -= 1
            time.sleep(world.random.uniform(0.0, 0.8))
            with suppress(ProcessLookupError):  # it was faster
                os.kill(child, signal.SIGKILL)
        code = world.puller.end()
        is_there = check_that_nothing_half_done_is_a_model(world, repo)
        if code == 0:
            assert is_there
            return
        assert code in (1, KILLED)
        if code == KILLED:
            world.kills += 1
        else:
            world.failures += 1
            assert_failed_in_words(world, repo)
            world.hub.faults.clear()
    raise AssertionError(f"{repo.id} did not end")


def make_repo(rng: random.Random, number: int) -> Repo:
    """A model of two large files and three small ones."""
    large = {
        name: HubFile(noise(rng.randrange(SIZE // 2, SIZE), 2 * number + part), lfs=True)
        for part, name in enumerate(NAMES)
    }
    small = {"config.json": CONFIG, "tokenizer.json": b"{}\n" * 500, "tokenizer_config.json": b"{ }"}
    return Repo(f"org/model-{number}", {**large, **small})


def spoil(world: World, repo: Repo) -> None:
    """Put random faults in force, now and then ones that never pass."""
    rng = world.random
    world.hub.faults.clear()
    for name in NAMES:
        file = repo.tree[name]
        # In small pieces: what is on its way to a process that is killed was sent, and is lost.
        world.hub.faults.add(Fault(name, "slow", rate=4_000_000, pieces=200, times=None))
        for _ in range(rng.choice((0, 1, 1, 2))):
            kind = rng.choice(
                ("cut", "cut", "stall", "status", "html", "drop", "redirect_loop", "short_length")
            )
            at, status = rng.randrange(file.true_size), rng.choice((408, 429, 500, 502, 503))
            world.hub.faults.add(Fault(name, kind, at=at, status=status, times=rng.choice((1, 1, 2))))
            world.faults.append(kind)
    if rng.random() < 0.05:
        name = rng.choice(NAMES)
        world.hub.faults.add(Fault(name, "wrong_byte", at=rng.randrange(repo.tree[name].true_size)))
        world.faults.append("wrong_byte")
    if rng.random() < 0.05:
        world.hub.faults.add(Fault(rng.choice(NAMES), rng.choice(FOR_GOOD), skip=2, times=None))
        world.faults.append("for good")


def check_that_nothing_half_done_is_a_model(world: World, repo: Repo) -> bool:
    """Whether the hub's own client finds the model; of what it or MLXR finds every file is right."""
    cache = world.home / "hub"
    try:
        found = snapshot_download(repo.id, cache_dir=cache, local_files_only=True)
    except LocalEntryNotFoundError:
        found = None
    try:
        listed = {info.repo_id: info for info in scan_cache_dir(cache).repos}
    except CacheNotFound:
        listed = {}
    revisions = list(listed[repo.id].revisions) if repo.id in listed else []
    ours = {one.path for one in find_in_cache(cache).candidates if one.origin == repo.id and not one.fault}
    assert bool(ours) == (found is not None)
    for folder in {
        Path(found) if found else None,
        *(revision.snapshot_path for revision in revisions),
        *ours,
    }:
        if folder is not None:
            for name, file in repo.tree.items():
                assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == file.true_sha256
    return found is not None


def assert_failed_in_words(world: World, repo: Repo) -> None:
    journal = Journal(world.home / "downloads.sqlite3")
    entries = {entry.wanted.repo: entry for entry in journal.pending()}
    journal.close()
    assert entries[repo.id].state == "failed"
    assert entries[repo.id].words


def check_the_end(world: World, most_twice: float) -> None:
    """Nothing is left over, and little was sent twice."""
    assert world.kills
    assert not list(world.home.rglob("*mlxr-part*"))
    assert not list(world.home.rglob("mlxr-new"))
    journal = Journal(world.home / "downloads.sqlite3")
    assert journal.pending() == []
    journal.close()
    assert world.sent >= world.needed
    assert world.twice <= most_twice
