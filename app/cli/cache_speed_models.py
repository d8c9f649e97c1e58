"""Models that a part of `mlxr bench --cache` writes for itself, beside the one that is measured."""

from __future__ import annotations

from pathlib import Path

from app.cli.cache_speed_scene import Scene
from app.model_location import GUIDE
from engine import BenchShape, kernel_table, write_shape


def write_model(
    scene: Scene, folder: Path, shape: BenchShape, context: int, seed: int = 0, speaking: int | None = None
) -> Path:
    """A model with random weights in the new `folder`; see `write_shape`. Raises EngineError.

    Its kernels are tried now, so that none is while something is measured.
    """
    folder.mkdir(parents=True)
    write_shape(folder, shape, "none", context, GUIDE, seed, speaking)
    try_kernels(scene, folder)
    return folder


def try_kernels(scene: Scene, model: Path) -> None:
    """Where the machine has some for `model`. Raises EngineError."""
    kernel_table(scene.settings.cache, model, scene.say)
