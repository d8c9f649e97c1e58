"""A model in memory and the one that drafts for it, if any: what they take, and who has which pages."""

from __future__ import annotations

from dataclasses import replace

from engine.fitting.fit import Tenant, budget_pages
from engine.loading.model import LoadedModel
from engine.settings import EngineSettings


def tenant_of(model: LoadedModel, draft: LoadedModel | None, *, is_held: bool) -> Tenant:
    """What they take. `is_held`: what their arenas have cannot be given back."""
    own = _tenant(model, is_held)
    return own if draft is None else own.with_draft(_tenant(draft, is_held))


def limit_pages(model: LoadedModel, draft: LoadedModel | None, pages: int, seconds: float) -> None:
    """KV memory of both may grow to `pages` pages of `tenant_of`; see LoadedModel.limit_pages."""
    if draft is None:
        model.limit_pages(pages, seconds)
        return
    shares = _tenant(model, False).beside_draft(_tenant(draft, False), pages)
    for each, share in zip((model, draft), shares, strict=True):
        each.limit_pages(share, seconds)


def pages_if_smaller(
    model: LoadedModel, draft: LoadedModel | None, page_bytes: int, settings: EngineSettings
) -> int:
    """Pages that `model` would have of what both may take now, were its own of `page_bytes` each."""
    own, beside = replace(_tenant(model, False), page_bytes=page_bytes), Tenant(0, 0, 0)
    budget = model.pager.total_pages * model.arena.page_bytes
    if draft is not None:
        beside = _tenant(draft, False)
        budget += draft.pager.total_pages * beside.page_bytes
    pages, _ = own.beside_draft(beside, budget_pages(budget, page_bytes + beside.page_bytes, settings))
    return pages if settings.kv_pages is None else min(pages, settings.kv_pages)


def _tenant(model: LoadedModel, is_held: bool) -> Tenant:
    needed, held = model.pager.pages_for(model.most_resident), model.arena.pages if is_held else 0
    return Tenant(model.info.weight_bytes, model.arena.page_bytes, needed, held)
