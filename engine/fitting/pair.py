"""A model in memory and the one that drafts for it, if any: what they take, and who has which pages."""

from __future__ import annotations

from engine.fitting.fit import Tenant
from engine.loading.model import LoadedModel


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


def _tenant(model: LoadedModel, is_held: bool) -> Tenant:
    needed, held = model.pager.pages_for(model.most_resident), model.arena.pages if is_held else 0
    return Tenant(model.info.weight_bytes, model.arena.page_bytes, needed, held)
