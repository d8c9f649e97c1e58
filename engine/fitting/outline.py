"""What a model is, from its headers alone, also where it is not run here; no tokenizer is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelError, TokenizerError
from engine.kv.coding import coding, head_bytes
from engine.loading.fingerprint import sampled_fingerprint
from engine.loading.folder import SafetensorsFiles, read_config
from engine.loading.folder import weight_files as folder_weights
from engine.loading.gguf.config import read_config as read_gguf_config
from engine.loading.gguf.files import GgufFiles
from engine.loading.gguf.files import weight_files as gguf_weights
from engine.loading.gguf.header import GgufHeader
from engine.loading.gguf.parts import gguf_file, part_files, read_parts
from engine.loading.gguf.placement import kernel_types
from engine.loading.safetensors_weights import read_headers
from engine.machine.machine import compute_dtype
from engine.models import configure
from engine.settings import choose_executor

_TOKENIZERS = ("tokenizer.json", "tokenizer.model")


@dataclass(frozen=True, slots=True)
class ModelOutline:
    """A model on disk, whole as far as headers tell.

    Attributes:
        format: "safetensors" or "gguf".
        files: that hold its weights; of a folder of safetensors also its config.json and tokenizer.
        family: its `model_type` or `general.architecture`, "" where it says none.
        problem: why it is not run here, one line; "" when it is.
        parameters: number of weights; of packed ones 0 in a model that is not run here.
        quantization: such as "4-bit, groups of 64 (affine)" or "Q4_K, Q6_K"; None where nothing is quantised.
        licence: as the file says, "" where it does not.
        weight_bytes: bytes the weights will take in memory here.
        context_length: tokens its config allows.
        largest_window: tokens that some layer may still look back on; None when a layer sees everything.
        kv_bytes_per_token: KV memory per token over all layers, as computed.
        fingerprint: equal for the same weights wherever they lie; see `sampled_fingerprint`.
        vocab_size: rows of its embedding: its tokens, and what pads them.

    The last six are 0, None or "" in a model that is not run here.
    """

    format: str
    files: tuple[Path, ...]
    family: str
    problem: str
    parameters: int
    quantization: str | None = None
    licence: str = ""
    weight_bytes: int = 0
    context_length: int = 0
    largest_window: int | None = None
    kv_bytes_per_token: int = 0
    fingerprint: str = ""
    vocab_size: int = 0


def outline_model(path: Path) -> ModelOutline:
    """Look at the headers of a model folder or a `.gguf` file.

    Raises ModelError, one line, where a file is missing, cut short, damaged or of a kind that is not read.
    """
    try:
        file = gguf_file(path)
        return _folder_outline(path) if file is None else _gguf_outline(file)
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}); check its permissions") from error


def _folder_outline(folder: Path) -> ModelOutline:
    raw = read_config(folder)
    headers = read_headers(folder)  # first: that a file is missing weighs more than that it is not run
    tokenizers = tuple(folder / name for name in _TOKENIZERS if (folder / name).is_file())
    if not tokenizers:
        raise TokenizerError(f"{folder} has neither tokenizer.json nor tokenizer.model; download one of them")
    weights = sorted({header.file for header in headers.values()})
    files = (folder / "config.json", *weights, *tokenizers)
    family = raw.get("model_type")
    family = family if isinstance(family, str) else ""
    try:
        config = configure(raw)
    except ModelError as error:
        plain = [header for header in headers.values() if header.dtype.startswith(("F", "BF"))]
        count = sum(math.prod(header.shape) for header in plain)
        return ModelOutline("safetensors", files, family, str(error), count)
    stored = folder_weights(raw, config, headers)
    return _runnable("safetensors", files, stored, stored.quantization_words)


def _gguf_outline(file: Path) -> ModelOutline:
    header = read_parts(file)
    files = tuple(part_files(file))
    licence = _text(header, "general.license")
    try:
        config = read_gguf_config(header, file)
    except ModelError as error:
        family = _text(header, "general.architecture")
        count = sum(math.prod(tensor.shape) for tensor in header.tensors.values())
        return ModelOutline("gguf", files, family, str(error), count, licence=licence)
    stored = gguf_weights(header, config)
    return _runnable("gguf", files, stored, stored.block_names, licence)


def _runnable(
    format_: str,
    files: tuple[Path, ...],
    stored: SafetensorsFiles | GgufFiles,
    quantization: str | None,
    licence: str = "",
) -> ModelOutline:
    config = stored.config
    dtype = compute_dtype(stored.stored_dtype)
    kinds = stored.kinds(dtype, kernel_types(choose_executor(None).name))
    return ModelOutline(
        format=format_,
        files=files,
        family=config.family,
        problem="",
        parameters=sum(kind.parameters for kind in kinds),
        quantization=quantization,
        licence=licence,
        weight_bytes=sum(kind.memory_bytes for kind in kinds),
        context_length=config.context_length,
        largest_window=config.largest_window,
        kv_bytes_per_token=2
        * config.layers
        * config.kv_heads
        * head_bytes(coding(config.head_dim, dtype, None)),
        fingerprint=sampled_fingerprint(stored.content()),
        vocab_size=config.vocab_size,
    )


def _text(header: GgufHeader, name: str) -> str:
    value = header.metadata.get(name)
    return value if isinstance(value, str) else ""
