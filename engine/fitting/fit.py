"""Whether models and their contexts fit in a machine's memory, by sizes that headers tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
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
        weight_bytes: of the weights, as they will lie in memory, those of a model that guesses too.
        context: tokens that were asked about.
        kv_bytes: of the pages that so many tokens of one chat take at once, those of that model too.
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


@dataclass(frozen=True, slots=True)
class Tenant:
    """A model that is to be in memory beside others.

    Attributes:
        weight_bytes: of its weights.
        page_bytes: of one KV page.
        needed_pages: that one chat of its whole context takes at once.
        held_pages: that its arena has and cannot give back now.
    """

    weight_bytes: int
    page_bytes: int
    needed_pages: int
    held_pages: int = 0

    def with_draft(self, draft: Tenant) -> Tenant:
        """It and the model that drafts for it, as one tenant: each page stands for one of either."""
        page_bytes = self.page_bytes + draft.page_bytes
        beside_all_of_draft = self.held_pages * self.page_bytes + draft.needed_pages * draft.page_bytes
        held = min(self.held_pages, -(-beside_all_of_draft // page_bytes))
        return Tenant(
            self.weight_bytes + draft.weight_bytes,
            page_bytes,
            self.needed_pages,
            max(held, draft.held_pages),  # `beside_draft` leaves both what they hold then
        )

    def beside_draft(self, draft: Tenant, pages: int) -> tuple[int, int]:
        """Of so many pages of `with_draft`, its own and the draft's.

        A draft goes along with one answer, so that it has as many as that has, and no more than a chat of its
        whole context takes; the model has the rest.
        """
        drafts = min(pages, draft.needed_pages)
        spare = (pages - drafts) * draft.page_bytes
        return pages + spare // self.page_bytes, drafts


def model_fit(
    model: Sizes,
    memory: int,
    *,
    context: int | None = None,
    settings: EngineSettings | None = None,
    draft: Sizes | None = None,
) -> Fit:
    """How `model` fits.

    Args:
        model: its sizes, such as `inspect_model` tells; the bits of its KV cache are in them.
        memory: bytes that weights and pages share, such as `machine_report` tells.
        context: tokens of one chat; the model's whole context without it.
        settings: page size and KV budget; the usual ones without it.
        draft: sizes of a model that guesses ahead for it, which takes memory of its own, if anything is
            guessed by these settings.
    """
    settings = settings or EngineSettings()
    context = min(context or model.context_length, model.context_length)
    own = both = tenant(model, settings)
    beside = None if draft is None or not settings.speculation else tenant(draft, settings)
    if beside is not None:
        both = own.with_draft(beside)
    budget = kv_budget(both.weight_bytes, memory, settings)
    pages = budget_pages(budget, both.page_bytes, settings)
    needed = tenant(model, settings, context).needed_pages
    kv_bytes = needed * own.page_bytes
    if beside is not None:
        pages, _ = own.beside_draft(beside, pages)
        kv_bytes += min(needed, beside.needed_pages) * beside.page_bytes
    return Fit(
        verdict=_verdict(both.weight_bytes, memory, pages, needed),
        weight_bytes=both.weight_bytes,
        context=context,
        kv_bytes=kv_bytes,
        kv_budget=budget,
        most_context=model.context_length if pages >= own.needed_pages else pages * settings.page_size,
        memory_bytes=memory,
    )


def tenant(model: Sizes, settings: EngineSettings, context: int | None = None) -> Tenant:
    """What `model` takes for a chat of `context` tokens, or of its whole context."""
    tokens = min(context or model.context_length, model.context_length)
    resident = resident_tokens(tokens, model.largest_window, settings)
    return Tenant(
        weight_bytes=model.weight_bytes,
        page_bytes=model.kv_bytes_per_token * settings.page_size,
        needed_pages=-(-resident // settings.page_size),
    )


def _verdict(weight_bytes: int, memory: int, pages: int, needed: int) -> Verdict:
    if weight_bytes > MOST_WEIGHTS * memory or pages < 1:
        return "does not fit"
    return "fits" if pages >= needed else "tight"


def kv_budget(weight_bytes: int, memory: int, settings: EngineSettings) -> int:
    """Bytes that KV pages may grow to beside so many bytes of weights: never more than these leave."""
    free = max(0, memory - weight_bytes)
    return int(KV_SHARE * free) if settings.kv_bytes is None else min(settings.kv_bytes, free)


def budget_pages(budget: int, page_bytes: int, settings: EngineSettings) -> int:
    """Whole pages of a budget in bytes, and no more than are set."""
    pages = budget // page_bytes
    return pages if settings.kv_pages is None else min(pages, settings.kv_pages)


def pages_alone(tenant: Tenant, memory: int, settings: EngineSettings) -> int:
    """The most KV pages of a model that is alone in memory; 0: not one goes into what its weights leave."""
    return budget_pages(kv_budget(tenant.weight_bytes, memory, settings), tenant.page_bytes, settings)


def page_shares(tenants: Sequence[Tenant], memory: int, settings: EngineSettings) -> list[int] | None:
    """The most KV pages of each of these models when all of them are in memory; None: they do not fit.

    One alone has the whole budget. Several fit where their weights do, and each has room for a chat of its
    whole context; what the budget has beyond that is divided as these chats are long.
    """
    weights = sum(tenant.weight_bytes for tenant in tenants)
    budget = kv_budget(weights, memory, settings)
    alone = [budget_pages(budget, tenant.page_bytes, settings) for tenant in tenants]
    if len(tenants) == 1:
        return alone
    if weights > MOST_WEIGHTS * memory or min(alone) < 1:
        return None
    needs = [Fraction(t.needed_pages, pages) for t, pages in zip(tenants, alone, strict=True)]
    least = [
        max(need, Fraction(t.held_pages, pages)) for t, pages, need in zip(tenants, alone, needs, strict=True)
    ]
    spare = 1 - sum(least)
    if spare < 0:
        return None
    shares = [least + spare * need / sum(needs) for least, need in zip(least, needs, strict=True)]
    return [int(share * pages) for share, pages in zip(shares, alone, strict=True)]


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
