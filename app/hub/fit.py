"""Whether a choice and a context fit this machine, before anything of it is downloaded.

sizes alone     `fit_by_size`: nothing is asked of the Hub; what a chat takes is assumed, and said
its shape       `read_shape`: one small request when a person opens a repository, good for all choices in it;
                then `fit_by_shape` counts what a chat takes, for any context and bits of the KV cache
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from app import amounts
from app.hub.choice import Choice
from app.hub.client import HubClient
from app.hub.details import RepoDetails
from app.hub.errors import NotFound
from engine import (
    EngineError,
    EngineSettings,
    Fit,
    ModelShape,
    ModelSizes,
    StoredWeights,
    model_fit,
    shape_in_config,
    shape_in_gguf,
    sizes_here,
)

Verdict = Literal["fits", "tight", "does not fit", "does not run"]

GGUF_BEGIN = 1 << 16
"""Bytes of a GGUF file that are fetched: the shape lies in the first few thousand of them."""

MOST_CONFIG = 1 << 20
_BYTES = {"F64": 8, "I64": 8, "F32": 4, "U32": 4, "I32": 4, "F16": 2, "BF16": 2}
USUAL_CONTEXT = 8192
"""Tokens of a chat where nobody chose and the model's own limit is not known."""

_KV_OF_SMALL, _KV_OF_LARGE, _LARGE = 131_072, 327_680, 15_000_000_000
"""Bytes a token of models of 8 billion weights, and of 70 billion, as Llama 3 has them in 16 bits."""


@dataclass(frozen=True, slots=True)
class ChoiceFit:
    """How a choice goes into this machine.

    Attributes:
        verdict: as Fit has it, or "does not run".
        fit: the numbers; None where it does not run.
        words: for people, one line.
        assumed: what of the numbers is not known, one line; "" where all of it is.
    """

    verdict: Verdict
    fit: Fit | None
    words: str
    assumed: str = ""


def read_shape(
    client: HubClient, details: RepoDetails, choices: Iterable[Choice]
) -> dict[str, ModelShape | str]:
    """The shape behind each format among `choices`, or why it does not run: one small request for each.

    Choices of one format in a repository are one model's. Raises HubError.
    """
    shapes: dict[str, ModelShape | str] = {}
    for choice in choices:
        if choice.format not in shapes:
            shapes[choice.format] = _shape(client, details, choice)
    return shapes


def fit_by_shape(
    choice: Choice,
    shape: ModelShape | str,
    memory: int,
    *,
    context: int | None = None,
    settings: EngineSettings | None = None,
    elements: dict[str, int] | None = None,
) -> ChoiceFit:
    """How a choice of known shape fits.

    Args:
        choice: what would be downloaded.
        shape: as `read_shape` tells.
        memory: bytes that weights and pages share, such as `machine_report` tells.
        context: tokens of one chat; the model's whole context without it.
        settings: page size, KV budget and bits of the KV cache.
        elements: of its safetensors by dtype, as RepoFacts has them.
    """
    if isinstance(shape, str) or choice.unsupported:
        return _does_not_run(choice.unsupported or str(shape))
    stored = StoredWeights(choice.weight_bytes, choice.types, choice.parameters, elements or {})
    try:
        sizes = sizes_here(shape, stored, settings.kv_bits if settings else None)
    except EngineError as error:
        return _does_not_run(str(error))
    assumed = "" if choice.types or elements else "its weights are taken to be as large as its files"
    return _judged(sizes, memory, context, settings, assumed)


def fit_by_size(choice: Choice, memory: int, *, context: int | None = None) -> ChoiceFit:
    """How a choice fits as far as its files' sizes tell; nothing is asked of the Hub."""
    if choice.unsupported:
        return _does_not_run(choice.unsupported)
    per_token = _KV_OF_LARGE if (choice.parameters or 0) > _LARGE else _KV_OF_SMALL
    tokens = context or USUAL_CONTEXT
    sizes = ModelSizes(choice.weight_bytes, per_token, tokens, None)
    assumed = f"from the files' sizes alone, with {amounts.size(per_token)} for each of {tokens:,} tokens"
    return _judged(sizes, memory, tokens, None, assumed)


def known_elements(details: RepoDetails, choice: Choice) -> dict[str, int]:
    """The Hub's counts of elements where they are those of `choice`, as the bytes of its files tell."""
    elements = details.facts.elements
    taken = sum(count * _BYTES.get(dtype, 1) for dtype, count in elements.items())
    is_own = choice.format == "safetensors" and 0.95 * taken <= choice.weight_bytes <= 1.05 * taken
    return elements if is_own else {}


def _shape(client: HubClient, details: RepoDetails, choice: Choice) -> ModelShape | str:
    if choice.unsupported:
        return choice.unsupported
    try:
        if choice.format == "gguf":
            first = choice.files[0]
            begin = client.begin(details.repo, details.commit, first.name, GGUF_BEGIN)
            return shape_in_gguf(begin, first.name, first.size or len(begin))
        name = next(file.name for file in choice.files if file.name.rpartition("/")[2] == "config.json")
        return shape_in_config(client.begin(details.repo, details.commit, name, MOST_CONFIG))
    except (EngineError, NotFound) as error:
        return str(error)


def _judged(
    sizes: ModelSizes, memory: int, context: int | None, settings: EngineSettings | None, assumed: str
) -> ChoiceFit:
    fit = model_fit(sizes, memory, context=context, settings=settings)
    return ChoiceFit(fit.verdict, fit, _words(fit), assumed)


def _words(fit: Fit) -> str:
    weights, memory = _size(fit.weight_bytes), _size(fit.memory_bytes)
    if fit.verdict == "does not fit":
        return f"does not fit: {weights} of weights, and models may use {memory} here"
    chat = f"{weights} of weights and {_size(fit.kv_bytes)} for {fit.context:,} tokens"
    if fit.verdict == "tight":
        return f"tight: {chat}, of {memory}; {fit.most_context:,} tokens fit"
    return f"fits: {chat}, of {memory}"


def _does_not_run(why: str) -> ChoiceFit:
    return ChoiceFit("does not run", None, f"does not run: {why}")


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 10**9 else f"{count / 1e6:.0f} MB"
