"""What goes from the SSD with a deleted chat, whichever model or process wrote it, and what stays."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.kv.page_data import ROOT_KEY
from engine.kv.page_header import CacheIdentity
from engine.kv.ssd.forgotten import Forgotten
from engine.kv.ssd.notes import digest_of
from engine.kv.ssd.owners import forget_in_folder
from tests.engine.kv.spilled import IDENTITY, OTHER, assert_holds, forged, owners_in, pages, read, spilled
from tests.engine.kv.ssd.chats import chats_of, forgotten, names, run_of
from tests.engine.kv.ssd.tiers import file_size, full, opened, page_files, stored


def test_what_another_process_forgot_does_not_come_back(tmp_path: Path) -> None:
    run = run_of("kept", "secret")
    first = opened(tmp_path)
    stored(first, run)
    second = opened(tmp_path)
    second.claim(run.keys, "b")
    forgotten(first, "secret")
    second.close(60)
    assert owners_in(tmp_path) == {"kept", "b"}


@pytest.mark.parametrize("identity", [IDENTITY, OTHER])
def test_what_another_process_wrote_since_is_forgotten_too(tmp_path: Path, identity: CacheIdentity) -> None:
    mine, theirs, claimed = run_of("a"), run_of("secret", first=100), run_of("a", first=200)
    first = opened(tmp_path)
    stored(first, mine, claimed)
    second = opened(tmp_path, identity)
    stored(second, theirs)
    claiming = opened(tmp_path)
    claiming.claim(claimed.keys, "secret")
    claiming.close(60)
    forgotten(first, "secret")
    assert owners_in(tmp_path) == {"a"}
    assert len(page_files(tmp_path)) == 2
    assert first.usage.total_bytes == sum(path.stat().st_size for path in page_files(tmp_path))


def test_a_page_that_was_just_claimed_is_not_forgotten_with_the_one_it_was_of(tmp_path: Path) -> None:
    run = run_of("secret")
    tier = opened(tmp_path)
    stored(tier, run)
    tier.claim(run.keys, "a")
    forgotten(tier, "secret")
    for again in (tier, opened(tmp_path)):
        assert_holds(read(again, run.keys, run.tokens), run.keys)
        assert set(again.chat_bytes()) == {"a"}


@pytest.mark.parametrize("is_open", [True, False])
def test_of_a_file_that_others_own_the_beginning_of_that_stays(tmp_path: Path, *, is_open: bool) -> None:
    run = spilled(ROOT_KEY, pages(0, 4), [frozenset({"secret", "b"})] * 2 + [frozenset({"secret"})] * 2)
    tier = opened(tmp_path)
    stored(tier, run)
    before, (whole,) = tier.usage, page_files(tmp_path)
    used = whole.stat().st_mtime_ns
    if is_open:
        forgotten(tier, "secret")
    else:
        tier.close(60)
        assert forget_in_folder(tmp_path, {digest_of("secret")})
    (path,) = page_files(tmp_path)
    assert chats_of(path) == (frozenset({"b"}),) * 2
    assert (path.stem, path.stat().st_mtime_ns) == (run.keys[1].hex(), used)
    for again in (tier, opened(tmp_path)) if is_open else (opened(tmp_path),):
        assert_holds(read(again, run.keys[:2], run.tokens[:2]), run.keys[:2])
        assert [again.find(key) for key in run.keys] == [True, True, False, False]
        assert set(again.chat_bytes()) == {"b"}
        assert again.usage.total_bytes == path.stat().st_size
    if is_open:  # the other counts by the clock that is on the wall
        assert tier.usage.written_today == before.written_today + path.stat().st_size


@pytest.mark.parametrize("has_room", [True, False])
def test_what_stays_and_what_goes_never_take_more_than_the_cap_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_room: bool
) -> None:
    run = spilled(ROOT_KEY, pages(0, 4), [frozenset({"secret", "b"})] * 2 + [frozenset({"secret"})] * 2)
    size, replaced, most = file_size(run), os.replace, list[int]()
    tier = opened(tmp_path, cap=2 * size if has_room else 2 * size - 1000)
    stored(tier, run)

    def noting(source: Path, target: Path) -> None:
        replaced(source, target)
        most.append(sum(path.stat().st_size for path in page_files(tmp_path)))

    monkeypatch.setattr(Path, "replace", noting)
    forgotten(tier, "secret")
    assert (max(most) > size) is has_room
    assert max(most) <= tier.cap_bytes
    assert [tier.find(key) for key in run.keys] == [True, True, False, False]


def test_a_beginning_that_was_just_claimed_stays_too(tmp_path: Path) -> None:
    run = run_of("secret")
    tier = opened(tmp_path)
    stored(tier, run)
    tier.claim(run.keys[:3], "a")
    forgotten(tier, "secret")
    for again in (tier, opened(tmp_path)):
        assert_holds(read(again, run.keys[:3], run.tokens[:3]), run.keys[:3])
        assert not again.find(run.keys[3])
        assert set(again.chat_bytes()) == {"a"}
    assert owners_in(tmp_path) == {"a"}


def test_of_a_damaged_file_nothing_stays(tmp_path: Path) -> None:
    run = spilled(ROOT_KEY, pages(0, 4), [frozenset({"secret", "b"})] * 3 + [frozenset({"secret"})])
    stored(opened(tmp_path), run)
    (path,) = page_files(tmp_path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert forget_in_folder(tmp_path, {digest_of("secret")})
    assert page_files(tmp_path) == []


def test_where_the_disk_takes_no_file_the_beginning_goes_with_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = spilled(ROOT_KEY, pages(0, 4), [frozenset({"secret", "b"})] * 3 + [frozenset({"secret"})])
    tier = opened(tmp_path)
    stored(tier, run)
    monkeypatch.setattr("engine.kv.ssd.folder.SsdFolder.write", full)
    forgotten(tier, "secret")
    assert page_files(tmp_path) == []
    assert not any(tier.find(key) for key in run.keys)
    assert tier.forgotten == frozenset()


def test_files_that_lose_an_owner_stay_as_old_as_they_were(tmp_path: Path) -> None:
    runs = [run_of("a", "secret", first=100 * number) for number in range(3)]
    stored(opened(tmp_path), *runs)
    before = [path.stat().st_mtime_ns for path in page_files(tmp_path)]
    assert forget_in_folder(tmp_path, {digest_of("secret")})
    assert [path.stat().st_mtime_ns for path in page_files(tmp_path)] == before


def test_without_a_model_files_of_all_models_are_forgotten(tmp_path: Path) -> None:
    shared, mixed = run_of("a", "b"), spilled(ROOT_KEY, pages(100, 2), [frozenset("ab"), frozenset("a")])
    of_nobody = spilled(ROOT_KEY, pages(300, 4), [frozenset[str]()] * 4)
    stored(opened(tmp_path), shared, mixed, of_nobody)
    stored(opened(tmp_path, OTHER), run_of("a", first=400), run_of("b", first=500))
    leftover = tmp_path / OTHER.digest / f".{'ab' * 16}.tmp"
    leftover.write_bytes(b"half a file")
    assert forget_in_folder(tmp_path, {digest_of("a")})
    tier, other = opened(tmp_path), opened(tmp_path, OTHER)
    assert [tier.find(run.keys[-1]) for run in (shared, mixed, of_nobody)] == [True, False, True]
    assert set(tier.chat_bytes()) == set(other.chat_bytes()) == {"b"}
    assert not leftover.exists()
    assert tier.quarantined_files == 0


def test_without_a_model_and_a_folder_there_is_nothing_to_forget(tmp_path: Path) -> None:
    assert forget_in_folder(tmp_path / "kv", {digest_of("a")})
    assert not (tmp_path / "kv").exists()


def test_what_is_not_ours_or_damaged_survives_a_forgotten_chat(tmp_path: Path) -> None:
    stored(opened(tmp_path), run_of("secret"), run_of("a", first=100))
    home = page_files(tmp_path)[0].parent
    foreign = home / f"{'cd' * 16}.safetensors"
    foreign.write_bytes(b"of a newer layout")
    assert forget_in_folder(tmp_path, {digest_of("secret")})
    assert foreign.read_bytes() == b"of a newer layout"
    assert len(page_files(tmp_path)) == 2


def test_a_file_whose_owners_cannot_be_written_anew_in_place_goes_with_the_chat(tmp_path: Path) -> None:
    others = [f"{number}" + "\N{SNOWMAN}" * 40 for number in range(9)]
    stored(opened(tmp_path), run_of("secret", *others))
    (path,) = page_files(tmp_path)

    def shorter(header: dict[str, Any]) -> None:
        chats = json.loads(header["__metadata__"]["chats"])
        header["__metadata__"]["chats"] = json.dumps(chats, ensure_ascii=False)

    forged(path, shorter)
    assert owners_in(tmp_path) == {"secret", *others}
    assert forget_in_folder(tmp_path, {digest_of("secret")})
    assert page_files(tmp_path) == []


def test_pages_that_are_nobody_s_stay_where_a_chat_s_are_another_s_too(tmp_path: Path) -> None:
    run = spilled(ROOT_KEY, pages(0, 2), [frozenset({"a", "b"}), frozenset[str]()])
    stored(opened(tmp_path), run)
    assert forget_in_folder(tmp_path, {digest_of("a")})
    (path,) = page_files(tmp_path)
    assert chats_of(path) == (frozenset({"b"}), frozenset[str]())


def test_what_a_writer_that_is_gone_has_left_goes_with_deleted_chats(tmp_path: Path) -> None:
    run = run_of("a")
    stored(opened(tmp_path), run)
    left = tmp_path / IDENTITY.digest / f".{'ab' * 16}.tmp"
    left.write_bytes(b"half a file of a deleted chat")
    assert forget_in_folder(tmp_path, {digest_of("b")})
    assert not left.exists()
    assert len(page_files(tmp_path)) == 1


def test_a_file_in_another_s_place_is_not_a_chat_s_that_another_process_forgot(tmp_path: Path) -> None:
    whole = run_of("a")
    end = spilled(whole.keys[1], whole.tokens[2:], ("b", "secret"))
    first = opened(tmp_path)
    stored(first, end)
    second = opened(tmp_path)
    forgotten(first, "secret")
    stored(second, whole)
    second.close(60)
    (path,) = page_files(tmp_path)
    assert chats_of(path) == (frozenset({"a"}),) * 2 + (frozenset({"a", "b"}),) * 2


def test_a_forgotten_chat_is_not_found_again_where_another_process_writes_its_file_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of("secret")
    tier = opened(tmp_path)
    stored(tier, run)
    other = opened(tmp_path)
    for name in names(30):
        other.claim(run.keys[:2], name)  # its end is the chat's alone
    with monkeypatch.context() as patch:
        patch.setattr("engine.kv.ssd.owners.forget_chats", lambda *_: Forgotten({}, False))
        tier.forget_chat("secret")
        other.close(10)  # the file has another size
        stored(tier, run_of("b", first=900))  # which learns what changed
        assert not tier.find(run.keys[0])
        assert set(tier.chat_bytes()) == {"b"}
    tier.remove_forgotten()
    assert owners_in(tmp_path) == {"b", *names(30)}
    assert [tier.find(key) for key in run.keys] == [True, True, False, False]


def test_a_file_that_another_process_has_claimed_outlives_the_chat_it_was_of(tmp_path: Path) -> None:
    run = run_of("secret")
    tier = opened(tmp_path)
    stored(tier, run)
    claiming = opened(tmp_path)
    claiming.claim(run.keys, "b")
    claiming.close(10)
    tier.forget_chat("secret")
    assert not tier.find(run.keys[0])  # for all that is known here
    tier.remove_forgotten()
    assert_holds(read(tier, run.keys, run.tokens), run.keys)
    assert set(tier.chat_bytes()) == owners_in(tmp_path) == {"b"}


def test_a_file_that_the_disk_does_not_let_lose_an_owner_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(opened(tmp_path), run_of("secret", "b"))
    monkeypatch.setattr("engine.kv.ssd.forgotten.write_chats", full)
    assert forget_in_folder(tmp_path, {digest_of("secret")})
    assert page_files(tmp_path) == []
