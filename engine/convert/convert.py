"""Converting a model: each tensor is read, cast, packed and written in runs of rows, never held whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import mlx.core as mx
import numpy as np

from engine.convert.plan import ConversionPlan, TensorPlan, plan_conversion
from engine.convert.settings import ConvertSettings
from engine.convert.shard import ShardWriter
from engine.convert.staging import staged, write_durably
from engine.errors import ConversionError, ModelError
from engine.loading.safetensors_file import StoredTensor, unreadable

RUN_BYTES = 4 << 20
"""Bytes of a tensor in its file that are in memory at once; one row where a row is longer."""
MOST_MEMORY = 64 * RUN_BYTES
"""Bytes that a conversion takes at most: on a CPU, MLX packs nvfp4 through 39 copies of a run."""
SHARD_BYTES = 5 << 30
"""Most bytes of tensors in one weight file, as mlx-lm has it."""
_MLX_DTYPES = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}


@dataclass(frozen=True, slots=True)
class Converted:
    """A finished conversion.

    Attributes:
        path: the new model's folder.
        result_bytes: of all its files.
        source_bytes: of the tensors it was made from.
        packed: matrices that were quantised.
        left: names of those that do not divide into groups and stay as they were.
    """

    path: Path
    result_bytes: int
    source_bytes: int
    packed: int
    left: tuple[str, ...]


def convert_model(
    source: Path,
    target: Path,
    settings: ConvertSettings,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    shard_bytes: int = SHARD_BYTES,
) -> Converted:
    """Write the Hugging Face model in folder `source` in MLX form to the new folder `target`.

    Tensors equal those of mlx-lm's convert with the same settings, bit for bit. Memory: at most
    MOST_MEMORY beside what Python and MLX take, whatever the model's size. `target` appears when all is
    written; whatever ends the conversion before, Ctrl-C and errors of `on_progress` included, leaves nothing.

    Args:
        source: config.json, .safetensors weights and a tokenizer.
        target: must not exist.
        settings: how weights are stored.
        on_progress: told bytes of tensors read so far, and of all.
        shard_bytes: most bytes of tensors in one file of the result.

    Raises ModelError or TokenizerError for a source that cannot be used, and ConversionError for one that
    cannot be converted so, and where `target` cannot be written or the disk has no room.
    """
    plan = plan_conversion(source, settings, shard_bytes)
    try:
        with staged(target) as folder:
            _check_room(plan.result_bytes, folder, target)
            _write_weights(plan, folder, on_progress)
            for file in plan.copies:
                write_durably(folder / file.name, _small_file(file))
            for name, text in plan.texts.items():  # config.json last: it makes a folder a model
                write_durably(folder / name, text)
    except OSError as error:
        raise ConversionError(
            f"{target} cannot be written ({error.strerror}); choose another place"
        ) from error
    packed = sum(tensor.spec is not None for tensor in plan.tensors)
    return Converted(target, plan.result_bytes, plan.source_bytes, packed, plan.left)


def _check_room(needed: int, folder: Path, target: Path) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ConversionError(
            f"{target} needs {needed:,} bytes and its disk has {free:,} free; make room or choose another"
        )


def _small_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise unreadable(file, error) from error


def _write_weights(plan: ConversionPlan, folder: Path, on_progress: Callable[[int, int], None]) -> None:
    tensors = iter(plan.tensors)
    done, total = 0, plan.source_bytes
    on_progress(done, total)
    for shard in plan.shards:
        left = len(shard.places)
        with (folder / shard.name).open("wb") as file:
            writer = ShardWriter(file, shard)
            while left:
                tensor = next(tensors)
                left -= len(tensor.outputs)
                for read in _convert(tensor, writer):
                    done += read
                    on_progress(done, total)
            writer.finish()


def _convert(plan: TensorPlan, writer: ShardWriter) -> Generator[int]:
    """Write one tensor; yields the bytes read with every run of rows."""
    names = [output.name for output in plan.outputs]
    for rows in _runs(plan.source):
        read = rows.nbytes
        parts: list[mx.array] = [rows.astype(_MLX_DTYPES[plan.dtype])]
        if (spec := plan.spec) is not None:
            parts = list(mx.quantize(parts[0], group_size=spec.group_size, bits=spec.bits, mode=spec.mode))
        for name, part in zip(names, parts, strict=True):
            writer.append(name, part)
        yield read
    mx.clear_cache()


def _runs(tensor: StoredTensor) -> Generator[mx.array]:
    """The tensor's rows, in runs of about RUN_BYTES. Raises ModelError when the file cannot be read."""
    rows = tensor.shape[0] if tensor.shape else 1
    size = tensor.end - tensor.begin
    if size == 0:
        return
    row_bytes = size // rows
    step = max(1, RUN_BYTES // row_bytes)
    with ExitStack() as stack:
        try:
            file = stack.enter_context(tensor.file.open("rb", buffering=0))
            file.seek(tensor.begin)
            for first in range(0, rows, step):
                count = min(step, rows - first)
                data = _read(file, count * row_bytes, tensor)
                # Of a numpy array mx.array would drop the KeyboardInterrupt that comes while it looks at it.
                flat = mx.array(data.data)  # pyright: ignore[reportArgumentType]  # its stubs lack buffers
                yield flat.view(_MLX_DTYPES[tensor.dtype]).reshape(count, *tensor.shape[1:])
        except OSError as error:
            raise unreadable(tensor.file, error) from error


def _read(file: FileIO, size: int, tensor: StoredTensor) -> np.ndarray:
    data = np.empty(size, np.uint8)
    view, done = data.data, 0
    while done < size:
        read = file.readinto(view[done:])
        if not read:
            raise ModelError(f"{tensor.file} ends within tensor {tensor.name}; download it again")
        done += read
    return data
