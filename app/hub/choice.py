"""The values around a choice: a repository's files, what the Hub says of it, and one model to download."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Format = Literal["gguf", "safetensors"]


@dataclass(frozen=True, slots=True)
class RepoFile:
    """A file of a repository: its path and bytes, None where the Hub does not say.

    Attributes:
        sha256: of a file that lies beside git, as weights do, in hex.
        git_sha1: git's name of the content, in hex; of one beside git that of what stands in its place.
    """

    name: str
    size: int | None = None
    sha256: str | None = None
    git_sha1: str | None = None


@dataclass(frozen=True, slots=True)
class RepoFacts:
    """What the Hub says of a repository beside its files; each may be unknown.

    Attributes:
        repo: its id.
        family: `model_type` of its config.json.
        gguf_family: `general.architecture` of its GGUF files.
        parameters: of its GGUF files' model.
        elements: of its safetensors files, by dtype: {"U32": 250_000_000, "BF16": 40_000_000}.
        bits: that its config.json quantises to.
        method: its config.json's `quant_method`, such as "gptq".
    """

    repo: str = ""
    family: str | None = None
    gguf_family: str | None = None
    parameters: int | None = None
    elements: dict[str, int] = field(default_factory=dict[str, int])
    bits: int | None = None
    method: str | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One model to download.

    Attributes:
        key: its short name, unique in the repository.
        name: for people, such as "Q4_K_M", "4-bit MLX" or "BF16".
        format: of its weights.
        files: to fetch, weights first.
        bytes: of all files together, as far as the Hub says.
        weight_bytes: of the weights alone.
        bits: per weight on average, scales included; None where nothing tells.
        parameters: number of weights; None where nothing tells.
        types: GGUF tensor types in it, the one with most weights first; () where the name does not tell.
        hint: quality in a few words.
        unsupported: why the engine does not run it; "" when it does.
    """

    key: str
    name: str
    format: Format
    files: tuple[RepoFile, ...]
    bytes: int
    weight_bytes: int
    bits: float | None
    parameters: int | None
    types: tuple[str, ...]
    hint: str
    unsupported: str = ""


def total(files: Iterable[RepoFile]) -> int:
    """Bytes of `files`, as far as they are known."""
    return sum(file.size or 0 for file in files)


def measured_bits(weight_bytes: int, parameters: int | None, expected: float | None) -> float | None:
    """Bits per weight, from the sizes where they make sense, else what is `expected`."""
    if not parameters or not weight_bytes:
        return expected
    bits = 8 * weight_bytes / parameters
    if expected is not None and not 0.7 * expected <= bits <= 1.8 * expected:
        return expected  # the parameters are of another model in the same repository
    return round(bits, 2) if 1 <= bits <= 33 else None


def safetensors_parameters(facts: RepoFacts, weight_bytes: int | None = None) -> int | None:
    """Weights, from the Hub's count of elements.

    Of type U32 it has counted the 32-bit words that MLX packs weights into, or, more lately, the weights in
    them. `weight_bytes` of the files tell which, else the scales and biases beside them: two for 64 weights.
    """
    packed = facts.elements.get("U32", 0)
    dense = sum(facts.elements.values()) - packed
    if not packed:
        return dense or None
    if not facts.bits:
        return None
    is_words = 4 * packed <= 1.1 * weight_bytes if weight_bytes else packed < 12 * dense
    weights = packed * 32 // facts.bits if is_words else packed
    return weights + max(0, dense - weights // 32)
