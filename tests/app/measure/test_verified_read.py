"""The loop that restoring is held against reads every byte of the files it is asked for."""

from __future__ import annotations

from pathlib import Path

from app.measure.verified_read import BLOCK, read_verified


def test_all_files_below_a_folder_are_read_whole(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "one.pages").write_bytes(b"a" * (2 * BLOCK + 7))
    (tmp_path / "deep" / "two.pages").write_bytes(b"b" * 100)
    (tmp_path / "other.txt").write_bytes(b"c" * 50)
    done = read_verified(tmp_path, ".pages")
    assert done.nbytes == 2 * BLOCK + 107
    assert done.rate == done.nbytes / done.seconds > 0


def test_nothing_is_read_where_nothing_is(tmp_path: Path) -> None:
    assert read_verified(tmp_path, ".pages").nbytes == 0
