"""A file with wrong bytes: it is mended where it differs, and no more comes than up to there."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.downloads.agreement import FIRST, GROWTH
from app.downloads.events import Finished, Paused, Progress
from app.downloads.part_file import mark_of, part_of
from app.downloads.wanted import Wanted
from tests.app.downloads.conftest import OpenStage
from tests.app.downloads.stage import Stage, model_repo, noise, take_little_ahead
from tests.hub.faults import Fault

FILE = "model.safetensors"
SIZE = 300_000
RIGHT = noise(SIZE)
REPO = model_repo(weights=SIZE)
SLOWLY = Fault(FILE, "slow", rate=4_000_000, pieces=1000, times=None)
ON_ITS_WAY = 40_000
"""Bytes that such a hub has sent at most when a connection ends, and nobody took."""


@pytest.fixture(autouse=True)
def _little_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """However late this process is with reading."""
    monkeypatch.setattr(socket.socket, "connect", socket.socket.connect)  # undone behind the test
    take_little_ahead()


def wrong_at(*places: int) -> bytes:
    """The file with other bytes at `places`."""
    data = bytearray(RIGHT)
    for place in places:
        data[place] ^= 0xFF
    return bytes(data)


def leave(stage: Stage, there: bytes, safe: int = 0, etag: str = "") -> Path:
    """What an earlier run left of the file; its blob's place."""
    blob = stage.cache / "models--org--model" / "blobs" / REPO.tree[FILE].sha256
    blob.parent.mkdir(parents=True)
    part_of(blob).write_bytes(there)
    mark_of(blob).write_text(json.dumps({"etag": etag, "safe": safe}))
    return blob


def sent(stage: Stage) -> int:
    return stage.hub.bytes_sent("org/model", FILE)


@pytest.mark.parametrize(
    ("there", "safe", "needed"),
    [
        (RIGHT[:200_000], 150_000, 100_000),  # a kill: all that was written is right
        (RIGHT, SIZE, 0),  # whole, but for its name
        (RIGHT + b"more", SIZE, SIZE),  # longer than the file
        (RIGHT[:150_000] + bytes(50_000), 150_000, 100_000 + 50_000),  # a power cut: the end is not right
        (bytes(200_000), 150_000, 100_000 + 150_000 + 150_000),  # bytes in front of the mark are wrong too
    ],
)
def test_bytes_of_before_are_used_as_far_as_they_are_right(
    there: bytes, safe: int, needed: int, open_stage: OpenStage
) -> None:
    stage = open_stage(REPO)
    stage.hub.faults.add(SLOWLY)
    leave(stage, there, safe)
    end = stage.finished("org/model")
    assert (end.path / FILE).read_bytes() == RIGHT
    looks = "until it is right" in stage.whys()
    assert needed <= sent(stage) <= needed + looks * (FIRST + ON_ITS_WAY)


@pytest.mark.parametrize(
    ("places", "agreeing"),
    [
        ((0,), FIRST),
        ((123_456,), FIRST),
        ((SIZE - 1,), 0),
        (range(70_000, 140_000), FIRST),
        ((5, 6, 7, 60_000), FIRST * GROWTH),  # between the two it was looked once, in vain
    ],
)
def test_no_more_comes_than_up_to_the_last_wrong_byte(
    places: Sequence[int], agreeing: int, open_stage: OpenStage
) -> None:
    stage = open_stage(REPO)
    stage.hub.faults.add(SLOWLY)
    leave(stage, wrong_at(*places), SIZE)
    end = stage.finished("org/model")
    assert (end.path / FILE).read_bytes() == RIGHT
    assert places[-1] < sent(stage) <= min(SIZE, places[-1] + agreeing + 2 * ON_ITS_WAY)
    done = [event.done for event in stage.of(Progress)]
    assert max(done) == done[-1] == end.plan.size
    others = end.plan.size - SIZE
    assert places[-1] < end.fetched - others <= sent(stage)


def test_wrong_places_far_apart_are_all_mended(open_stage: OpenStage) -> None:
    rng = random.Random(7)
    for number in range(6):
        places = sorted(rng.sample(range(SIZE), rng.randrange(1, 6)))
        stage = open_stage(REPO)
        leave(stage, wrong_at(*places), SIZE)
        assert (stage.finished("org/model").path / FILE).read_bytes() == RIGHT, (number, places)
        for path in sorted(stage.cache.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_a_broken_connection_does_not_begin_it_anew(open_stage: OpenStage) -> None:
    stage = open_stage(REPO)
    stage.hub.faults.add(Fault(FILE, "cut", at=100_000), Fault(FILE, "cut", at=200_000, skip=1), SLOWLY)
    leave(stage, wrong_at(250_000), SIZE)
    stage.finished("org/model")
    ranges = [served.range for served in stage.hub.requests if served.on_cdn]
    assert ranges == [f"bytes={at}-299999" for at in (0, 100_000, 200_000)]
    assert sent(stage) <= 250_000 + FIRST + ON_ITS_WAY


def test_a_pause_does_not_begin_it_anew(open_stage: OpenStage) -> None:
    stage = open_stage(REPO)
    stall = Fault(FILE, "stall", at=200_000)
    stage.hub.faults.add(stall)
    blob = leave(stage, wrong_at(250_000), SIZE)
    id_ = stage.begin(Wanted("org/model"))
    stage.hub.faults.wait(stall)
    stage.wait_for(lambda event: isinstance(event, Progress) and 200_000 <= event.done < SIZE)
    stage.queue.pause(id_)
    assert isinstance(stage.end_of(id_), Paused)
    assert part_of(blob).stat().st_size == SIZE
    assert not blob.exists()
    stage.hub.faults.clear()
    before = len(stage.events)
    stage.queue.resume(stage.journal.pending()[0])
    assert isinstance(stage.end_of(id_, before), Finished)
    assert [served.range for served in stage.hub.requests if served.on_cdn][-1] == "bytes=200000-299999"


@pytest.mark.parametrize(("wrong", "ranges"), [(200_000, [100_000]), (50_000, [100_000, 0])])
def test_after_a_kill_it_goes_on_behind_the_mark_and_looks_in_front_of_it_last(
    wrong: int, ranges: list[int], open_stage: OpenStage
) -> None:
    stage = open_stage(REPO)
    leave(stage, wrong_at(wrong), 100_000, REPO.tree[FILE].cdn_etag.join('""'))
    assert (stage.finished("org/model").path / FILE).read_bytes() == RIGHT
    asked = [served.range for served in stage.hub.requests if served.on_cdn]
    assert asked == [f"bytes={at}-299999" for at in ranges]


def test_a_hub_that_goes_on_lying_is_asked_twice_and_no_more(open_stage: OpenStage) -> None:
    stage = open_stage(REPO)
    first, second = Fault(FILE, "wrong_byte", at=5), Fault(FILE, "wrong_byte", at=250_000, times=None)
    stage.hub.faults.add(first, second)
    end = stage.failed("org/model")
    assert "came twice with another checksum" in end.words
    assert stage.hub.faults.fired(first) == 1
    assert sent(stage) <= 2 * SIZE + 300_000, "it was read on behind a look in vain"
    assert not (stage.cache / "models--org--model" / "snapshots").exists()
    assert [part.stat().st_size for part in stage.cache.rglob("*.mlxr-part")] == [0]


def test_another_file_in_the_middle_of_it_is_fetched_whole(open_stage: OpenStage) -> None:
    stage = open_stage(REPO)
    stage.hub.faults.add(Fault(FILE, "cut", at=100_000), Fault(FILE, "change_etag", at=0, skip=1))
    leave(stage, wrong_at(200_000), SIZE)
    assert "came twice" in stage.failed("org/model").words
    assert "another file now" in stage.whys()
    assert not (stage.cache / "models--org--model" / "snapshots").exists()
