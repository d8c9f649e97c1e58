"""The file for a machine: macOS 26's where it makes MLX faster, macOS 14's on every other Mac."""

from __future__ import annotations

import sys

import pytest

from app.updates.choice import SYSTEMS, Machine, artefact_for, system_for, this_machine
from tests.app.updates.conftest import MANIFEST

M5 = "Apple M5"


@pytest.mark.parametrize(
    ("machine", "system"),
    [
        (Machine("darwin", "arm64", (26, 2), M5), "macos26-arm64"),
        (Machine("darwin", "arm64", (26, 0), "Apple M5 Pro"), "macos26-arm64"),
        (Machine("darwin", "arm64", (27, 0), "Apple M10 Ultra"), "macos26-arm64"),
        (Machine("darwin", "arm64", (15, 7), M5), "macos14-arm64"),
        (Machine("darwin", "arm64", (26, 2), "Apple M4 Max"), "macos14-arm64"),
        (Machine("darwin", "arm64", (26, 2), "Apple A18 Pro"), "macos14-arm64"),
        (Machine("darwin", "arm64", (26, 2), ""), "macos14-arm64"),
        (Machine("darwin", "arm64", (14, 0), "Apple M1"), "macos14-arm64"),
        (Machine("darwin", "arm64", (13, 6), "Apple M1"), ""),
        (Machine("darwin", "x86_64", (14, 0), "Intel(R) Core(TM) i7"), ""),
        (Machine("linux", "x86_64"), "linux-x86_64"),
        (Machine("linux", "aarch64"), ""),
        (Machine("win32", "AMD64"), ""),
    ],
)
def test_each_machine_has_its_file(machine: Machine, system: str) -> None:
    assert system_for(machine) == system
    artefact = artefact_for(machine, MANIFEST.artefacts)
    assert (artefact.system if artefact else "") == system


def test_where_the_best_is_not_made_the_one_that_runs_is_taken() -> None:
    without = [one for one in MANIFEST.artefacts if one.system != "macos26-arm64"]
    chosen = artefact_for(Machine("darwin", "arm64", (26, 2), M5), without)
    assert chosen is not None
    assert chosen.system == "macos14-arm64"
    assert artefact_for(Machine("linux", "x86_64"), without[:1]) is None


def test_a_file_that_needs_a_newer_system_is_not_offered() -> None:
    assert artefact_for(Machine("darwin", "arm64", (14, 0), M5), MANIFEST.artefacts[1:]) is None


def test_this_machine_is_known() -> None:
    machine = this_machine()
    assert machine.platform == sys.platform
    assert system_for(machine) in SYSTEMS
    if sys.platform == "darwin":
        assert machine.macos >= (14,)
        assert machine.chip.startswith("Apple ")
