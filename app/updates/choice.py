"""Which of the files of a release is for this machine."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from app.updates.manifest import Artefact

MACOS_14, MACOS_26, LINUX = "macos14-arm64", "macos26-arm64", "linux-x86_64"
SYSTEMS = (MACOS_14, MACOS_26, LINUX)

FIRST_WITH_MATRIX_UNITS = 5
"""The first Apple M whose GPU has matrix units. MLX uses them (`metal::is_nax_available` in its
mlx/backend/metal/device.cpp) from GPU generation 17 and macOS 26.2 on, and has shaders for them in its wheels
for macOS 26 alone."""

_CHIP = re.compile(r"Apple M(\d+)\b")


@dataclass(frozen=True, slots=True)
class Machine:
    """What the choice depends on.

    Attributes:
        platform: "darwin" or "linux", as sys.platform.
        processor: "arm64", "x86_64", as platform.machine.
        macos: (26, 1); () elsewhere.
        chip: "Apple M5 Pro"; "" where it is not known.
    """

    platform: str
    processor: str
    macos: tuple[int, ...] = ()
    chip: str = ""


def system_for(machine: Machine) -> str:
    """One of SYSTEMS, or "" for a machine that no file is made for."""
    if machine.platform == "linux" and machine.processor == "x86_64":
        return LINUX
    if machine.platform != "darwin" or machine.processor != "arm64" or machine.macos < (14,):
        return ""
    chip = _CHIP.match(machine.chip)
    has_units = chip is not None and int(chip[1]) >= FIRST_WITH_MATRIX_UNITS
    return MACOS_26 if has_units and machine.macos >= (26,) else MACOS_14


def artefact_for(machine: Machine, artefacts: Sequence[Artefact]) -> Artefact | None:
    """The file for the machine; where the best one is not there, one that runs; None where none does."""
    best = system_for(machine)
    wanted = (best, MACOS_14) if best == MACOS_26 else (best,)
    for system in wanted:
        for artefact in artefacts:
            if artefact.system == system and machine.macos >= _numbers(artefact.minimum_macos):
                return artefact
    return None


def this_machine() -> Machine:
    """The one that this runs on. Asks `sysctl` on a Mac: not on the window's thread."""
    if sys.platform != "darwin":
        return Machine(sys.platform, platform.machine())
    # Of the system itself: platform.mac_ver() gives a compatible number to programs built for older systems.
    return Machine(
        sys.platform,
        platform.machine(),
        _numbers(_sysctl("kern.osproductversion")) or _numbers(platform.mac_ver()[0]),
        _sysctl("machdep.cpu.brand_string"),
    )


def _sysctl(name: str) -> str:
    command = ["/usr/sbin/sysctl", "-n", name]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
