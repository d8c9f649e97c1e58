"""Which models may guess ahead for another one, as far as their headers tell."""

from __future__ import annotations

from collections.abc import Iterable

from app.library.drafts import have_one_vocabulary
from app.library.names import folded
from app.library.records import Model

NONE = "None"


def draft_choices(model: Model, models: Iterable[Model]) -> tuple[tuple[str, str], ...]:
    """Pairs of name and words for a menu: none, those that may guess for `model`, and what is set now.

    Whether two vocabularies are the same is known when both are opened: the engine says then where not.
    """
    names = [other.name for other in models if _may_guess(other, model)]
    chosen = model.settings.draft_model
    if chosen and folded(chosen) not in map(folded, names):
        names.append(chosen)
    return ("", NONE), *((name, name) for name in names)


def _may_guess(other: Model, model: Model) -> bool:
    """Whether it takes less memory, and has about as many tokens."""
    is_smaller = other.facts.weight_bytes < model.facts.weight_bytes
    return other.is_runnable and is_smaller and have_one_vocabulary(other, model)
