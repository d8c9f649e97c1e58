"""What the names of launches say: "mlx.Name" is an operation of MLX's, "host.name" a part of a step that the
host computes, and any other name one of our kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Launcher = Literal["ours", "MLX", "host"]

MLX, HOST = "mlx.", "host."


def launcher(name: str) -> Launcher:
    """Whose a launch of that name is."""
    return "MLX" if name.startswith(MLX) else "host" if name.startswith(HOST) else "ours"


def bare_name(name: str) -> str:
    """It without that."""
    return name.removeprefix(MLX).removeprefix(HOST)


def launches_of(whose: Launcher, launches: Mapping[str, int]) -> int:
    """How many of `launches`, by name, are theirs."""
    return sum(count for name, count in launches.items() if launcher(name) == whose)
