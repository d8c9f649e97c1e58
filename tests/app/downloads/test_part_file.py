"""Parts: found again, trusted as far as they may be, and never a blob before their time."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from app.downloads.part_file import SYNC_EVERY, PartFile, mark_of, part_of

SIZE = 300_000


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    return tmp_path / "blob"


def test_what_was_written_is_there_again(blob: Path) -> None:
    with closing(PartFile(blob)) as part:
        part.put(0, b"one")
        part.remember('"tag"')
        part.put(3, b"two")
    with closing(PartFile(blob)) as again:
        assert (again.length, again.etag, again.safe) == (6, '"tag"', 0)
        assert b"".join(again.chunks(0, 6)) == b"onetwo"
        assert b"".join(again.chunks(2, 4)) == b"et"
        again.sync(6)
        assert again.safe == 6
    with closing(PartFile(blob)) as again:
        assert again.safe == 6
        again.clear()
        assert (again.length, again.etag, again.safe) == (0, "", 0)
    assert not blob.exists()


def test_other_bytes_are_replaced_in_their_place_and_that_is_told(blob: Path) -> None:
    with closing(PartFile(blob)) as part:
        assert not part.put(0, b"one two"), "there were none"
        part.sync(7)
        part.distrust(4)
        assert not part.put(0, b"one"), "they are the same"
        assert part.put(4, b"TWO three")
        assert not part.put(8, b"three four"), "the same, and more"
        assert b"".join(part.chunks(0, 99)) == b"one TWO three four"
        part.sync(6)
    with closing(PartFile(blob)) as again:
        assert (again.length, again.safe) == (18, 6)


def test_a_part_becomes_the_blob_in_one_step(blob: Path) -> None:
    with closing(PartFile(blob)) as part:
        part.put(0, b"all")
        part.sync(3)
        part.become_blob()
    assert blob.read_bytes() == b"all"
    assert [path.name for path in blob.parent.iterdir()] == ["blob"]


def test_a_kill_right_after_it_became_the_blob_leaves_nothing_beside_it(
    blob: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []
    replace = Path.replace

    def watched(path: Path, target: Path) -> Path:
        moved = replace(path, target)
        seen.append({one.name for one in blob.parent.iterdir()})
        return moved

    with closing(PartFile(blob)) as part:
        part.put(0, b"all")
        part.sync(3)
        mark_of(blob).with_name(f"{mark_of(blob).name}.new").write_text("half a ma")  # an earlier kill
        monkeypatch.setattr(Path, "replace", watched)
        part.become_blob()
    assert seen == [{"blob"}]


def test_much_is_brought_to_the_disk_on_the_way(blob: Path) -> None:
    with closing(PartFile(blob)) as part:
        part.put(0, b"x" * (SYNC_EVERY - 1))
        assert part.safe == 0
        part.put(SYNC_EVERY - 1, b"yz")
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
