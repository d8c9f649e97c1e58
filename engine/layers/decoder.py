"""The stack that all dense decoder families share: embedding, blocks, final norm, output projection."""

from __future__ import annotations

import mlx.core as mx

from engine.layers.attention import (
    Attend,
    Attention,
    AttentionLayer,
    ProjectingAttend,
    Projection,
    Write,
)
from engine.layers.linear import load_embedding, load_linear
from engine.layers.mlp import SwiGLU
from engine.layers.norm import load_norm
from engine.layers.ops import BlockOps, LinearOps, Rows
from engine.layers.rope import Rope
from engine.loading.config import DecoderConfig
from engine.loading.weights import Weights


class DecoderBlock:
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(
        self, config: DecoderConfig, weights: Weights, layer: int, page_size: int, rope: Rope
    ) -> None:
        norm = load_norm(weights.at("input_layernorm"), config.hidden_size, config.norm_eps)
        self._attention = Attention(config, norm, weights.at("self_attn"), layer, page_size, rope)
        norm = load_norm(weights.at("post_attention_layernorm"), config.hidden_size, config.norm_eps)
        self._mlp = SwiGLU(config, norm, weights.at("mlp"))

    @property
    def attention(self) -> AttentionLayer:
        """What lies between this block's projections."""
        return self._attention.layer

    @property
    def projection(self) -> Projection:
        """What makes these."""
        return self._attention.projection

    def __call__(self, x: Rows, ops: BlockOps[Rows], attend: Attend[Rows] | ProjectingAttend[Rows]) -> Rows:
        return self._mlp(self._attention(x, ops, attend), ops)

    def last(self, x: Rows, ops: BlockOps[Rows], attend: Attend[Rows], rows: int) -> Rows:
        """The last `rows` of what x (tokens, width) comes to, of which `attend` yields no others."""
        return self._mlp(self._attention.last(x, ops, attend, rows), ops)

    def store(self, x: Rows, ops: BlockOps[Rows], write: Write[Rows]) -> None:
        """Only write the keys and values of x, (tokens, width)."""
        self._attention.store(x, ops, write)


class Decoder:
    """A dense pre-norm decoder with rotary positions, in Hugging Face's tensor names.

    Attributes:
        attention, projections: of its layers.
        lookup_bytes: of an embedding that is no output projection too: a step takes single rows of it.
    """

    def __init__(self, config: DecoderConfig, weights: Weights, page_size: int) -> None:
        """Takes every tensor it needs from `weights`. Raises ModelError for a missing or misshapen one."""
        self.vocab_size = config.vocab_size
        self.rope = rope = Rope(config.rope, config.head_dim)
        model = weights.at("model")
        before = weights.ledger.weight_bytes
        self._embedding = load_embedding(model.at("embed_tokens"), config.vocab_size, config.hidden_size)
        self.lookup_bytes = 0 if config.tied_embeddings else weights.ledger.weight_bytes - before
        self._blocks = [
            DecoderBlock(config, model.at(f"layers.{layer}"), layer, page_size, rope)
            for layer in range(config.layers)
        ]
        self.attention = tuple(block.attention for block in self._blocks)
        self.projections = tuple(block.projection for block in self._blocks)
        self._norm = load_norm(model.at("norm"), config.hidden_size, config.norm_eps)
        if config.tied_embeddings:
            self._output = self._embedding.as_linear()
        else:
            self._output = load_linear(weights.at("lm_head"), config.hidden_size, config.vocab_size)

    def hidden(self, tokens: mx.array, ops: BlockOps[Rows], attend: Attend[Rows]) -> Rows:
        """Last hidden states (tokens, width) of int32 ids (tokens,); writes their keys and values."""
        return self.through(self.embed(tokens, ops), ops, attend, range(len(self._blocks)))

    def last_hidden(
        self, tokens: mx.array, ops: BlockOps[Rows], attend: Attend[Rows], last: Attend[Rows], rows: int
    ) -> Rows:
        """As `hidden`, (rows, width): of other tokens the last layer only writes keys and values.

        `last`: attends in the last layer, and yields the last `rows` only.
        """
        x = self.through(self.embed(tokens, ops), ops, attend, range(len(self._blocks) - 1))
        return self._blocks[-1].last(x, ops, last, rows)

    def store(self, tokens: mx.array, ops: BlockOps[Rows], attend: Attend[Rows], write: Write[Rows]) -> None:
        """Only write the keys and values of int32 ids (tokens,), the last layer's too."""
        x = self.through(self.embed(tokens, ops), ops, attend, range(len(self._blocks) - 1))
        self._blocks[-1].store(x, ops, write)

    def embed(self, tokens: mx.array, ops: BlockOps[Rows]) -> Rows:
        """What goes into the first layer, (tokens, width), of int32 ids (tokens,)."""
        return ops.embed(tokens, self._embedding)

    def through(
        self, x: Rows, ops: BlockOps[Rows], attend: Attend[Rows] | ProjectingAttend[Rows], layers: range
    ) -> Rows:
        """x (tokens, width) behind these layers, which follow each other; writes their keys and values."""
        for layer in layers:
            x = self._blocks[layer](x, ops, attend)
        return x

    def logits(self, hidden: Rows, ops: LinearOps[Rows]) -> mx.array:
        """Float32 logits (tokens, vocab) of last hidden states (tokens, width)."""
        return ops.logits(hidden, self._norm, self._output)
