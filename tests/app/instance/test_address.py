"""Sockets lie where a system of the narrower kind can bind them, and where nobody else could have put one."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from app.instance import address
from app.instance.address import LONGEST, Claim, check_folder, socket_path


@pytest.mark.parametrize("length", [1, 60, LONGEST - len("/mlxr.sock"), LONGEST, 300])
def test_every_data_folder_has_a_short_address_of_its_own(length: int) -> None:
    homes = [Path("/" + "ä" * ((length - 1) // 2) + letter * (1 + (length - 1) % 2)) for letter in "ab"]
    paths = [socket_path(home) for home in homes]
    assert len(set(paths)) == 2
    for home, path in zip(homes, paths, strict=True):
        assert len(os.fsencode(path)) <= LONGEST
        assert (path.parent == home) == (len(os.fsencode(home / "mlxr.sock")) <= LONGEST)
        assert path == socket_path(home)


def test_a_long_way_to_the_same_folder_leads_to_the_same_socket(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 30)
    home.mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    assert socket_path(tmp_path / "link" / home.name) == socket_path(home)


def test_an_address_can_be_bound_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / ("x" * (LONGEST - len(os.fsencode(tmp_path)) - len("//mlxr.sock")))
    home.mkdir()
    path = socket_path(home)
    assert len(os.fsencode(path)) == LONGEST
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def test_only_a_folder_of_ones_own_is_trusted_in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "_SHORT", tmp_path)
    ours = socket_path(Path("/" + "long" * 30)).parent
    ours.mkdir(mode=0o700)
    check_folder(ours)
    ours.chmod(0o777)
    with pytest.raises(PermissionError, match="not this account's alone"):
        check_folder(ours)
    elsewhere = ours.rename(tmp_path / "elsewhere")
    elsewhere.chmod(0o700)
    ours.symlink_to(elsewhere)
    with pytest.raises(PermissionError, match="not this account's alone"):
        check_folder(ours)
    somebody = elsewhere.stat().st_uid + 1
    monkeypatch.setattr(os, "getuid", lambda: somebody)
    theirs = elsewhere.rename(socket_path(Path("/" + "long" * 30)).parent)
    with pytest.raises(PermissionError, match="not this account's alone"):
        check_folder(theirs)


def test_a_data_folder_in_tmp_that_others_may_write_to_is_none_to_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address, "_SHORT", tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o775)
    assert socket_path(home).parent == home
    check_folder(home)


def test_a_claim_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    first, second = Claim(tmp_path / "home"), Claim(tmp_path / "home")
    assert [first.take(), second.take(), first.take()] == [True, False, True]
    first.release()
    assert [second.take(), first.take()] == [True, False]
    second.release()
