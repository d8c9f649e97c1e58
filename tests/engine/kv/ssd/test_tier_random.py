"""The SSD tier under random use on a disk that others fill too: never above cap, below floor, or wrong."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter, namedtuple
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from safetensors import safe_open

from engine.kv.page_data import ROOT_KEY, SpilledRun
from engine.kv.page_header import CacheIdentity
from engine.kv.ssd.index import ChatBytes
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.tier import SsdTier
from tests.engine.kv.spilled import IDENTITY, OTHER, assert_holds, pages, read, spilled

CAP, FLOOR, DISK = 12_000, 5_000, 30_000
CHATS = st.frozensets(st.sampled_from("abc"), max_size=3)

Usage = namedtuple("Usage", "total used free")


@dataclass
class Disk:
    """A small disk: what its files take is real, what others take is `others`."""

    folder: Path
    others: int = 0
    now: float = 1e9

    def taken(self) -> int:
        """Bytes of page files, those that are being written too."""
        taken = 0
        for file in [*self.folder.glob("*/*.safetensors"), *self.folder.glob("*/.*.tmp")]:
            with suppress(FileNotFoundError):  # renamed or removed in between
                taken += file.stat().st_size
        return taken

    def usage(self, folder: Path) -> Usage:
        used = self.others + self.taken()
        return Usage(DISK, used, max(0, DISK - used))

    def clock(self) -> float:
        return self.now


class TierMachine(RuleBasedStateMachine):
    """Two tiers, as two processes have them; the second is of the same model or of another."""

    @initialize(second=st.sampled_from([IDENTITY, OTHER]))
    def begin(self, second: CacheIdentity) -> None:
        self.tmp = tempfile.TemporaryDirectory()
        self.disk = Disk(Path(self.tmp.name))
        self.identities = (IDENTITY, second)
        self.tiers = [self.opened(identity) for identity in self.identities]
        self.runs: list[SpilledRun] = []
        self.outside: list[str] = []
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(os, "fsync", self.look)
        for module in ("forgotten", "notes"):  # what was forgotten is no write
            self.patch.setattr(f"engine.kv.ssd.{module}.sync", lambda _: None)

    def look(self, descriptor: int) -> None:
        """At the end of every write, when most bytes are on the disk: cap and floor, at that moment."""
        usage, taken = self.disk.usage(self.disk.folder), self.disk.taken()
        if taken > CAP or usage.free < FLOOR:
            self.outside.append(f"{taken} bytes taken, {usage.free} free")

    def opened(self, identity: CacheIdentity) -> SsdTier:
        return SsdTier(
            SsdSettings(self.disk.folder, CAP, FLOOR),
            identity,
            clock=self.disk.clock,
            disk_usage=self.disk.usage,
        )

    @rule(
        data=st.data(), length=st.integers(1, 6), owners=CHATS, alone=st.integers(0, 3), first=st.booleans()
    )
    def put(self, data: st.DataObject, length: int, owners: frozenset[str], alone: int, first: bool) -> None:
        """The last `alone` pages are of one chat, which others of them go no further than."""
        parents = [ROOT_KEY, *(key for run in self.runs for key in run.keys)]
        parent = data.draw(st.sampled_from(parents))
        chats = [owners | {"a"} if alone else owners] * length
        chats[length - min(alone, length) :] = [frozenset("a")] * min(alone, length)
        run = spilled(parent, pages(100 * len(self.runs), length), chats)
        self.runs.append(run)
        self.tiers[0 if first else 1].put(run)

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), first=st.booleans())
    def get(self, data: st.DataObject, first: bool) -> None:
        run = data.draw(st.sampled_from(self.runs))
        begin = data.draw(st.integers(0, len(run.keys) - 1))
        tier = self.tiers[0 if first else 1]
        found = read(tier, run.keys[begin:], run.tokens[begin:])
        if found is not None:
            assert_holds(found, run.keys[begin:])
        assert read(tier, run.keys[begin:], [(7, 7, 7, 7)] * len(run.keys[begin:])) is None

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), how=st.sampled_from(["quarantine", "chat", "files", "claim", "expect"]))
    def change(self, data: st.DataObject, how: str) -> None:
        run = data.draw(st.sampled_from(self.runs))
        if how == "quarantine":
            self.tiers[0].quarantine(run.keys[-1:])
            assert not all(self.tiers[0].find(key) for key in run.keys)
        elif how == "chat":
            self.wait()  # a writer that catches up would find what the other process has just written
            self.tiers[0].forget_chat("a")
            assert "a" not in self.tiers[0].chat_bytes()
        elif how == "files":
            self.tiers[0].remove_forgotten()
            assert not self.tiers[0].forgotten
        elif how == "claim":
            self.tiers[0].claim(run.keys, "d")
        else:
            self.tiers[0].expect(run.keys[:2])

    @rule()
    def wait(self) -> None:
        assert all(tier.flush(10) for tier in self.tiers)

    @rule(others=st.integers(0, DISK), now=st.floats(-1e10, 1e11))
    def outside_world(self, others: int, now: float) -> None:
        self.wait()
        self.disk.others, self.disk.now = others, now

    @precondition(lambda self: self.runs)
    @rule(
        which=st.integers(0, 99),
        where=st.floats(0, 1, exclude_max=True),
        bit=st.integers(0, 7),
        cut=st.booleans(),
    )
    def damage(self, which: int, where: float, bit: int, cut: bool) -> None:
        self.wait()
        files = sorted(self.disk.folder.glob("*/*.safetensors"))
        if not files:
            return
        file = files[which % len(files)]
        whole = bytearray(file.read_bytes())
        if not whole:
            return
        position = int(where * len(whole))
        if cut:
            del whole[position:]
        else:
            whole[position] ^= 1 << bit
        file.write_bytes(whole)

    @rule()
    def restart(self) -> None:
        """Both end; what the next start counts is what an outsider counts in the files."""
        for tier in self.tiers:
            tier.close(10)
            assert tier.reason == "" or tier.reason.startswith("the disk has "), tier.reason
        for identity in self.identities:
            self.opened(identity)  # each removes what is damaged of its own model
        self.tiers = [self.opened(identity) for identity in self.identities]
        for tier, identity in zip(self.tiers, self.identities, strict=True):
            assert tier.usage.total_bytes == self.disk.taken() <= CAP
            assert tier.chat_bytes() == counted(self.disk.folder / identity.digest)

    @invariant()
    def stays_within_cap_and_floor(self) -> None:
        assert self.outside == []
        assert not self.disk.taken() > CAP

    def teardown(self) -> None:
        if hasattr(self, "tiers"):
            for tier in self.tiers:
                tier.close(10)
            assert self.outside == []
            self.patch.undo()
            self.tmp.cleanup()


def counted(folder: Path) -> dict[str, ChatBytes]:
    """Bytes of each chat, from what the files say of themselves."""
    total, shared = Counter[str](), Counter[str]()
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="numpy") as opened:
            sets, which = json.loads(opened.metadata()["chats"])
            size = sum(
                opened.get_tensor(name).nbytes
                for name in opened.keys()  # noqa: SIM118 — not a mapping
                if name != "tokens"
            )
        for owners in (sets[index] for index in which):
            for chat in owners:
                total[chat] += size // len(which)
                shared[chat] += size // len(which) if len(owners) > 1 else 0
    return {chat: ChatBytes(total[chat], shared[chat]) for chat in total}


TestTier = TierMachine.TestCase
TestTier.settings = settings(max_examples=40, stateful_step_count=30)


@pytest.mark.long
@pytest.mark.timeout(600)
class TestTierForLong(TierMachine.TestCase):
    settings = settings(max_examples=1500, stateful_step_count=60)
