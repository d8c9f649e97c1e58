"""Parts: found again, trusted as far as they may be, and never a blob before their time."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from app.downloads.part_file import SYNC_EVERY, PartFile, mark_of, part_of
from tests.app.downloads.conftest import OpenStage
from tests.app.downloads.stage import model_repo, noise

SIZE = 300_000


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    return tmp_path / "blob"


def test_what_was_written_is_there_again(blob: Path) -> None:
    with closing(PartFile(blob)) as part:
        part.append(b"one")
        part.remember('"tag"')
        part.append(b"two")
    with closing(PartFile(blob)) as again:
        assert (again.length, again.etag, again.safe) == (6, '"tag"', 0)
        assert b"".join(again.chunks()) == b"onetwo"
        again.sync()
        assert again.safe == 6
        again.cut(3)
        assert (again.length, again.etag, again.safe) == (3, '"tag"', 3)
        again.cut(0)
        assert again.etag == ""
    assert not blob.exists()


def test_a_part_becomes_the_blob_in_one_step(blob: Path) -> None:
    with closing(PartFile(blob)) as part:
        part.append(b"all")
        part.sync()
        part.become_blob()
    assert blob.read_bytes() == b"all"
    assert [path.name for path in blob.parent.iterdir()] == ["blob"]


def test_much_is_brought_to_the_disk_on_the_way(blob: Path) -> None:
    with closing(PartFile(blob)) as part:
        part.append(b"x" * (SYNC_EVERY - 1))
        assert part.safe == 0
        part.append(b"yz")
        assert part.safe == part.length == SYNC_EVERY + 1


@pytest.mark.parametrize("mark", ["", "no JSON", "[]", '{"etag": 3, "safe": -1}', '{"safe": "x"}'])
def test_a_mark_that_is_broken_is_no_mark(mark: str, blob: Path) -> None:
    part_of(blob).write_bytes(b"bytes")
    mark_of(blob).write_text(mark)
    with closing(PartFile(blob)) as part:
        assert (part.length, part.etag, part.safe) == (5, "", 0)


def test_a_link_is_not_opened(blob: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    part_of(blob).symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match=r"symbolic link|many levels"):
        PartFile(blob)
    assert (tmp_path / "other").read_text() == "mine"


@pytest.mark.parametrize(
    ("there", "safe", "sent"),
    [
        (noise(SIZE)[:200_000], 150_000, 100_000),  # a kill: all that was written is right
        (noise(SIZE)[:150_000] + bytes(50_000), 150_000, 100_000 + 150_000),  # a power cut: the end is not
        (bytes(200_000), 150_000, 100_000 + 150_000 + SIZE),  # bytes that were synced, and are wrong
        (noise(SIZE) + b"more", SIZE, SIZE),  # longer than the file
        (noise(SIZE), SIZE, 0),  # whole, but for its name
    ],
)
def test_bytes_of_before_are_used_as_far_as_they_are_right(
    there: bytes, safe: int, sent: int, open_stage: OpenStage
) -> None:
    repo = model_repo(weights=SIZE)
    stage = open_stage(repo)
    blob = stage.cache / "models--org--model" / "blobs" / repo.tree["model.safetensors"].sha256
    blob.parent.mkdir(parents=True)
    part_of(blob).write_bytes(there)
    mark_of(blob).write_text(json.dumps({"etag": "", "safe": safe}))
    end = stage.finished("org/model")
    assert (end.path / "model.safetensors").read_bytes() == noise(SIZE)
    assert stage.hub.bytes_sent("org/model", "model.safetensors") == sent
