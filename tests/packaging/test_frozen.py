"""The frozen app for Linux: built, then run as people run it, from a folder that is awkward in every way.

It lies in a folder with spaces and letters outside ASCII, which is mounted read-only, and runs without a
network, without any program on PATH and without Python's variables.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

from metal.candidates import rms_norm_spec
from metal.trial_messages import Task
from metal.trial_runner import COMMAND, Checked, TrialRunner
from tests.packaging.frozen_app import PATIENCE, Mlxr

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "build" / "screenshots" / "frozen.png"
PROMPT = "What is MLXR?"
BUILDING = ROOT / "docs" / "building.md"
MOST_BYTES = 300_000_000
OF_THE_MACHINE = ("libopenblas", "libraries of the system", "libpython3.11", "python3")

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="the Mac's app is another one"),
]


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """An X server's display, and the file that holds what it shows, as xwd writes it."""
    for program in ("Xvfb", "xdotool"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}: apt-get install xvfb xdotool")
    read, write = os.pipe()
    server = ["Xvfb", "-screen", "0", "1280x800x24", "-fbdir", str(tmp_path), "-nolisten", "tcp", "-ac"]
    with subprocess.Popen(
        [*server, "-displayfd", str(write)], pass_fds=[write], stderr=subprocess.DEVNULL
    ) as x:
        os.close(write)
        try:
            with os.fdopen(read) as answer:
                yield f":{answer.readline().strip()}", tmp_path / "Xvfb_screen0"
        finally:
            x.terminate()


def picture(path: Path) -> QImage:
    """An xwd file: a header of big-endian words, a table of colours of 12 bytes each, the pixels."""
    data = path.read_bytes()
    words = struct.unpack(">25I", data[:100])
    width, height, row = words[4], words[5], words[12]
    return QImage(data[words[0] + 12 * words[19] :], width, height, row, QImage.Format.Format_RGB32).copy()


def mapped_files(process: int) -> set[str]:
    """What the process has loaded, and from where."""
    lines = Path(f"/proc/{process}/maps").read_text("utf-8").splitlines()
    return {fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6 and "/" in fields[5]}


def press(display: str, *arguments: str) -> None:
    environment = {**os.environ, "DISPLAY": display}
    subprocess.run(
        ["xdotool", *arguments], env=environment, timeout=PATIENCE, check=True, capture_output=True
    )


def answer(database: Path, prompt: str) -> str:
    """The finished answer to a prompt, as the chats on disk have it."""
    deadline = time.monotonic() + PATIENCE
    query = """SELECT answer.text FROM messages answer JOIN messages prompt ON answer.parent_id = prompt.id
        WHERE prompt.text = ? AND answer.status = 'complete'"""
    while time.monotonic() < deadline:
        with (
            contextlib.suppress(sqlite3.OperationalError),  # it is being made
            contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection,
        ):
            if row := connection.execute(query, (prompt,)).fetchone():
                return row[0]
        time.sleep(0.1)
    raise AssertionError(f"no answer in {database}")


def test_its_sizes_are_written_beside_it_and_within_the_budget(frozen_build: Path) -> None:
    files = (Path(folder, name) for folder, _, names in os.walk(frozen_build) for name in names)
    total = sum(file.stat().st_size for file in files if not file.is_symlink())
    assert total == json.loads((frozen_build.parent / "sizes.json").read_text("utf-8"))["total"]
    assert total <= MOST_BYTES


def test_the_documentation_tells_the_sizes_of_the_packages(frozen_build: Path) -> None:
    measured = json.loads((frozen_build.parent / "sizes.json").read_text("utf-8"))["components"]
    told = re.findall(r"^\| ([\d.]+) \| `(.+?)`", BUILDING.read_text("utf-8"), re.MULTILINE)
    assert len(told) >= 15
    told = [one for one in told if one[1] not in OF_THE_MACHINE]
    expected = {name: pytest.approx(float(size), rel=0.25, abs=1) for size, name in told}
    assert {name: measured.get(name, 0) / 1e6 for name in expected} == expected


def test_the_doctor_finds_nothing_broken_and_openblas_in_use(frozen: Mlxr) -> None:
    done = frozen.run("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "libopenblas.so.0 is used" in done.stdout
    assert "lib, whole\n" in done.stdout


def test_it_runs_its_own_modules_by_name_and_no_others(frozen: Mlxr) -> None:
    report = frozen.run("-m", "app", "doctor", "--report")
    assert (report.returncode, "System" in report.stdout) == (0, True), report.stderr
    trial = frozen.run("-P", "-m", "metal.trial", "--provider", "engine.kernels.cases", "--help")
    assert (trial.returncode, trial.stderr) == (0, "")
    other = frozen.run("-m", "this")
    assert (other.returncode, other.stdout) == (2, "")
    assert other.stderr.startswith("error: this is not a module")


def test_each_part_has_its_terms_beside_it(frozen_folder: Path) -> None:
    folder = frozen_folder / "lib" / "licences"
    parts = json.loads((folder / "licences.json").read_text("utf-8"))
    assert all((folder / part["file"]).stat().st_size for part in parts)
    assert not list(frozen_folder.rglob("libreadline*"))  # under the GPL
    assert {"Python", "PySide6_Essentials", "mlx", "libopenblas0-pthread"} <= {part["name"] for part in parts}


def test_no_folder_of_the_app_can_be_written(frozen: Mlxr, frozen_folder: Path) -> None:
    """The others mean something only if this holds: an import into a folder of the app fails."""
    done = frozen.run("convert", "guide", str(frozen_folder / "lib" / "copy"), "--quant", "q8")
    assert done.returncode == 1
    assert "Read-only" in done.stderr or "read-only" in done.stderr


def test_its_window_chats_with_the_guide(frozen_folder: Path, frozen: Mlxr, screen: tuple[str, Path]) -> None:
    display, pixels = screen
    with frozen.window(display) as process:
        press(display, "search", "--sync", "--onlyvisible", "--name", "MLXR", "windowfocus", "--sync")
        press(display, "type", "--delay", "20", PROMPT)
        press(display, "key", "Return")
        said = answer(frozen.data / "chats.sqlite3", PROMPT)
        assert "MLXR" in said
        loaded = mapped_files(process.pid)
        time.sleep(1)  # it is on the disk; one more second and it is on the screen as well
        shot = picture(pixels)
        press(display, "key", "ctrl+q")
        assert process.wait(PATIENCE) == 0
    assert [path for path in loaded if "libopenblas" in path] == [
        str(frozen_folder / "lib" / "libopenblas.so.0")
    ]
    assert not [path for path in loaded if path.startswith((f"{ROOT}/", f"{sys.base_prefix}/lib/python"))]
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    assert shot.save(str(PICTURE))
    colours = {shot.pixel(x, y) for x in range(0, 1000, 2) for y in range(0, 700, 2)}
    assert len(colours) > 30  # text has edges in many shades; an empty window a handful of colours


@pytest.mark.skipif(shutil.which("g++") is None, reason="the emulator compiles kernels")
def test_kernels_are_tried_in_a_process_of_the_app(frozen_folder: Path, tmp_path: Path) -> None:
    """The kernel's text and the emulator's are found in the app, and the compiler gets its own libraries."""
    command = (str(frozen_folder / "mlxr"), *COMMAND[1:])
    runner = TrialRunner("emulated", tmp_path, command=command)
    spec = rms_norm_spec(33, 7, "float32", adds=True)
    outcomes = list(runner.run([Task(spec, ("mlx", "rms_norm"), is_timed=False)]))
    checked = {one.candidate: one.status for one in outcomes if isinstance(one, Checked)}
    assert checked == {"mlx": "", "rms_norm": ""}, outcomes
