"""Which chats were deleted is written down before anything of them goes, and until all of it has gone."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.kv.page_header import CacheIdentity, PageHeader
from engine.kv.ssd.folder import SsdFolder
from engine.kv.ssd.forgotten import Forgotten, forget_chats
from engine.kv.ssd.notes import Notes, digest_of
from engine.kv.ssd.owners import forget_in_folder
from tests.engine.kv.spilled import IDENTITY, owners_in
from tests.engine.kv.ssd.chats import forgotten, run_of
from tests.engine.kv.ssd.tiers import opened, page_files, refused, stored


def test_that_a_chat_is_deleted_is_on_the_disk_before_any_file_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(opened(tmp_path), run_of("secret"))
    seen, fsync = list[tuple[set[str], int]](), os.fsync

    def noted(descriptor: int) -> None:
        seen.append((Notes(tmp_path).read(), len(page_files(tmp_path))))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    assert forget_in_folder(tmp_path, {digest_of("secret")})
    assert seen[0] == ({digest_of("secret")}, 1)
    assert page_files(tmp_path) == []


def test_what_was_written_down_goes_only_when_the_rest_would_stay_through_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared = run_of("secret"), run_of("secret", "b", first=100)
    tier = opened(tmp_path)
    stored(tier, own, shared)
    home = tmp_path / IDENTITY.digest
    changed = {path.stat().st_ino for path in (home, home / f"{shared.keys[-1].hex()}.safetensors")}
    synced, fsync = list[int](), os.fsync

    def seen(descriptor: int) -> None:
        assert list(tmp_path.glob("*.forgotten")) != []
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    tier.forget_chat("secret")
    assert synced == []
    tier.remove_forgotten()
    assert synced[0] == tmp_path.stat().st_ino  # the note itself
    assert set(synced[1:]) == changed
    assert list(tmp_path.glob("*.forgotten")) == []


def test_what_is_written_down_of_a_chat_stays_while_a_file_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of("secret")
    stored(opened(tmp_path), run)

    def unreadable(path: Path, identity: CacheIdentity | None) -> PageHeader:
        raise OSError(errno.EIO, "Input/output error", path)

    with monkeypatch.context() as patch:
        patch.setattr("engine.kv.ssd.forgotten.read_header", unreadable)
        assert not forget_in_folder(tmp_path, {digest_of("secret")})
    assert Notes(tmp_path).read() == {digest_of("secret")}
    tier = opened(tmp_path)
    assert not tier.find(run.keys[0])
    assert (page_files(tmp_path), Notes(tmp_path).read()) == ([], set())


def test_what_another_process_wrote_down_and_could_not_do_is_done_with_the_next_write(tmp_path: Path) -> None:
    secret, both = run_of("secret"), run_of("secret", "a", first=2000)
    tier = opened(tmp_path)
    stored(tier, secret, both)
    Notes(tmp_path).write({digest_of("secret")})
    stored(tier, run_of("a", first=1000))
    assert not tier.find(secret.keys[0])
    assert tier.find(both.keys[0])
    assert set(tier.chat_bytes()) == {"a"}
    assert owners_in(tmp_path) == {"a"}
    assert Notes(tmp_path).read() == set()


@pytest.mark.parametrize("text", [b"", b"[", b"7", b'"another"', b"\0" * 4096])
def test_whatever_is_in_a_note_it_says_by_its_name_which_chat_was_deleted(
    tmp_path: Path, text: bytes
) -> None:
    stored(opened(tmp_path), run_of("secret"), run_of("another", first=100))
    Notes(tmp_path).path_of(digest_of("secret")).write_bytes(text)
    assert opened(tmp_path).reason == ""
    assert owners_in(tmp_path) == {"another"}
    assert list(tmp_path.glob("*.forgotten")) == []


def test_a_note_of_a_chat_that_nobody_knows_goes_and_what_is_no_file_stays(tmp_path: Path) -> None:
    stored(opened(tmp_path), run_of("a"))
    (tmp_path / f"{'ab' * 16}.forgotten").write_bytes(b"somebody else's")
    folder = tmp_path / f"{'cd' * 16}.forgotten"
    folder.mkdir()
    tier = opened(tmp_path)
    assert tier.forgotten == set()
    assert list(tmp_path.glob("*.forgotten")) == [folder]
    assert owners_in(tmp_path) == {"a"}


def test_a_note_that_cannot_go_is_not_read_with_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(opened(tmp_path), run_of("a"))
    tier, passes = opened(tmp_path), list[object]()
    monkeypatch.setattr(Notes, "remove", refused)
    monkeypatch.setattr("engine.kv.ssd.owners.forget_chats", counting(passes))
    forgotten(tier, "secret")
    stored(tier, run_of("b", first=100))
    stored(tier, run_of("b", first=200))
    assert len(passes) == 1


def counting(passes: list[object]) -> Callable[..., Forgotten]:
    def counted(folder: SsdFolder, digests: frozenset[str], cap_bytes: int) -> Forgotten:
        passes.append(digests)
        return forget_chats(folder, digests, cap_bytes)

    return counted
