"""Which model of the library guesses ahead for another one, and which may."""

from __future__ import annotations

from collections.abc import Iterable

from app.library.names import folded
from app.library.records import Model

_NEAR = 1.01
"""How many times the rows of one vocabulary another may have: a family pads it differently in each size."""


def have_one_vocabulary(one: Model, other: Model) -> bool:
    """Whether they may have, as far as their headers tell: the engine sees when both are opened."""
    few, many = sorted((one.facts.vocab_size, other.facts.vocab_size))
    return 0 < many <= _NEAR * few


def draft_of(model: Model, models: Iterable[Model]) -> Model | None:
    """The one that is set to guess for `model`; None where none is, or where it cannot be opened."""
    wanted = folded(model.settings.draft_model)
    return next((one for one in models if wanted and folded(one.name) == wanted and one.is_runnable), None)
