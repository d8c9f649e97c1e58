"""Chats that cannot be forgotten at once are later: while another process writes, or the disk refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from engine.kv.page_data import ROOT_KEY
from engine.kv.page_header import CacheIdentity
from engine.kv.ssd.folder import SsdFolder
from engine.kv.ssd.notes import digest_of
from engine.kv.ssd.owners import forget_in_folder
from tests.engine.kv.spilled import IDENTITY, OTHER, owners_in, pages, spilled
from tests.engine.kv.ssd.chats import busy, forgotten, run_of
from tests.engine.kv.ssd.tiers import opened, page_files, refused, stored


@pytest.mark.parametrize("writes", [False, True])
def test_what_is_forgotten_while_another_process_writes_goes_later(
    tmp_path: Path,
    writes: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    own, shared, other = run_of("secret"), run_of("secret", "a", first=100), run_of("secret", first=200)
    stored(opened(tmp_path, OTHER), other)
    tier = opened(tmp_path)
    stored(tier, own, shared)
    stored(opened(tmp_path, OTHER), spilled(ROOT_KEY, pages(300, 4), ("secret",)))
    with busy(tmp_path, monkeypatch).locked():
        forgotten(tier, "secret")
        assert not tier.find(own.keys[0])
        assert set(tier.chat_bytes()) == {"a"}
    assert "another process is writing there" in caplog.text
    assert owners_in(tmp_path) == {"secret", "a"}
    if writes:
        stored(tier, run_of("b", first=900))
    else:
        tier.close(60)
    assert "secret" not in owners_in(tmp_path)
    assert tier.find(shared.keys[0])


def test_what_cannot_be_forgotten_is_said(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = run_of("secret")
    stored(opened(small_disk), run)
    tier = opened(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    forgotten(tier, "secret")
    assert not tier.find(run.keys[0])
    assert not forget_in_folder(small_disk, {digest_of("secret")})
    warnings = [record.message for record in caplog.records]
    assert warnings == [f"pages of deleted chats stay in {small_disk} for now: Read-only file system"] * 2
    tier.close(60)


@pytest.mark.parametrize("is_busy", [False, True])
def test_who_forgets_a_chat_reads_no_page_file_and_waits_for_nobody(
    tmp_path: Path, is_busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared = run_of("secret"), run_of("secret", "b", first=100)
    tier = opened(tmp_path)
    stored(tier, own, shared)
    with ExitStack() as stack:
        if is_busy:
            stack.enter_context(SsdFolder(tmp_path, "", shutil.disk_usage).locked())
        patch = stack.enter_context(monkeypatch.context())
        for name in ("open", "read", "pread", "unlink", "fsync", "stat"):
            patch.setattr(os, name, but_for_the_note(getattr(os, name)))
        patch.setattr("engine.kv.ssd.folder._wait_for", None)
        tier.forget_chat("secret")
        assert [tier.find(run.keys[0]) for run in (own, shared)] == [False, True]
        assert set(tier.chat_bytes()) == {"b"}
    assert owners_in(tmp_path) == {"secret", "b"}
    tier.remove_forgotten()
    assert owners_in(tmp_path) == {"b"}
    assert tier.forgotten == set()
    assert list(tmp_path.glob("*.forgotten")) == []


def but_for_the_note(call: Callable[..., object]) -> Callable[..., object]:
    """A system call that nobody may make but for a note."""

    def checked(target: object, *args: object, **kwargs: object) -> object:
        assert str(target).endswith(".forgotten")
        return call(target, *args, **kwargs)

    return checked


@pytest.mark.parametrize("identity", [IDENTITY, OTHER])
def test_a_chat_is_forgotten_for_good_when_its_process_dies_at_once(
    tmp_path: Path, identity: CacheIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared = run_of("secret"), run_of("secret", "b", first=100)
    dead = opened(tmp_path)
    stored(dead, own, shared)
    dead.forget_chat("secret")  # and nothing more: it is killed
    with busy(tmp_path, monkeypatch).locked():
        early = opened(tmp_path)  # while another process writes: nobody can remove anything
        assert [early.find(run.keys[0]) for run in (own, shared)] == [False, True]
        assert set(early.chat_bytes()) == {"b"}
        assert owners_in(tmp_path) == {"secret", "b"}
    late = opened(tmp_path, identity)
    assert owners_in(tmp_path) == {"b"}
    assert list(tmp_path.glob("*.forgotten")) == []
    assert late.usage.total_bytes == sum(path.stat().st_size for path in page_files(tmp_path))
    early.close(10)
    assert early.forgotten == set()


@pytest.mark.parametrize("is_open", [False, True])
def test_what_could_not_be_forgotten_before_the_end_is_with_the_next_start(
    tmp_path: Path, is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared = run_of("secret"), run_of("secret", "b", first=100)
    stored(opened(tmp_path), own, shared)
    with busy(tmp_path, monkeypatch).locked():
        if is_open:
            tier = opened(tmp_path)
            forgotten(tier, "secret")
            tier.close(60)
            assert tier.forgotten == {digest_of("secret")}
        else:
            assert not forget_in_folder(tmp_path, {digest_of("secret")})
    assert "secret" in owners_in(tmp_path)
    again = opened(tmp_path, OTHER)
    assert owners_in(tmp_path) == {"b"}
    assert again.usage.total_bytes == sum(path.stat().st_size for path in page_files(tmp_path))
    assert list(tmp_path.glob("*.forgotten")) == []


def test_files_that_cannot_go_yet_are_tried_again_but_not_with_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stored(opened(tmp_path), run_of("secret"))
    tier = opened(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refused)
        forgotten(tier, "secret")
        assert not tier.find(run_of("secret").keys[0])
        said = len(caplog.records)
        assert said > 0
        stored(tier, run_of("b", first=100))
        assert len(caplog.records) == said
        tier.remove_forgotten()
        assert len(caplog.records) > said
        assert tier.forgotten == {digest_of("secret")}
        assert not forget_in_folder(tmp_path, {digest_of("secret")})
    tier.remove_forgotten()
    assert owners_in(tmp_path) == {"b"}
    assert tier.forgotten == set()
    assert list(tmp_path.glob("*.forgotten")) == []
