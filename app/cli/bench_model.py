"""The model that `mlxr bench` measures: one that is there, or one of a known shape, written for the run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from app.errors import AppError
from app.model_location import GUIDE
from engine import SHAPES, Quant, write_shape

ROOM = 1 << 24
"""Bytes to spare beside the matrices: tokenizer, norms, headers."""


@contextmanager
def shape_model(name: str, quant: Quant, context: int) -> Generator[Path]:
    """A model folder of the shape `name` that holds `context` tokens, removed at the end.

    Raises AppError when the disk has no room for it.
    """
    shape = SHAPES[name]
    needed = shape.file_bytes(quant) + ROOM
    with tempfile.TemporaryDirectory(prefix="mlxr-bench-") as parent:
        free = shutil.disk_usage(parent).free
        if free < needed:
            raise AppError(
                f"{name} takes {needed / 1e9:.1f} GB and {Path(parent).parent} has {free / 1e9:.1f} GB free; "
                "make room, or set TMPDIR to a folder on another disk"
            )
        folder = Path(parent) / (name if quant == "none" else f"{name}-{quant}")
        folder.mkdir()
        write_shape(folder, shape, quant, context, GUIDE)
        yield folder
