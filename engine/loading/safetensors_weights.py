"""A model folder's safetensors files, checked before they are read, and the tensors in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import mlx.core as mx
import numpy as np
from safetensors import SafetensorError, safe_open

from engine.errors import ModelError
from engine.loading.config import read_json
from engine.loading.quantization import QuantizationConfig, QuantizationSpec, packed_spec
from engine.loading.shortage import is_of_memory
from engine.loading.weights import LoadLedger

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
IGNORED = ("rotary_emb.inv_freq", "attn.bias", "attn.masked_bias")
"""Ends of names of buffers that can be derived and are not read."""


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """A tensor's shape, safetensors dtype ("BF16" …) and size in the file."""

    file: Path
    shape: tuple[int, ...]
    dtype: str
    bytes: int


_DTYPE_BYTES = {
    "F64": 8,
    "I64": 8,
    "U64": 8,
    "F32": 4,
    "I32": 4,
    "U32": 4,
    "F16": 2,
    "BF16": 2,
    "I16": 2,
    "U16": 2,
}


def read_headers(folder: Path) -> dict[str, TensorHeader]:
    """Name, shape and size of every tensor, from the files' headers alone.

    Raises ModelError when there are no weights, a shard that the index names is missing, or a file is cut
    short.
    """
    headers: dict[str, TensorHeader] = {}
    for file in _weight_files(folder):
        found = _file_headers(file)
        if twice := next((name for name in found if name in headers), None):
            raise ModelError(
                f"{file}: tensor {twice:.80} is in {headers[twice].file.name} too; download the model again"
            )
        headers.update(found)
    return headers


def _weight_files(folder: Path) -> list[Path]:
    index = folder / INDEX
    if index.exists():
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise ModelError(f"{index} has no weight_map; download the model again")
        names = _file_names(index, cast(dict[str, object], weight_map))
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise ModelError(
                f"{len(missing)} of {len(names)} weight files are missing in {folder} "
                f"({INDEX} names {missing[0]}); download the model again"
            )
        return [folder / name for name in names]
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    files = sorted(file for file in folder.glob("*.safetensors") if file.is_file())
    if not files:
        raise _no_weights(folder)
    return [file for file in files if file.name.startswith("model")] or files


def _file_names(index: Path, weight_map: Mapping[str, object]) -> list[str]:
    """The files that hold the tensors. Raises ModelError for what is no name of a file beside the index."""
    names: set[str] = set()
    for tensor, name in weight_map.items():
        if not isinstance(name, str) or not _is_file_name(name):
            raise ModelError(
                f"{index}: weight_map has {tensor!r:.80} in {name!r:.80}, which is no file of this folder; "
                "download the model again"
            )
        names.add(name)
    return sorted(names)


def _is_file_name(name: str) -> bool:
    return name.isprintable() and Path(name).name == name and 0 < len(name.encode()) <= 255


def _no_weights(folder: Path) -> ModelError:
    pickled = sorted(file.name for file in folder.iterdir() if file.suffix in _PICKLED)
    if pickled:
        return ModelError(
            f"{folder} has only pickled weights ({pickled[0]}), which can run code when opened and never "
            "are; get a version of this model in .safetensors"
        )
    return ModelError(f"there are no .safetensors weights in {folder}; is this a model folder?")


class _Slice(Protocol):
    def get_shape(self) -> list[int]: ...
    def get_dtype(self) -> str: ...


class _SafetensorsFile(Protocol):
    def keys(self) -> list[str]: ...
    def get_slice(self, name: str) -> _Slice: ...


def _file_headers(file: Path) -> dict[str, TensorHeader]:
    headers: dict[str, TensorHeader] = {}
    try:
        opened = cast(AbstractContextManager[_SafetensorsFile], safe_open(file, framework="numpy"))
        with opened as tensors:  # maps the file and checks its header
            for name in tensors.keys():  # noqa: SIM118 — not a mapping
                part = tensors.get_slice(name)
                shape, dtype = tuple(part.get_shape()), part.get_dtype()
                size = math.prod(shape) * _DTYPE_BYTES.get(dtype, 1)
                headers[name] = TensorHeader(file, shape, dtype, size)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{file} is damaged or incomplete ({error!s:.120}); download it again") from error
    return headers


def _shown(headers: Mapping[str, TensorHeader]) -> str:
    """The files' names, for errors about what is in none of them."""
    names = sorted({header.file.name for header in headers.values()})
    return " … ".join(dict.fromkeys((names[0], names[-1]))) if names else "the weights"


class SafetensorsWeights:
    """Weights from safetensors files."""

    def __init__(
        self,
        headers: Mapping[str, TensorHeader],
        dtype: mx.Dtype,
        quantization: QuantizationConfig | None,
        on_bytes: Callable[[int], None],
    ) -> None:
        self.dtype = dtype
        self.ledger = LoadLedger(on_bytes)
        self._headers = headers
        self._quantization = quantization
        self._lazy: dict[str, mx.array] = {}
        self._prefix = ""
        for file in sorted({header.file for header in headers.values()}):
            try:
                loaded = mx.load(str(file))  # lazy: bytes are read when a tensor is evaluated
            except RuntimeError as error:
                raise ModelError(f"{file} holds tensors that MLX cannot read ({error!s:.120})") from error
            self._lazy.update(cast(dict[str, mx.array], loaded))

    def at(self, name: str) -> SafetensorsWeights:
        """The same tensors, seen from the prefix extended by `name`."""
        child = object.__new__(SafetensorsWeights)
        child.dtype, child.ledger = self.dtype, self.ledger
        child._headers, child._quantization, child._lazy = self._headers, self._quantization, self._lazy
        child._prefix = f"{self._prefix}{name}."
        return child

    def __contains__(self, name: str) -> bool:
        return f"{self._prefix}{name}" in self._headers

    def quantization(self, width: int) -> QuantizationSpec:
        """How the matrix at this prefix, of `width` columns, is packed."""
        weight, scales = self._header("weight"), self._header("scales")
        matrix = self._prefix.removesuffix(".")
        if self._quantization is None:
            raise ModelError(f"{matrix}.scales is there, but config.json has no quantization")
        if len(weight.shape) != 2 or len(scales.shape) != 2 or weight.dtype != "U32":
            raise ModelError(
                f"{weight.file.name}: tensor {matrix}.weight is {weight.dtype} {weight.shape!s:.80}, "
                "which is no packed matrix"
            )
        words, groups = weight.shape[1], scales.shape[1]
        spec = packed_spec(matrix, width, words, groups, small_float=scales.dtype == "U8")
        self._quantization.check(matrix, spec)
        return spec

    def array(self, name: str, shape: tuple[int, ...]) -> mx.array:
        """A dense tensor of `shape`, in the compute dtype."""
        return self._take(name, shape, cast_to=self.dtype)

    def packed(self, name: str, shape: tuple[int, ...], stands_for: int) -> mx.array:
        """A quantised matrix's packed uint32 words; `stands_for` weights are counted for it."""
        return self._take(name, shape, cast_to=None, stands_for=stands_for)

    def scales(self, name: str, shape: tuple[int, ...]) -> mx.array:
        """Scales or biases of a quantised matrix; floating ones in the compute dtype."""
        floating = self._header(name).dtype in ("F32", "F16", "BF16")
        return self._take(name, shape, cast_to=self.dtype if floating else None, stands_for=0)

    def placement(self, name: str) -> None:
        """None: safetensors files hold no GGUF blocks."""
        return

    def blocks(self, rows: Mapping[str, int], width: int) -> mx.array:
        """Raises ModelError: there are none."""
        raise ModelError(f"tensor {self._prefix}{next(iter(rows))} is not stored in GGUF blocks")

    def untaken(self) -> list[str]:
        """Names nobody asked for, but for buffers known to be derived."""
        return [
            name for name in self._headers if name not in self.ledger.taken and not name.endswith(IGNORED)
        ]

    def _header(self, name: str) -> TensorHeader:
        full = f"{self._prefix}{name}"
        header = self._headers.get(full)
        if header is None:
            raise ModelError(f"tensor {full} is missing from the weights ({_shown(self._headers)})")
        return header

    def _take(
        self, name: str, shape: tuple[int, ...], cast_to: mx.Dtype | None, stands_for: int | None = None
    ) -> mx.array:
        header = self._header(name)
        full = f"{self._prefix}{name}"
        if header.shape != shape:
            raise ModelError(
                f"{header.file.name}: tensor {full} has shape {header.shape!s:.80}; "
                f"config.json asks for {shape}"
            )
        array = self._lazy.pop(full)
        if cast_to is not None:
            array = array.astype(cast_to)
        try:
            mx.eval(array)  # reads it
        except RuntimeError as error:
            if is_of_memory(error):
                raise
            np.empty(header.bytes, np.uint8)  # on a CPU MLX takes memory that is not there for a bad file
            raise ModelError(
                f"{header.file} cannot be read any more ({error!s:.120}): it was changed, or the disk fails"
            ) from error
        self.ledger.add(full, array, array.size if stands_for is None else stands_for, header.bytes)
        return array
