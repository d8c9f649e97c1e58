"""Loading a model folder whole: configuration, tokenizer, weights, and room for its KV pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

from engine.errors import ModelError
from engine.events import ModelInfo
from engine.kv.arena import Arena
from engine.kv.pager import Pager
from engine.layers.decoder import Decoder
from engine.loading.config import DecoderConfig, read_json
from engine.loading.weights import TensorHeader, Weights, read_headers, total_bytes
from engine.machine import compute_dtype, device_kind, memory_bytes
from engine.models import configure
from engine.settings import EngineSettings, choose_executor
from engine.tokenizer import Tokenizer, load_tokenizer

KV_SHARE = 0.5
"""Share of the memory that weights leave free which KV pages may take, when no budget is set."""


@dataclass(slots=True)
class LoadedModel:
    """A model ready to run, with its own arena and pager."""

    info: ModelInfo
    config: DecoderConfig
    decoder: Decoder
    tokenizer: Tokenizer
    arena: Arena
    pager: Pager


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model folder whose configuration and headers were read and checked; no weight is in memory."""

    folder: Path
    config: DecoderConfig
    headers: dict[str, TensorHeader]
    tokenizer: Tokenizer
    stored_dtype: str


def open_model(folder: Path) -> ModelFiles:
    """Read and check everything but the weights. Raises ModelError or TokenizerError, one line."""
    if not folder.is_dir():
        raise ModelError(
            f"there is no model folder {folder}; give a folder with config.json and .safetensors files"
        )
    raw = read_json(folder / "config.json")
    config = configure(raw)
    headers = read_headers(folder)
    tokenizer = load_tokenizer(
        folder,
        vocab_size=config.vocab_size,
        config_eos=_token_ids(raw.get("eos_token_id")),
        config_bos=next(iter(_token_ids(raw.get("bos_token_id"))), None),
    )
    stored = raw.get("torch_dtype") or raw.get("dtype") or "bfloat16"
    return ModelFiles(folder, config, headers, tokenizer, str(stored))


def load_model(
    folder: Path, settings: EngineSettings, on_progress: Callable[[int, int], None]
) -> LoadedModel:
    """Load `folder`; `on_progress(loaded, total)` counts bytes of weights in memory.

    Raises ModelError or TokenizerError with one line that names the file or field. Whatever `on_progress`
    raises ends the load.
    """
    files = open_model(folder)
    dtype = compute_dtype(files.stored_dtype)
    decoder, weights = _load_decoder(files, dtype, on_progress)
    config, ledger = files.config, weights.ledger
    arena = Arena(config.layers, config.kv_heads, config.head_dim, settings.page_size, dtype)
    pager = Pager(_arena_pages(config, arena, settings, ledger.weight_bytes), settings.page_size)
    info = ModelInfo(
        path=str(folder),
        name=folder.resolve().name,
        family=config.family,
        parameters=ledger.parameters,
        weight_bytes=ledger.weight_bytes,
        dtype=str(dtype).removeprefix("mlx.core."),
        context_length=_usable_context(config, pager, settings),
        page_size=settings.page_size,
        total_pages=pager.total_pages,
        page_bytes=arena.page_bytes,
        executor=choose_executor(settings.executor)[0],
        device=device_kind(),
        has_chat_template=files.tokenizer.chat_template is not None,
    )
    return LoadedModel(info, config, decoder, files.tokenizer, arena, pager)


def _load_decoder(
    files: ModelFiles, dtype: mx.Dtype, on_progress: Callable[[int, int], None]
) -> tuple[Decoder, Weights]:
    total = total_bytes(files.headers.values())
    done = 0

    def count(header_bytes: int) -> None:
        nonlocal done
        done += header_bytes
        on_progress(min(done, total), total)

    on_progress(0, total)
    weights = Weights(files.headers, dtype, files.config.quantization, count)
    decoder = Decoder(files.config, weights)
    untaken = weights.untaken()
    if files.config.tied_embeddings:
        untaken = [name for name in untaken if not name.startswith("lm_head.")]
    if untaken:
        raise ModelError(
            f"{len(untaken)} tensors do not belong to a {files.config.family} model (first: {untaken[0]}); "
            "config.json and the weights do not match"
        )
    return decoder, weights


def _context_pages(config: DecoderConfig, settings: EngineSettings) -> int:
    # A request never holds more: where every layer has a window, pages that left it are given back.
    tokens = config.context_length
    if config.largest_window is not None:
        tokens = min(tokens, config.largest_window + settings.prefill_chunk + settings.page_size)
    return -(-tokens // settings.page_size)


def _arena_pages(config: DecoderConfig, arena: Arena, settings: EngineSettings, weight_bytes: int) -> int:
    budget = settings.kv_bytes
    if budget is None:
        budget = int(KV_SHARE * max(0, memory_bytes() - weight_bytes))
    pages = min(budget // arena.page_bytes, _context_pages(config, settings))
    if pages < 1:
        raise ModelError(
            f"one KV page takes {arena.page_bytes:,} bytes and the budget is {budget:,}; "
            "close other programs or use a smaller model"
        )
    return pages


def _usable_context(config: DecoderConfig, pager: Pager, settings: EngineSettings) -> int:
    if pager.total_pages >= _context_pages(config, settings):
        return config.context_length
    return min(config.context_length, pager.total_pages * pager.page_size)


def _token_ids(value: object) -> list[int]:
    values: list[object] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
    return [token for token in values if isinstance(token, int) and not isinstance(token, bool)]
