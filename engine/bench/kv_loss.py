"""What a quantised KV cache costs: a model's own predictions on real pages, as computed and quantised."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import mlx.core as mx

from engine.commands import Message
from engine.errors import InvalidRequest, NonFiniteLogits
from engine.kv.arena import Arena
from engine.kv.memory import KVMemory
from engine.kv.page_table import PageTable
from engine.kv.pager import Pager
from engine.loading.model import LoadedModel, load_model
from engine.runner import Runner
from engine.settings import EngineSettings
from engine.steps.parts import Part

CHUNK = 128
"""Tokens at once: their logits, twice, are all that is held beside the pages."""

Text = str | Sequence[Message]
"""Plain text, or a conversation for a model with a chat template."""


@dataclass(frozen=True, slots=True)
class KvLoss:
    """How a model with a quantised KV cache differs from itself without, over all tokens of some texts.

    Attributes:
        bits: of a stored key or value element.
        positions: predictions that were compared, one after each token.
        agreement: share of them whose likeliest token is the same.
        mean_change, largest_change: |Δ log-probability| of the token that is likeliest without, in nats.
        divergence: mean KL divergence from the distribution without to the one with, in nats.
    """

    bits: int
    positions: int
    agreement: float
    mean_change: float
    largest_change: float
    divergence: float


def measure_kv_loss(path: Path, bits: int, texts: Sequence[Text]) -> KvLoss:
    """Load the model in folder `path` and measure what a KV cache of `bits` bits costs it on `texts`.

    Each text is read from its beginning, as far as the model's context goes, on MLX's own operations.

    Raises:
        ModelError, TokenizerError: the model cannot be loaded.
        InvalidRequest: it has no chat template for a conversation, or the texts hold no token.
        EngineError: its KV cache cannot be quantised.
    """
    model = load_model(path, EngineSettings(executor="reference"), lambda loaded, total: None)
    return loss_of(model, bits, [_tokens(model, text) for text in texts])


def loss_of(model: LoadedModel, bits: int, sequences: Sequence[Sequence[int]]) -> KvLoss:
    """What a KV cache of `bits` bits costs `model`, which has none, on sequences of token ids.

    Raises:
        InvalidRequest: they hold no token.
        EngineError: its KV cache cannot be quantised.
        NonFiniteLogits: the model breaks on them.
    """
    positions = sum(map(len, sequences))
    if not positions:
        raise InvalidRequest("there is no token to measure on; give a text that is not empty")
    plain, coded = _Reader(model), _Reader(_with_bits(model, bits))
    agreed, change, largest, divergence = 0, 0.0, 0.0, 0.0
    for sequence in sequences:
        for before, after in zip(plain.read(sequence), coded.read(sequence), strict=True):
            best = before.argmax(axis=-1, keepdims=True)
            changes = mx.abs(mx.take_along_axis(after - before, best, axis=-1))
            agreed += _number((after.argmax(axis=-1, keepdims=True) == best).sum())
            change += _number(changes.sum())
            largest = max(largest, _number(changes.max()))
            divergence += _number((mx.exp(before) * (before - after)).sum())
    if not math.isfinite(change + divergence):
        raise NonFiniteLogits(f"{model.info.name} gives NaN or infinity; its weights or files are damaged")
    return KvLoss(bits, positions, agreed / positions, change / positions, largest, divergence / positions)


class _Reader:
    """Reads sequences on a model's pages."""

    def __init__(self, model: LoadedModel) -> None:
        self._model, self._runner = model, Runner(model)

    def read(self, sequence: Sequence[int]) -> Iterator[mx.array]:
        """Log-probabilities (tokens, vocab) of what follows each token, CHUNK tokens at a time."""
        memory, table = self._model.memory, PageTable()
        for begin in range(0, len(sequence), CHUNK):
            tokens = tuple(sequence[begin : begin + CHUNK])
            memory.grow(table, begin + len(tokens))
            logits = self._runner.fill(Part(table, len(tokens), rows=len(tokens)), tokens)
            mx.eval(logits, self._runner.results)
            memory.trim(table)
            yield logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        memory.free(table)


def _with_bits(model: LoadedModel, bits: int) -> LoadedModel:
    """The same weights on quantised pages."""
    config, info = model.config, model.info
    layer = model.decoder.attention[0].shape
    arena = Arena(config.layers, config.kv_heads, config.head_dim, info.page_size, layer.dtype, bits)
    pager = Pager(info.total_pages, info.page_size)
    memory = KVMemory(pager, arena, window=config.largest_window)
    return replace(model, arena=arena, pager=pager, memory=memory)


def _tokens(model: LoadedModel, text: Text) -> list[int]:
    tokenizer = model.tokenizer
    tokens = tokenizer.encode(text) if isinstance(text, str) else tokenizer.encode_chat(text)
    return tokens[: model.info.context_length]


def _number(array: mx.array) -> float:
    return cast(float, array.item())
