"""How much deleting gives back."""

from __future__ import annotations

from pathlib import Path

from app.library.disk import freed_by


def test_links_are_understood_and_shared_bytes_counted_once(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "plain").write_bytes(b"x" * 1000)
    (folder / "again").hardlink_to(folder / "plain")
    (tmp_path / "elsewhere").write_bytes(b"y" * 5000)
    (folder / "soft").symlink_to(tmp_path / "elsewhere")
    assert freed_by([folder]) == 1000  # both names of it are in the folder
    assert freed_by([folder / "plain", folder / "plain"]) == 0  # the other name keeps it alive
    assert freed_by([folder, folder / "plain"]) == 1000
    assert freed_by([tmp_path / "elsewhere", folder / "soft"]) == 5000
    assert freed_by([folder / "gone"]) == 0


def test_a_hard_link_from_outside_keeps_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"x" * 700)
    (tmp_path / "in" / "b").write_bytes(b"x" * 30)
    (tmp_path / "outside").hardlink_to(tmp_path / "in" / "a")
    assert freed_by([tmp_path / "in"]) == 30


def test_a_link_to_a_folder_is_not_gone_into(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a").write_bytes(b"x" * 700)
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "link").symlink_to(tmp_path / "far")
    assert freed_by([tmp_path / "near"]) == 0
    assert freed_by([tmp_path / "near" / "link"]) == 0
