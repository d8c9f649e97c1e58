"""What the SSD tier counts: bytes by day and by chat, over runs, models and processes."""

from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from engine.kv.page_data import ROOT_KEY
from engine.kv.page_file import encode
from engine.kv.ssd.folder import SsdFolder
from engine.kv.ssd.index import ChatBytes
from engine.kv.ssd.notes import digest_of
from engine.kv.ssd.owners import forget_in_folder
from tests.engine.kv.spilled import IDENTITY, OTHER, Pages, assert_holds, pages, read, spilled
from tests.engine.kv.ssd.tiers import DAY, Clock, chain, file_size, found, held_up, opened, page_files, stored


def test_bytes_written_are_counted_by_day_over_runs_and_processes(tmp_path: Path) -> None:
    runs, clock = chain(4), Clock()
    first, second = opened(tmp_path, clock=clock), opened(tmp_path, OTHER, clock=clock)
    assert first.usage.written_today == 0
    stored(first, runs[0])
    stored(second, runs[1])
    stored(first, runs[2])
    size = file_size(runs[0])
    assert abs(first.usage.written_today - 3 * size) < 8
    assert second.usage.written_today == first.usage.written_today
    assert abs(opened(tmp_path, clock=clock).usage.written_today - 3 * size) < 8
    clock.now += DAY
    assert first.usage.written_today == 0
    stored(first, runs[3])
    assert abs(first.usage.written_today - size) < 8
    clock.now -= DAY
    assert abs(first.usage.written_today - 3 * size) < 8


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"mark": 1}',
        '{"mark": "a", "written": [1]}',
        '{"mark": "a", "written": {"x": 1}}',
        "\x00",
        "[" * 200_000,
    ],
    ids=range(8),
)
def test_a_damaged_ledger_counts_from_nothing(tmp_path: Path, text: str) -> None:
    runs = chain(2)
    stored(opened(tmp_path), runs[0])
    (tmp_path / "ledger.json").write_text(text)
    tier = opened(tmp_path)
    assert tier.usage.written_today == 0
    stored(tier, runs[1])
    assert tier.usage.written_today == file_size(runs[1])
    assert found(tier, runs) == [True, True]


def test_for_a_pipe_in_the_ledger_s_place_nobody_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ledger.json")
    (run,) = chain(1)
    tier = opened(tmp_path)
    stored(tier, run)
    assert tier.usage.written_today == file_size(run)
    assert (tmp_path / "ledger.json").is_file()


def test_what_the_cache_takes_is_told_by_each_model_as_another_has_just_changed_it(tmp_path: Path) -> None:
    runs, cap = chain(4), 2 * file_size(chain(1)[0]) + 60
    first, second = opened(tmp_path, cap=cap), opened(tmp_path, OTHER, cap=cap)

    def told() -> tuple[int, int]:
        assert first.usage.total_bytes == sum(path.stat().st_size for path in page_files(tmp_path))
        return first.usage.total_bytes, second.usage.total_bytes

    size = file_size(runs[0])
    stored(second, runs[0])
    assert told() == (size, size)
    stored(first, runs[1])
    stored(second, runs[2])  # in place of the oldest
    assert told() == (2 * size, 2 * size)
    first.quarantine(runs[1].keys)
    stored(second, replace(runs[3], chats=(frozenset({"other"}),) * 4))
    assert told() == (2 * size, 2 * size)
    second.forget_chat("other")
    second.remove_forgotten()
    assert told() == (size, size)
    assert forget_in_folder(tmp_path, {digest_of("chat")})  # by a process that has no model any more
    assert told() == (0, 0)


def test_a_folder_without_a_total_in_its_ledger_is_counted(tmp_path: Path) -> None:
    (run,) = chain(1)
    stored(opened(tmp_path), run)
    told = json.loads((tmp_path / "ledger.json").read_text())
    assert told.pop("total") == file_size(run)
    (tmp_path / "ledger.json").write_text(json.dumps(told))  # as an older version wrote it
    assert opened(tmp_path).usage.total_bytes == file_size(run)


def test_a_file_counts_from_before_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = chain(2)
    tier = opened(tmp_path)
    stored(tier, one)
    has_begun, may_end = held_up(monkeypatch)
    assert tier.put(two)
    assert has_begun.wait(60)
    told = json.loads((tmp_path / "ledger.json").read_text())
    assert told["total"] == sum(told["written"].values()) == file_size(one) + file_size(two)
    may_end.set()
    tier.close(60)


def test_while_an_older_version_writes_there_each_counts_for_itself(tmp_path: Path) -> None:
    (run,) = chain(1)
    tier = opened(tmp_path)
    stored(tier, run)
    (tmp_path / "ledger.json").write_text(json.dumps({"mark": "of theirs", "written": {}}))
    assert tier.usage.total_bytes == file_size(run)


def test_a_clock_that_jumps_changes_neither_order_nor_readiness(tmp_path: Path) -> None:
    runs = [chain(1, 1000 * number)[0] for number in range(6)]
    cap, clock = 6 * file_size(runs[0]) + 60, Clock()
    tier = opened(tmp_path, cap=cap, clock=clock)
    for run, now in zip(runs, (2e9, 1e9, 4e9, 0.0, -5.0, 1.7e9), strict=True):
        clock.now = now
        stored(tier, run)
    assert_holds(read(tier, runs[0].keys, runs[0].tokens), runs[0].keys)
    tier.close(1)
    again = opened(tmp_path, cap=cap, clock=clock)
    stored(again, *(chain(1, 9000 + 1000 * number)[0] for number in range(3)))
    assert found(again, runs) == [True, False, False, False, True, True]
    assert len(json.loads((tmp_path / "ledger.json").read_text())["written"]) == 6


def test_only_so_many_days_are_kept(tmp_path: Path) -> None:
    clock = Clock()
    tier = opened(tmp_path, clock=clock)
    for number in range(40):
        clock.now += DAY
        stored(tier, chain(1, 1000 * number)[0])
    days = [int(day) for day in json.loads((tmp_path / "ledger.json").read_text())["written"]]
    assert sorted(days) == list(range(20_009, 20_041))


def test_bytes_are_counted_for_each_chat(tmp_path: Path) -> None:
    sets = [frozenset(names) for names in (("a", "b"), ("a",), ("a",), ())]
    run = spilled(ROOT_KEY, pages(0, 4), sets)
    page = run.data.nbytes // 4
    tier = opened(tmp_path)
    stored(tier, run, spilled(run.keys[0], pages(100, 2), ("b",)))
    for again in (tier, opened(tmp_path)):
        assert again.chat_bytes() == {"a": ChatBytes(3 * page, page), "b": ChatBytes(3 * page, page)}
    tier.claim([run.keys[1], b"?" * 16], "c")
    tier.claim(run.keys[:2], "c")
    assert tier.chat_bytes() == {
        "a": ChatBytes(3 * page, 2 * page),
        "b": ChatBytes(3 * page, page),
        "c": ChatBytes(2 * page, 2 * page),
    }
    assert tier.put(replace(run, chats=(frozenset(("d",)),) * 4))  # is there already, and now also d's
    assert tier.chat_bytes()["d"] == ChatBytes(4 * page, 3 * page)
    before = tier.chat_bytes()
    tier.close(1)
    tier = opened(tmp_path)
    assert tier.chat_bytes() == before
    tier.quarantine(run.keys[:1])
    assert tier.chat_bytes() == {"b": ChatBytes(2 * page, 0)}


def test_a_page_that_waits_is_claimed_too(tmp_path: Path) -> None:
    run = chain(1)[0]
    tier = opened(tmp_path)
    with SsdFolder(tmp_path, IDENTITY.digest, shutil.disk_usage).locked():
        assert tier.put(run)
        tier.claim(run.keys[:1], "late")
        assert tier.put(replace(run, chats=(frozenset(("later",)),) * 4))
        assert_holds(read(tier, run.keys, run.tokens), run.keys)
    assert tier.flush(60)
    page = run.data.nbytes // 4
    expected = {
        "chat": ChatBytes(4 * page, 4 * page),
        "late": ChatBytes(page, page),
        "later": ChatBytes(4 * page, 4 * page),
    }
    assert tier.chat_bytes() == expected
    assert opened(tmp_path).chat_bytes() == expected


def test_a_forgotten_chat_leaves_nothing_that_was_only_its_own(tmp_path: Path) -> None:
    shared = spilled(ROOT_KEY, pages(0, 4), ("a", "b"))
    mixed = spilled(shared.keys[-1], pages(100, 2), [frozenset("ab"), frozenset("a")])
    own_of_b = spilled(shared.keys[-1], pages(200, 4), ("b",))
    of_nobody = spilled(ROOT_KEY, pages(300, 4), [frozenset[str]()] * 4)
    elsewhere = spilled(ROOT_KEY, pages(400, 4), ("a",))
    stored(opened(tmp_path, OTHER), elsewhere)
    tier = opened(tmp_path)
    stored(tier, shared, mixed, own_of_b, of_nobody)
    tier.forget_chat("a")
    assert found(tier, [shared, mixed, own_of_b, of_nobody]) == [True, False, True, True]
    assert not opened(tmp_path, OTHER).find(elsewhere.keys[0])
    assert set(tier.chat_bytes()) == {"b"}
    assert tier.chat_bytes()["b"].shared == 0
    tier = opened(tmp_path)  # without an end: a crash does not bring a forgotten chat back
    assert set(tier.chat_bytes()) == {"b"}
    tier.forget_chat("b")
    assert found(tier, [shared, mixed, own_of_b, of_nobody]) == [False, False, False, True]
    tier.remove_forgotten()
    assert len(page_files(tmp_path)) == 1


def test_two_processes_see_each_others_pages_and_keep_one_cap(tmp_path: Path) -> None:
    runs = [chain(1, 1000 * number)[0] for number in range(30)]
    cap = 10 * file_size(runs[0]) + 100
    first, second = opened(tmp_path, cap=cap), opened(tmp_path, cap=cap)
    threads = [
        threading.Thread(target=lambda tier=tier, part=part: stored(tier, *part))
        for tier, part in ((first, runs[::2]), (second, runs[1::2]))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    there = {path.stem for path in page_files(tmp_path)}
    assert len(there) == 10
    for tier in (first, second):
        for run in runs:
            if run.keys[-1].hex() not in there:
                assert read(tier, run.keys, run.tokens) is None
        stored(tier, spilled(ROOT_KEY, pages(77_000, 4)))  # whoever writes learns what the other did
    assert sum(path.stat().st_size for path in page_files(tmp_path)) <= cap
    there = {path.stem for path in page_files(tmp_path)}
    assert [run for run in runs if second.find(run.keys[0])] == [
        run for run in runs if run.keys[-1].hex() in there
    ]


def test_a_file_that_another_process_replaced_is_learnt_anew(tmp_path: Path) -> None:
    tokens: Pages = pages(0, 6)
    whole = spilled(ROOT_KEY, tokens)
    end = spilled(whole.keys[3], tokens[4:])
    first, second = opened(tmp_path), opened(tmp_path)
    stored(first, whole)
    path = tmp_path / IDENTITY.digest / f"{whole.keys[-1].hex()}.safetensors"
    path.write_bytes(b"".join(encode(end, IDENTITY, 0).buffers))  # the same last page, so the same name
    assert read(first, whole.keys, whole.tokens) is None
    assert [first.find(key) for key in whole.keys] == [False] * 4 + [True] * 2
    assert_holds(read(first, end.keys, end.tokens), end.keys)
    assert first.usage.total_bytes == path.stat().st_size
    assert second.quarantined_files == 0
