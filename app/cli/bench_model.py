"""The model that `mlxr bench` measures: one that is there, or one of a known shape, written for the run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.amounts import size
from app.errors import AppError
from app.model_location import GUIDE
from engine import SHAPES, Quant, peer_quant, write_shape

ROOM = 1 << 24
"""Bytes to spare beside the matrices: tokenizer, norms, headers."""


@dataclass(frozen=True, slots=True)
class ShapeModel:
    """A shape that was written: the model, and what mlx-lm loads, which is another one for a GGUF file."""

    model: Path
    peer: Path


@contextmanager
def shape_model(name: str, quant: Quant, context: int) -> Generator[ShapeModel]:
    """A model of the shape `name` that holds `context` tokens, removed at the end.

    Raises AppError when the disk has no room for it, or the shape cannot be in such blocks.
    """
    shape, quants = SHAPES[name], dict.fromkeys((quant, peer_quant(quant)))
    needed = sum(shape.file_bytes(one) + ROOM for one in quants)
    with tempfile.TemporaryDirectory(prefix="mlxr-bench-") as parent:
        free = shutil.disk_usage(parent).free
        if free < needed:
            raise AppError(
                f"{name} takes {size(needed)} and {Path(parent).parent} has {size(free)} free; "
                "make room, or set TMPDIR to a folder on another disk"
            )
        written: dict[Quant, Path] = {}
        for one in quants:
            folder = Path(parent) / (name if one == "none" else f"{name}-{one}")
            folder.mkdir()
            try:
                written[one] = write_shape(folder, shape, one, context, GUIDE)
            except ValueError as error:
                raise AppError(f"{name}: {error}") from None
        yield ShapeModel(written[quant], written[peer_quant(quant)])
