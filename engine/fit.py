"""Whether a model and its context fit in a machine's memory, by sizes that headers tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from engine.errors import ModelError
from engine.settings import EngineSettings

MOST_WEIGHTS = 0.9
"""Share of the memory that weights may take; the rest is for pages, activations and other programs."""

KV_SHARE = 0.5
"""Share of the memory that weights leave free which KV pages may take, when no budget is set."""

Verdict = Literal["fits", "tight", "does not fit"]


class Sizes(Protocol):
    """What of a model's sizes matters here; a ModelSummary has them."""

    @property
    def weight_bytes(self) -> int: ...
    @property
    def kv_bytes_per_token(self) -> int: ...
    @property
    def context_length(self) -> int: ...
    @property
    def largest_window(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Fit:
    """How a model and a context go into a machine's memory.

    Attributes:
        verdict: "fits": weights and context do; "tight": only a shorter context does; "does not fit".
        weight_bytes: of the weights, as they will lie in memory.
        context: tokens that were asked about.
        kv_bytes: of the pages that so many tokens of one chat take at once.
        kv_budget: bytes that KV pages may take beside the weights.
        most_context: tokens of one chat that go into that budget, at most the model's context.
        memory_bytes: of the machine, as far as models may use it.
    """

    verdict: Verdict
    weight_bytes: int
    context: int
    kv_bytes: int
    kv_budget: int
    most_context: int
    memory_bytes: int


def model_fit(
    model: Sizes, memory: int, *, context: int | None = None, settings: EngineSettings | None = None
) -> Fit:
    """How `model` fits.

    Args:
        model: its sizes, such as `inspect_model` tells; the bits of its KV cache are in them.
        memory: bytes that weights and pages share, such as `machine_report` tells.
        context: tokens of one chat; the model's whole context without it.
        settings: page size and KV budget; the usual ones without it.
    """
    settings = settings or EngineSettings()
    context = min(context or model.context_length, model.context_length)
    page_bytes = model.kv_bytes_per_token * settings.page_size
    budget = kv_budget(model.weight_bytes, memory, settings)
    pages = budget // page_bytes
    if settings.kv_pages is not None:
        pages = min(pages, settings.kv_pages)
    needed = -(-resident_tokens(context, model.largest_window, settings) // settings.page_size)
    whole = -(-resident_tokens(model.context_length, model.largest_window, settings) // settings.page_size)
    return Fit(
        verdict=_verdict(model.weight_bytes, memory, pages, needed),
        weight_bytes=model.weight_bytes,
        context=context,
        kv_bytes=needed * page_bytes,
        kv_budget=budget,
        most_context=model.context_length if pages >= whole else pages * settings.page_size,
        memory_bytes=memory,
    )


def _verdict(weight_bytes: int, memory: int, pages: int, needed: int) -> Verdict:
    if weight_bytes > MOST_WEIGHTS * memory or pages < 1:
        return "does not fit"
    return "fits" if pages >= needed else "tight"


def kv_budget(weight_bytes: int, memory: int, settings: EngineSettings) -> int:
    """Bytes that KV pages may grow to beside so many bytes of weights."""
    return settings.kv_bytes or int(KV_SHARE * max(0, memory - weight_bytes))


def resident_tokens(context: int, largest_window: int | None, settings: EngineSettings) -> int:
    """Tokens of a chat of `context` tokens that are in pages at once."""
    if largest_window is None:
        return context
    # Pages that left every layer's window are given back.
    return min(context, largest_window + settings.prefill_chunk + settings.page_size)


def check_weights(name: str, weight_bytes: int, memory: int) -> None:
    """Raises ModelError for weights that would leave no memory to work in."""
    if weight_bytes > MOST_WEIGHTS * memory:
        raise ModelError(
            f"{name} does not fit: its weights take {weight_bytes:,} bytes, and of this machine's {memory:,} "
            f"at most {int(MOST_WEIGHTS * memory):,} can be given to them; choose a smaller model or one of "
            "fewer bits"
        )
