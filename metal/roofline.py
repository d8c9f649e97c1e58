"""What memory bandwidth allows: the most tokens a second a Mac can decode, by model, precision and context.

`python -m metal.roofline > metal/ROOFLINE.md` writes the table anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

KV_BYTES = 2
GROUP = 64
BITS: Mapping[str, float] = {"f16": 16.0, "8-bit": 8 + 2 * 16 / GROUP, "4-bit": 4 + 2 * 16 / GROUP}
"""Bits a weight; a group of quantised ones shares a float16 scale and a float16 bias."""
CONTEXTS = (128, 2048, 8192, 32768)


@dataclass(frozen=True, slots=True)
class Decoder:
    """A dense decoder with gated MLPs. `source` states its shape."""

    name: str
    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    source: str

    @property
    def weights_read(self) -> int:
        """Matrix weights that one decode step reads: all layers and the output projection.

        Of an embedding a step reads one row; where it is tied to the output it is that projection.
        """
        attention = 2 * (self.heads + self.kv_heads) * self.head_dim * self.hidden
        return self.layers * (attention + 3 * self.hidden * self.inner) + self.vocab * self.hidden

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of the keys and values of one token, all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * KV_BYTES


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip and its memory bandwidth in GB/s (1e9 bytes), as `source` states it."""

    name: str
    bandwidth: float
    source: str


CHIPS = (
    Chip("M4", 120, "Apple, Mac mini (2024) – Tech Specs: https://support.apple.com/en-us/121555"),
    Chip(
        "M4 Max (40-core GPU)",
        546,
        "Apple, MacBook Pro (16-inch, 2024) – Tech Specs: https://support.apple.com/en-us/121554",
    ),
)
MODELS = (
    Decoder(
        "TinyLlama-1.1B", 22, 2048, 5632, 32, 4, 64, 32000, "TinyLlama/TinyLlama-1.1B-Chat-v1.0, config.json"
    ),
    Decoder(
        "Llama-3.2-3B", 28, 3072, 8192, 24, 8, 128, 128256, "meta-llama/Llama-3.2-3B-Instruct, config.json"
    ),
    Decoder(
        "Llama-3.1-8B", 32, 4096, 14336, 32, 8, 128, 128256, "meta-llama/Llama-3.1-8B-Instruct, config.json"
    ),
)


def step_bytes(model: Decoder, bits: float, context: int) -> float:
    """Bytes one decode step must read: each weight once, and keys and values of `context` tokens once."""
    return model.weights_read * bits / 8 + model.kv_bytes_per_token * context


def tokens_per_second(chip: Chip, model: Decoder, bits: float, context: int) -> float:
    """The limit for one chat: bandwidth over the bytes of a step."""
    return chip.bandwidth * 1e9 / step_bytes(model, bits, context)


def markdown() -> str:
    """The whole of ROOFLINE.md."""
    return "\n".join(_lines()) + "\n"


_INTRODUCTION = """# The roofline: how fast decode can be on a Mac

Written by `python -m metal.roofline`; a test holds this file and that program together. These are limits
computed from published bandwidth, not measurements.

Decoding one token for one chat reads every weight once and every cached key and value once, and does little
arithmetic with each, so memory bandwidth is its limit:

    tokens/s <= bandwidth / (weights * bits / 8 + context * layers * kv_heads * head_dim * 2 * 2 bytes)

- Weights are those of all layers' matrices and the output projection. Norms, of the embedding one row, the
  activations, and the keys and values written are left out: together under 0.1 %.
- Keys and values are float16. The heads of a group share them, so each is read once.
- 4-bit and 8-bit are MLX's affine form in groups of 64: with the float16 scale and bias of each group,
  4.5 and 8.5 bits a weight.
- A chip's memory delivers less than its stated bandwidth. `mlxr bench` states what was reached; the share of
  the limit below is what a kernel's quality shows in."""


def _lines() -> Iterator[str]:
    yield from (_INTRODUCTION, "", "## Sources", "")
    yield from (f"- {chip.name}: {chip.bandwidth:g} GB/s. {chip.source}" for chip in CHIPS)
    yield from (f"- {model.name}: {model.source}" for model in MODELS)
    yield from ("", "## What a model reads", "")
    names = list(BITS)
    yield _row("model", "weights", *(f"weights, {name}, GB" for name in names), "KV, KB/token")
    yield _ruler(2 + len(names), text_columns=1)
    for model in MODELS:
        sizes = (f"{model.weights_read * bits / 8e9:.2f}" for bits in BITS.values())
        yield _row(
            model.name, f"{model.weights_read / 1e9:.3f}e9", *sizes, f"{model.kv_bytes_per_token / 1e3:.1f}"
        )
    for chip in CHIPS:
        yield from ("", f"## {chip.name}, {chip.bandwidth:g} GB/s: most tokens/s", "")
        yield _row("model", "weights", *(f"{context:,} tokens" for context in CONTEXTS))
        yield _ruler(len(CONTEXTS), text_columns=2)
        for model in MODELS:
            for name, bits in BITS.items():
                limits = (tokens_per_second(chip, model, bits, context) for context in CONTEXTS)
                yield _row(model.name, name, *(f"{limit:.1f}" for limit in limits))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _ruler(numbers: int, text_columns: int) -> str:
    return "|" + "---|" * text_columns + "---:|" * numbers


if __name__ == "__main__":
    print(markdown(), end="")
