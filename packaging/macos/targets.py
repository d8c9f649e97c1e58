"""The two MLXR.app that are made, and which of them the environment asks for.

MLX's shaders for the matrix units of an M5 are only in its wheels for macOS 26, and those need macOS 26. So
one app is made of the wheels for the oldest macOS that MLXR runs on, and one of those for macOS 26.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "MLXR_MACOS"


@dataclass(frozen=True)
class Target:
    """One of the two.

    Attributes:
        name: "14" or "26", as in `make app MACOS=26`.
        system: what it is called in the list of releases, and in its file's name.
    """

    name: str
    system: str

    @property
    def oldest(self) -> str:
        """The oldest macOS that it runs on."""
        return f"{self.name}.0"

    @property
    def wheels(self) -> Path:
        """The table of the wheels that it is made of."""
        return Path(__file__).with_name(f"wheels-macos{self.name}.txt")


TARGETS = {target.name: target for target in (Target("14", "macos14-arm64"), Target("26", "macos26-arm64"))}


def chosen(environment: Mapping[str, str] = os.environ) -> Target:
    """The target that MLXR_MACOS names; without it, the one for every Mac. Raises ValueError for others."""
    name = environment.get(VARIABLE) or "14"
    if name not in TARGETS:
        raise ValueError(f"{VARIABLE} is {name}; it is one of {' and '.join(TARGETS)}")
    return TARGETS[name]
