"""A deleted chat is told to be gone once that outlasts a power cut, and nobody waits for the disk."""

from __future__ import annotations

import errno
from pathlib import Path
from threading import Semaphore

import pytest

from engine import (
    ChatsCached,
    EngineSettings,
    Flush,
    Flushed,
    Forget,
    Generate,
    ModelUnloaded,
    Predict,
    Predicted,
    SsdSettings,
    UnloadModel,
)
from engine.kv.ssd.notes import Notes, digest_of
from engine.kv.ssd.tier import SsdTier
from tests.engine.kv.spilled import owners_in
from tests.fakes.listener import PATIENCE, Listener, running_engine
from tests.fakes.random_model import write_random_model

PROMPT = tuple(3 + (7 * place) % 290 for place in range(200))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("models") / "tiny")


def settings(folder: Path) -> EngineSettings:
    return EngineSettings(ssd=SsdSettings(folder / "kv", cap_bytes=64 << 20, floor_bytes=0))


@pytest.fixture
def kept(tiny: Path, tmp_path: Path) -> Path:
    """A folder with pages of the chats "c" and "d"."""
    with running_engine(settings(tmp_path)) as listener:
        listener.load(tiny)
        for chat, tokens in (("c", PROMPT), ("d", PROMPT[::-1])):
            listener.submit(Generate(chat, tokens=tokens, max_tokens=2, ignore_eos=True, chat=chat))
            listener.finished(chat)
    assert owners_in(tmp_path / "kv") == {"c", "d"}
    return tmp_path


def stored(listener: Listener) -> list[dict[str, int]]:
    """Bytes of chats on SSD, each time that they were told."""
    told = [event for event in listener.drain() if isinstance(event, ChatsCached)]
    return [{chat: of.ssd_bytes for chat, of in event.chats.items()} for event in told]


def held(monkeypatch: pytest.MonkeyPatch, of: type, name: str) -> Semaphore:
    """The method `name` of a class runs as often as this is released."""
    may_run, method = Semaphore(0), getattr(of, name)

    def waits(self: object) -> None:
        assert may_run.acquire(timeout=PATIENCE)
        method(self)

    monkeypatch.setattr(of, name, waits)
    return may_run


def test_a_chat_is_told_to_be_gone_once_that_outlasts_a_power_cut(
    kept: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_sync = held(monkeypatch, Notes, "sync")
    with running_engine(settings(kept)) as listener:
        listener.load(tiny)
        listener.submit(Forget("c"))
        listener.submit(Predict(Generate("asked about", tokens=PROMPT)))
        found = listener.wait(lambda event: isinstance(event, Predicted))
        assert isinstance(found, Predicted)
        assert found.cached_tokens + found.restored_tokens == 0
        first, *others = stored(listener)
        assert first["c"] > 0
        assert {told["c"] for told in others} <= {first["c"]}
        may_sync.release(9)
        told = listener.wait(lambda event: isinstance(event, ChatsCached) and "c" not in event.chats)
        assert isinstance(told, ChatsCached)
        assert set(told.chats) == {"d"}


@pytest.mark.parametrize("is_loaded", [False, True])
def test_an_engine_that_ends_leaves_no_chat_that_a_power_cut_brings_back(
    is_loaded: bool, kept: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, sync = list[set[str]](), Notes.sync

    def note(self: Notes) -> None:
        synced.append(self.read())
        sync(self)

    monkeypatch.setattr(Notes, "sync", note)
    with running_engine(settings(kept)) as listener:
        if is_loaded:
            listener.load(tiny)
        listener.submit(Forget("c"))
    assert {digest_of("c")} in synced
    assert owners_in(kept / "kv") == {"d"}
    assert all("c" not in chats for chats in stored(listener)[-1:])


def test_a_chat_s_note_reaches_the_disk_though_another_s_files_take_long_to_go(
    kept: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go = held(monkeypatch, SsdTier, "remove_forgotten")
    with running_engine(settings(kept)) as listener:
        listener.load(tiny)
        listener.submit(Forget("c"))
        listener.submit(Forget("d"))
        listener.wait(lambda event: event == ChatsCached({}))
        assert owners_in(kept / "kv") == {"c", "d"}
        may_go.release(9)
    assert owners_in(kept / "kv") == set()


def test_a_chat_whose_note_cannot_be_written_is_told_to_be_gone_once_its_files_are(
    kept: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Notes, digests: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Notes, "write", full)
    may_go = held(monkeypatch, SsdTier, "remove_forgotten")
    with running_engine(settings(kept)) as listener:
        listener.load(tiny)
        listener.submit(Forget("c"))
        listener.submit(Flush())
        listener.wait(lambda event: isinstance(event, Flushed))
        assert all("c" in chats for chats in stored(listener))
        may_go.release(9)
        listener.wait(lambda event: isinstance(event, ChatsCached) and "c" not in event.chats)
        assert owners_in(kept / "kv") == {"d"}


def test_a_chat_is_told_to_be_gone_where_its_model_was_unloaded(kept: Path, tiny: Path) -> None:
    with running_engine(settings(kept)) as listener:
        listener.load(tiny)
        listener.submit(UnloadModel())
        listener.wait(lambda event: isinstance(event, ModelUnloaded))
        assert set(stored(listener)[-1]) == {"c", "d"}
        listener.submit(Forget("c"))
        listener.wait(lambda event: isinstance(event, ChatsCached) and set(event.chats) == {"d"})


def test_what_an_unloaded_model_has_is_not_counted_beside_another(
    kept: Path, tiny: Path, tmp_path: Path
) -> None:
    other = write_random_model(tmp_path / "other", seed=1)
    with running_engine(settings(kept)) as listener:
        listener.load(tiny)
        listener.submit(UnloadModel())
        listener.load(other, "other")
        listener.wait(lambda event: event == ChatsCached({}))
