"""The loops that restoring is held against read every byte of the files that they are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.measure.verified_read import BLOCK, leave_page_cache, read_verified


def test_all_files_below_a_folder_are_read_whole(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "one.pages").write_bytes(b"a" * (2 * BLOCK + 7))
    (tmp_path / "deep" / "two.pages").write_bytes(b"b" * 100)
    (tmp_path / "other.txt").write_bytes(b"c" * 50)
    done = read_verified(tmp_path, ".pages")
    assert done.nbytes == 2 * BLOCK + 107
    assert done.rate == done.nbytes / done.seconds > 0


def test_files_that_left_the_page_cache_are_what_they_were(tmp_path: Path) -> None:
    (tmp_path / "one.pages").write_bytes(b"a" * BLOCK)
    leave_page_cache(tmp_path, ".pages")
    assert read_verified(tmp_path, ".pages").nbytes == BLOCK
    assert (tmp_path / "one.pages").read_bytes() == b"a" * BLOCK


@pytest.mark.parametrize("count", [1, 3, 9])
def test_every_file_is_read_once_however_many_there_are(tmp_path: Path, count: int) -> None:
    for number in range(count):
        (tmp_path / f"{number}.pages").write_bytes(b"a" * (100 * number + 1))
    assert read_verified(tmp_path, ".pages").nbytes == sum(100 * number + 1 for number in range(count))


def test_nothing_is_read_where_nothing_is(tmp_path: Path) -> None:
    assert read_verified(tmp_path, ".pages").nbytes == 0
