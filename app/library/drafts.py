"""Which model of the library guesses ahead for another one."""

from __future__ import annotations

from collections.abc import Iterable

from app.library.names import folded
from app.library.records import Model


def draft_of(model: Model, models: Iterable[Model]) -> Model | None:
    """The one that is set to guess for `model`; None where none is, or where it cannot be opened."""
    wanted = folded(model.settings.draft_model)
    return next((one for one in models if wanted and folded(one.name) == wanted and one.is_runnable), None)
