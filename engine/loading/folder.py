"""A model folder in Hugging Face's form: config.json, tokenizer files and safetensors."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

from engine.errors import ModelError
from engine.loading.config import DecoderConfig, read_json
from engine.loading.files import ModelFiles, StoredKind
from engine.loading.fingerprint import ModelContent
from engine.loading.quantization import QuantizationSpec, packed_spec
from engine.loading.safetensors_weights import SafetensorsWeights, TensorHeader, read_headers
from engine.models import configure
from engine.tokenizer import load_tokenizer
from metal.block_types import BlockType
from metal.matvec_weight import AFFINE_BITS

_FLOAT_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


def open_folder(folder: Path) -> ModelFiles:
    """Read and check everything but the weights. Raises ModelError or TokenizerError, one line."""
    raw = read_config(folder)
    config = configure(raw)
    weights = weight_files(raw, config, read_headers(folder))
    tokenizer = load_tokenizer(
        folder,
        vocab_size=config.vocab_size,
        config_eos=_token_ids(raw.get("eos_token_id")),
        config_bos=next(iter(_token_ids(raw.get("bos_token_id"))), None),
    )
    return ModelFiles(
        folder,
        folder.resolve().name,
        config,
        tokenizer,
        weights,
        weights.stored_dtype,
        weights.quantization_words,
    )


def read_config(folder: Path) -> dict[str, object]:
    """The folder's config.json. Raises ModelError, one line."""
    if not folder.is_dir():
        raise ModelError(
            f"there is no model folder {folder}; give a folder with config.json and .safetensors files, "
            "or a .gguf file"
        )
    return read_json(folder / "config.json")


def weight_files(
    raw: Mapping[str, object], config: DecoderConfig, headers: Mapping[str, TensorHeader]
) -> SafetensorsFiles:
    """The weights that the files' `headers` list, of the model whose config.json is `raw`."""
    if config.tied_embeddings:  # some files hold the output projection all the same
        headers = {name: header for name, header in headers.items() if not name.startswith("lm_head.")}
    return SafetensorsFiles(raw, config, headers)


@dataclass(frozen=True, slots=True)
class SafetensorsFiles:
    """A model's tensors in safetensors. `raw` is config.json as it is."""

    raw: Mapping[str, object]
    config: DecoderConfig
    headers: Mapping[str, TensorHeader]

    @property
    def stored_dtype(self) -> str:
        """What computing starts from, as config.json says it."""
        return str(self.raw.get("torch_dtype") or self.raw.get("dtype") or "bfloat16")

    @property
    def quantization_words(self) -> str | None:
        """Such as "4-bit, groups of 64 (affine)"; None where nothing is quantised."""
        quantization = self.config.quantization
        if quantization is None:
            return None
        mixed = ", some layers differ" if quantization.overrides else ""
        return f"{quantization.default}{mixed}"

    def total_bytes(self) -> int:
        """Bytes of all tensors on disk."""
        return sum(header.bytes for header in self.headers.values())

    def kinds(self, dtype: mx.Dtype, kernel_types: Collection[BlockType]) -> tuple[StoredKind, ...]:
        """How they are stored, and what they take when the model computes in `dtype`; largest first."""
        grouped: dict[QuantizationSpec | str, list[str]] = defaultdict(list)
        for name in self.headers:
            grouped[self._kind(name)].append(name)
        has_kernels = bool(kernel_types)
        kinds = [self._stored_kind(kind, names, dtype, has_kernels) for kind, names in grouped.items()]
        return tuple(sorted(kinds, key=lambda kind: -kind.memory_bytes))

    def open(
        self, dtype: mx.Dtype, kernel_types: Collection[BlockType], on_bytes: Callable[[int], None]
    ) -> SafetensorsWeights:
        """The tensors themselves; `on_bytes` hears of each one's bytes on disk when it was read."""
        del kernel_types  # there are no blocks
        return SafetensorsWeights(self.headers, dtype, self.config.quantization, on_bytes)

    def content(self) -> ModelContent:
        """What the model's KV pages depend on. Raises ModelError when a file cannot be read."""
        return ModelContent.of_safetensors(self.raw, sorted({one.file for one in self.headers.values()}))

    def _stored_kind(
        self, kind: QuantizationSpec | str, names: list[str], dtype: mx.Dtype, has_kernels: bool
    ) -> StoredKind:
        headers = [self.headers[name] for name in names]
        return StoredKind(
            str(kind),
            tensors=sum(not name.endswith((".scales", ".biases")) for name in names),
            parameters=sum(self._parameters(name) for name in names),
            file_bytes=sum(header.bytes for header in headers),
            memory_bytes=sum(_memory_bytes(header, dtype.size) for header in headers),
            runs=_runs(kind) if has_kernels and isinstance(kind, QuantizationSpec) else "",
        )

    def _kind(self, name: str) -> QuantizationSpec | str:
        """How a tensor is stored, packed or in a dtype; scales belong to their matrix."""
        packed = self._packed(name.rpartition(".")[0])
        return packed if packed and not name.endswith(".bias") else self.headers[name].dtype

    def _parameters(self, name: str) -> int:
        matrix, _, kind = name.rpartition(".")
        packed = self._packed(matrix)
        if packed is None or kind == "bias":
            return math.prod(self.headers[name].shape)
        return self.headers[name].shape[0] * self._width(matrix) if kind == "weight" else 0

    def _packed(self, matrix: str) -> QuantizationSpec | None:
        """How `matrix` is packed, as its shapes tell; None where it is dense or no matrix."""
        weight, scales = self.headers.get(f"{matrix}.weight"), self.headers.get(f"{matrix}.scales")
        if self.config.quantization is None or weight is None or scales is None or weight.dtype != "U32":
            return None
        if len(weight.shape) != 2 or len(scales.shape) != 2:
            return None
        words, groups = weight.shape[1], scales.shape[1]
        try:
            return packed_spec(matrix, self._width(matrix), words, groups, small_float=scales.dtype == "U8")
        except ModelError:
            return None  # the loader says so, when it comes to that matrix

    def _width(self, matrix: str) -> int:
        """Columns of a matrix before it was packed."""
        config = self.config
        special = {"o_proj": config.heads * config.head_dim, "down_proj": config.intermediate_size}
        return special.get(matrix.rpartition(".")[2], config.hidden_size)


def _runs(packed: QuantizationSpec) -> str:
    if packed.mode == "affine" and packed.bits in AFFINE_BITS:
        return "as in the file: kernels read it"
    return "as in the file: no kernel reads it, so MLX's own operations run"


def _memory_bytes(header: TensorHeader, float_bytes: int) -> int:
    stored = _FLOAT_BYTES.get(header.dtype)
    return header.bytes if stored is None else header.bytes // stored * float_bytes


def _token_ids(value: object) -> list[int]:
    values: list[object] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
    return [token for token in values if isinstance(token, int) and not isinstance(token, bool)]
