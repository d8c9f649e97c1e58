"""The new folder is there whole or not at all, whatever ends a conversion."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.convert.convert import convert_model
from engine.convert.settings import ConvertSettings
from engine.convert.staging import staged
from engine.errors import ConversionError, ModelError
from engine.loading.model import open_model
from tests.app.cli.conftest import PATIENCE, environment
from tests.engine.convert.peer import assert_same_tensors
from tests.fakes.random_model import write_random_model

SETTINGS = ConvertSettings("q4", 32)


class Usage(NamedTuple):
    """What shutil.disk_usage tells."""

    total: int
    used: int
    free: int


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_random_model(tmp_path / "source")


def stop_with(error: BaseException) -> Callable[[int, int], None]:
    """Fails when a third of the weights is read."""

    def tell(done: int, total: int) -> None:
        if done > total / 3:
            raise error

    return tell


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), ValueError("a bug")])
def test_what_is_stopped_leaves_nothing(error: BaseException, source: Path, tmp_path: Path) -> None:
    with pytest.raises(type(error)):
        convert_model(source, tmp_path / "q4", SETTINGS, stop_with(error))
    assert [entry.name for entry in tmp_path.iterdir() if entry.name != "mlxr-home"] == ["source"]


def test_a_folder_in_the_making_is_no_model(source: Path, tmp_path: Path) -> None:
    looked = 0

    def look(done: int, total: int) -> None:
        nonlocal looked
        assert not (tmp_path / "q4").exists()
        (partial,) = tmp_path.glob(".q4*")
        with pytest.raises(ModelError, match=r"config.json is missing"):
            open_model(partial)
        looked += 1

    convert_model(source, tmp_path / "q4", SETTINGS, look)
    assert looked > 20
    assert not list(tmp_path.glob(".*"))


KILLED = """
import sys
from pathlib import Path
import engine
from engine.convert.convert import convert_model
from engine.convert.settings import ConvertSettings

def tell(done, total):
    if done > total / 3:
        print("a third", flush=True)
        sys.stdin.read()

convert_model(Path(sys.argv[1]), Path(sys.argv[2]), ConvertSettings("q4", 32), tell)
"""


def test_after_a_kill_the_next_run_starts_clean(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "q4"
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(source), str(target)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"a third\n"
        with pytest.raises(ConversionError, match="another process is converting to"):
            convert_model(source, target, SETTINGS)
        child.send_signal(signal.SIGKILL)
        child.wait(PATIENCE)
    (partial,) = tmp_path.glob(".q4*")
    assert list(partial.iterdir())
    assert not target.exists()
    (partial / "left.safetensors").write_bytes(b"of another version")
    convert_model(source, target, SETTINGS)
    convert_model(source, tmp_path / "again", SETTINGS)
    assert_same_tensors(target, tmp_path / "again")
    assert {file.name for file in target.iterdir()} == {file.name for file in (tmp_path / "again").iterdir()}
    assert not list(tmp_path.glob(".q4*"))


def test_what_exists_is_never_touched(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for name in ("file", "folder", "link", "source"):
        with pytest.raises(ConversionError, match=f"{name} exists already; choose another name or remove it"):
            convert_model(source, tmp_path / name, SETTINGS)
    assert (tmp_path / "file").read_text() == "mine"
    with pytest.raises(ConversionError, match=r"there is no folder .*/nowhere for q4; create it first"):
        convert_model(source, tmp_path / "nowhere" / "q4", SETTINGS)


def test_a_link_in_place_of_the_partial_folder_is_not_followed(source: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("years of work")
    (tmp_path / ".q4.partial").symlink_to(tmp_path / "precious")
    with pytest.raises(ConversionError, match="cannot be written"):
        convert_model(source, tmp_path / "q4", SETTINGS)
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "years of work"


def test_a_disk_without_room_is_known_before_anything_is_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = convert_model(source, tmp_path / "first", SETTINGS).result_bytes
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 0, needed - 1))
    read: list[int] = []
    with pytest.raises(ConversionError, match=f"needs {needed:,} bytes and its disk has {needed - 1:,} free"):
        convert_model(source, tmp_path / "q4", SETTINGS, lambda done, total: read.append(done))
    assert not read
    assert not list(tmp_path.glob("*q4*"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 0, needed))
    convert_model(source, tmp_path / "q4", SETTINGS)


LIMITED = """
import resource, sys
from app.command_line import main

resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
sys.exit(main(["convert", *sys.argv[1:], "--quant", "q4", "--group-size", "32"]))
"""


def test_a_write_that_the_system_refuses_is_one_line(source: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED, str(source), str(tmp_path / "q4")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert (
        done.stderr == f"error: {tmp_path / 'q4'} cannot be written (File too large); choose another place\n"
    )
    assert not list(tmp_path.glob("*q4*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_one_line(source: Path, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(ConversionError, match=r"q4 cannot be written \(Permission denied\)"):
        convert_model(source, tmp_path / "locked" / "q4", SETTINGS)


def test_a_name_too_long_is_one_line(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"cannot be written \(File name too long\)"):
        convert_model(source, tmp_path / ("x" * 250), SETTINGS)


def test_a_target_that_appears_meanwhile_is_kept(source: Path, tmp_path: Path) -> None:
    def appear(done: int, total: int) -> None:
        if done == total:
            (tmp_path / "q4").mkdir()
            (tmp_path / "q4" / "mine").write_text("mine")

    with pytest.raises(ConversionError, match="cannot be written"):
        convert_model(source, tmp_path / "q4", SETTINGS, appear)
    assert [entry.name for entry in (tmp_path / "q4").iterdir()] == ["mine"]


def test_the_folder_is_handed_out_empty(tmp_path: Path) -> None:
    (tmp_path / ".x.partial").mkdir()
    (tmp_path / ".x.partial" / "old").write_text("old")
    with staged(tmp_path / "x") as folder:
        assert not list(folder.iterdir())
        (folder / "new").write_text("new")
    assert (tmp_path / "x" / "new").read_text() == "new"
