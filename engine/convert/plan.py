"""What a conversion will write, known to the byte from the source's headers alone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.convert.settings import ConvertSettings
from engine.convert.shard import Shard, StoredAs, cut_shards
from engine.errors import ConversionError, ModelError
from engine.loading.folder import SafetensorsFiles
from engine.loading.model import open_model
from engine.loading.quantization import QuantizationSpec
from engine.loading.safetensors_file import StoredTensor, stored_tensors
from engine.loading.safetensors_weights import IGNORED, INDEX

_DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_BESIDE = (
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "chat_template*",
    "generation_config.json",
    "LICENSE*",
    "NOTICE*",
    "USE_POLICY*",
)
"""What a model folder holds beside config.json and weights, and the result needs too."""


@dataclass(frozen=True, slots=True)
class TensorPlan:
    """A tensor of the source: cast to `dtype` ("BF16"), and packed as `spec` says where there is one."""

    source: StoredTensor
    dtype: str
    spec: QuantizationSpec | None

    @property
    def outputs(self) -> tuple[StoredAs, ...]:
        """What is written for it: itself, or packed words, scales and, for affine, biases."""
        name, shape = self.source.name, self.source.shape
        if self.spec is None:
            return (StoredAs(name, self.dtype, shape),)
        (rows, columns), matrix = shape, name.removesuffix("weight")
        words = StoredAs(name, "U32", (rows, columns * self.spec.bits // 32))
        groups = (rows, columns // self.spec.group_size)
        if self.spec.mode != "affine":
            return words, StoredAs(f"{matrix}scales", "U8", groups)
        return words, *(StoredAs(f"{matrix}{part}", self.dtype, groups) for part in ("scales", "biases"))


@dataclass(frozen=True, slots=True)
class ConversionPlan:
    """A conversion, ready to run.

    Attributes:
        tensors: in the order they lie in the source.
        shards: the weight files, in order.
        texts: the other files that are written, by name; config.json among them.
        copies: files that are copied as they are.
        left: matrices that do not divide into groups and stay as they are.
    """

    tensors: tuple[TensorPlan, ...]
    shards: tuple[Shard, ...]
    texts: Mapping[str, bytes]
    copies: tuple[Path, ...]
    left: tuple[str, ...]

    @property
    def source_bytes(self) -> int:
        """Bytes of tensors that are read."""
        return sum(plan.source.end - plan.source.begin for plan in self.tensors)

    @property
    def result_bytes(self) -> int:
        """Bytes of all files of the result."""
        small = sum(map(len, self.texts.values())) + sum(file.stat().st_size for file in self.copies)
        return small + sum(shard.size for shard in self.shards)


def plan_conversion(source: Path, settings: ConvertSettings, shard_bytes: int) -> ConversionPlan:
    """Look at the model in folder `source` and decide everything; only headers and small files are read.

    Raises ModelError or TokenizerError for a source that is no model we run, ConversionError for one that
    cannot be converted so.
    """
    model = open_model(source)
    if not isinstance(model.weights, SafetensorsFiles):
        raise ConversionError(f"{source} is a GGUF file; convert from a folder of .safetensors weights")
    if model.quantization is not None:
        raise ConversionError(
            f"{source} is quantised already ({model.quantization}); "
            "convert from the unquantised version of this model"
        )
    raw, spec = model.weights.raw, settings.spec
    files = sorted({header.file for header in model.weights.headers.values()})
    kept = _kept((tensor for file in files for tensor in stored_tensors(file)), model.config.tied_embeddings)
    dtype = settings.dtype or raw.get("torch_dtype")  # "dtype" promises nothing of each tensor: as mlx-lm
    tensors = tuple(_tensor_plan(tensor, dtype, spec) for tensor in kept)
    left = tuple(plan.source.name for plan in tensors if plan.spec is None and _is_matrix(plan.source))
    if spec is not None and not any(plan.spec for plan in tensors):
        raise ConversionError(
            f"no matrix of {source} divides into groups of {spec.group_size}; try a smaller --group-size"
        )
    shards = cut_shards([plan.outputs for plan in tensors], shard_bytes)
    config = _config(raw, settings)
    texts = {INDEX: _index(shards, tensors), "config.json": _json(config)}
    return ConversionPlan(tensors, shards, texts, _beside(source), left if spec else ())


def _kept(stored: Iterable[StoredTensor], tied: bool) -> list[StoredTensor]:
    """What a model of the supported families is made of; the same is left out as by mlx-lm."""
    return [
        tensor
        for tensor in stored
        if not tensor.name.endswith(IGNORED) and not (tied and tensor.name.startswith("lm_head."))
    ]


def _is_matrix(tensor: StoredTensor) -> bool:
    return len(tensor.shape) == 2 and tensor.name.endswith(".weight")


def _tensor_plan(tensor: StoredTensor, dtype: object, spec: QuantizationSpec | None) -> TensorPlan:
    if tensor.dtype not in _DTYPES.values():
        raise ModelError(
            f"{tensor.file}: tensor {tensor.name} is {tensor.dtype}; F32, F16 and BF16 can be converted"
        )
    packs = spec is not None and _is_matrix(tensor) and tensor.shape[1] % spec.group_size == 0
    return TensorPlan(tensor, _DTYPES.get(str(dtype), tensor.dtype), spec if packs else None)


def _config(raw: Mapping[str, object], settings: ConvertSettings) -> dict[str, object]:
    config = {name: value for name, value in raw.items() if name != "_name_or_path"}
    if settings.dtype is not None:
        config["dtype" if "dtype" in config else "torch_dtype"] = settings.dtype
    if (spec := settings.spec) is not None:
        entry = {"group_size": spec.group_size, "bits": spec.bits, "mode": spec.mode}
        config["quantization"] = config["quantization_config"] = entry
    return dict(sorted(config.items()))


def _index(shards: Sequence[Shard], tensors: Sequence[TensorPlan]) -> bytes:
    weight_map = {place.tensor.name: shard.name for shard in shards for place in shard.places}
    metadata = {
        "total_size": sum(place.tensor.bytes for shard in shards for place in shard.places),
        "total_parameters": sum(math.prod(plan.source.shape) for plan in tensors),
    }
    return _json({"metadata": metadata, "weight_map": dict(sorted(weight_map.items()))})


def _json(value: Mapping[str, object]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _beside(source: Path) -> tuple[Path, ...]:
    found = {file for pattern in _BESIDE for file in source.glob(pattern) if file.is_file()}
    return tuple(sorted(found))
