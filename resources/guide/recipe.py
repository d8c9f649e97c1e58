"""The guide's shape and how it is trained: the numbers of the recipe, each stated once."""

from __future__ import annotations

from dataclasses import dataclass

CONTEXT_LENGTH = 4096


@dataclass(frozen=True, slots=True)
class Shape:
    """A Llama: sizes in the words of its config.json."""

    vocab_size: int = 3072
    hidden_size: int = 256
    intermediate_size: int = 512
    num_hidden_layers: int = 5
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5


@dataclass(frozen=True, slots=True)
class Rows:
    """Training rows of one length: how many a step holds, and how often such a step comes."""

    length: int
    count: int
    share: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how hard to train.

    Attributes:
        steps: optimiser steps.
        chunks: corpus chunks drawn; turns are used again when steps need more.
        peak: highest learning rate, reached after `warmup` steps, then a cosine down to a hundredth.
        decay: weight decay of matrices.
        dropout: share of activations dropped.
        asked_weight: weight of the loss on a user's words; the guide's words weigh 1.
        average: decay of the running average of the weights, which is what is kept.
        rows: the lengths of rows: short ones for the first turn of a chat, long ones for whole chats.
    """

    steps: int = 4700
    chunks: int = 140
    peak: float = 2e-3
    warmup: int = 200
    decay: float = 0.1
    dropout: float = 0.05
    asked_weight: float = 0.03
    average: float = 0.997
    rows: tuple[Rows, ...] = (Rows(112, 288, 0.6), Rows(1024, 32, 0.3), Rows(CONTEXT_LENGTH, 8, 0.1))


TINY = Schedule(steps=20, chunks=1, warmup=5, rows=(Rows(96, 16, 0.8), Rows(512, 2, 0.2)))
