"""Models of known shape with random weights: what `mlxr bench --shape` measures without a real model at hand.

Speed depends on a model's shape, not on what its weights say. What is written here are real models, folders
in Hugging Face's form or GGUF files, so that any engine loads them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import mlx.core as mx

from engine.bench.block_models import write_block_shape
from engine.bench.tokenizer import whole_vocabulary
from engine.loading.config import LONGEST_CONTEXT
from metal.block_types import Q4_K, Q6_K, Q8_0, BlockType

Quant = Literal["none", "q4", "q8", "q4_k", "q6_k", "q8_0"]
GROUP = 64
"""Weights that share a scale and a bias in MLX's affine form."""
_BITS: Mapping[Quant, int] = MappingProxyType({"q4": 4, "q8": 8})
_BLOCKS: Mapping[Quant, BlockType] = MappingProxyType({"q4_k": Q4_K, "q6_k": Q6_K, "q8_0": Q8_0})
QUANTS: tuple[Quant, ...] = ("none", *_BITS, *_BLOCKS)
_PEERS: Mapping[Quant, Quant] = MappingProxyType({"q4_k": "q4", "q6_k": "q8", "q8_0": "q8"})


@dataclass(frozen=True, slots=True)
class BenchShape:
    """A dense decoder's shape; `family` is "llama" or "qwen2", which has biases on q, k and v."""

    family: Literal["llama", "qwen2"]
    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    vocab: int
    context: int
    theta: float = 10000.0
    tied: bool = False
    head_dim: int = 64

    @property
    def matrix_weights(self) -> int:
        """Weights in matrices, embedding and output projection included."""
        attention = 2 * (self.heads + self.kv_heads) * self.head_dim * self.hidden
        layer = attention + 3 * self.inner * self.hidden
        return self.layers * layer + (1 if self.tied else 2) * self.vocab * self.hidden

    def file_bytes(self, quant: Quant) -> int:
        """Bytes of the matrices on disk: two a weight, packed words with scales and biases, or blocks."""
        if quant in _BLOCKS:
            return int(self.matrix_weights * _BLOCKS[quant].bits / 8)
        bits = _BITS[quant] + 2 * 16 / GROUP if quant in _BITS else 16
        return int(self.matrix_weights * bits / 8)

    def config(self, quant: Quant, context: int) -> dict[str, object]:
        """The fields of config.json, for at least `context` tokens, as many as it may name at most."""
        fields: dict[str, object] = {
            "architectures": ["LlamaForCausalLM" if self.family == "llama" else "Qwen2ForCausalLM"],
            "model_type": self.family,
            "vocab_size": self.vocab,
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "rope_theta": self.theta,
            "rms_norm_eps": 1e-5,
            "max_position_embeddings": min(max(self.context, context), LONGEST_CONTEXT),
            "hidden_act": "silu",
            "tie_word_embeddings": self.tied,
            "torch_dtype": "float16",
            "bos_token_id": 1,
            "eos_token_id": 2,
        }
        if quant in _BITS:
            fields["quantization"] = {"group_size": GROUP, "bits": _BITS[quant]}
        return fields


SHAPES: Mapping[str, BenchShape] = MappingProxyType(
    {
        "tiny": BenchShape("llama", 2, 128, 256, 4, 2, 3072, 512),
        "guide-like": BenchShape("llama", 5, 256, 512, 4, 2, 3072, 4096, tied=True),
        "smollm2-135m": BenchShape("llama", 30, 576, 1536, 9, 3, 49152, 8192, 1e5, tied=True),
        "qwen2.5-0.5b": BenchShape("qwen2", 24, 896, 4864, 14, 2, 151936, 32768, 1e6, tied=True),
        "tinyllama-1.1b": BenchShape("llama", 22, 2048, 5632, 32, 4, 32000, 2048),
        "llama-3.2-1b": BenchShape("llama", 16, 2048, 8192, 32, 8, 128256, 131072, 5e5, tied=True),
        "llama-3.1-8b": BenchShape("llama", 32, 4096, 14336, 32, 8, 128256, 131072, 5e5, head_dim=128),
    }
)
"""By name. Without a RoPE scaling, which changes no speed."""


def peer_quant(quant: Quant) -> Quant:
    """What is nearest to `quant` among what mlx-lm loads: GGUF's formats it does not."""
    return _PEERS.get(quant, quant)


def write_shape(
    folder: Path,
    shape: BenchShape,
    quant: Quant,
    context: int,
    tokenizer: Path,
    seed: int = 0,
    speaking: int | None = None,
) -> Path:
    """Write a model of `shape` to the existing `folder`; returns the model: this folder, or a file in it.

    In Hugging Face's form there is one weight file for each layer and one for the rest; a format of GGUF's
    blocks ("q4_k") makes one file, see `write_block_shape`.

    Matrices are float16, or MLX affine with groups of GROUP weights, drawn from a normal distribution of
    deviation 1/sqrt(inputs), which keeps every activation and the logits near 1.

    Args:
        context: tokens that the model must hold; the shape's own context where that is longer.
        tokenizer: a model folder whose sentencepiece tokenizer has at most `shape.vocab` pieces; others are
            added.
        seed: of the weights.
        speaking: layers that change what goes through them, where not all do: those above take their time,
            and a model of the lowest alone, of seed 0 as well, says the same. Not in GGUF's blocks.

    Raises ValueError when the shape's rows are no whole number of blocks.
    """
    if quant in _BLOCKS:
        if speaking is not None:
            raise ValueError(f"in {quant} every layer speaks")
        file = folder / "model.gguf"
        write_block_shape(file, shape, _BLOCKS[quant], context, tokenizer, seed)
        return file
    (folder / "config.json").write_text(json.dumps(shape.config(quant, context), indent=1))
    (folder / "tokenizer.model").write_bytes(whole_vocabulary(tokenizer, shape.vocab))
    shutil.copyfile(tokenizer / "tokenizer_config.json", folder / "tokenizer_config.json")
    weight_map: dict[str, str] = {}
    for number, layer in enumerate((None, *range(shape.layers))):
        file = f"model-{number + 1:05d}-of-{shape.layers + 1:05d}.safetensors"
        draw = _Draw(mx.random.key(seed * (shape.layers + 1) + number), _BITS.get(quant))
        speaks = layer is None or speaking is None or layer < speaking
        tensors = dict(_outer(shape, draw) if layer is None else _layer(shape, layer, draw, speaks=speaks))
        mx.save_safetensors(str(folder / file), tensors, metadata={"format": "mlx"})
        weight_map |= dict.fromkeys(tensors, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    mx.clear_cache()
    return folder


Tensors = Iterator[tuple[str, mx.array]]


class _Draw:
    """Random tensors from one key, packed to `bits` a weight where they are matrices."""

    def __init__(self, key: mx.array, bits: int | None) -> None:
        self._key = key
        self._bits = bits

    def matrix(self, name: str, outputs: int, inputs: int, *, speaks: bool = True) -> Tensors:
        """`name`.weight (outputs, inputs), or the packed weight with its scales and biases.

        All 0 unless it `speaks`.
        """
        weight = self._normal((outputs, inputs), inputs**-0.5) * speaks
        if self._bits is None:
            yield f"{name}.weight", weight
            return
        packed, scales, biases = mx.quantize(weight, group_size=GROUP, bits=self._bits)
        yield f"{name}.weight", packed
        yield f"{name}.scales", scales
        yield f"{name}.biases", biases

    def bias(self, name: str, outputs: int) -> Tensors:
        """`name`.bias (outputs,), small."""
        yield f"{name}.bias", self._normal((outputs,), 0.1)

    def norm(self, name: str, width: int) -> Tensors:
        """`name`.weight (width,), near 1."""
        yield f"{name}.weight", 1 + self._normal((width,), 0.1)

    def _normal(self, shape: tuple[int, ...], deviation: float) -> mx.array:
        self._key, key = mx.random.split(self._key)
        return mx.random.normal(shape, dtype=mx.float16, scale=deviation, key=key)


def _outer(shape: BenchShape, draw: _Draw) -> Tensors:
    yield from draw.matrix("model.embed_tokens", shape.vocab, shape.hidden)
    yield from draw.norm("model.norm", shape.hidden)
    if not shape.tied:
        yield from draw.matrix("lm_head", shape.vocab, shape.hidden)


def _layer(shape: BenchShape, layer: int, draw: _Draw, *, speaks: bool) -> Tensors:
    at, width = f"model.layers.{layer}", shape.hidden
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    for name, outputs in (("q", queries), ("k", keys), ("v", keys)):
        yield from draw.matrix(f"{at}.self_attn.{name}_proj", outputs, width)
        if shape.family == "qwen2":
            yield from draw.bias(f"{at}.self_attn.{name}_proj", outputs)
    yield from draw.matrix(f"{at}.self_attn.o_proj", width, queries, speaks=speaks)
    for name in ("gate", "up"):
        yield from draw.matrix(f"{at}.mlp.{name}_proj", shape.inner, width)
    yield from draw.matrix(f"{at}.mlp.down_proj", width, shape.inner, speaks=speaks)
    yield from draw.norm(f"{at}.input_layernorm", width)
    yield from draw.norm(f"{at}.post_attention_layernorm", width)
