"""Finding a model by its name, and noting that it was opened, without a scan and without the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app.library.library import Library, open_library
from app.library.records import NOTHING_SET, LibraryError, Model, ModelSettings, Own
from app.paths import Paths
from app.settings import KvCache

_UNKNOWN = "the library is still empty; `mlxr models` looks for models"


def find_model(name: str, paths: Paths) -> Model | None:
    """The model that the library calls `name`; None where it knows none, or where there is no library yet.

    Raises LibraryError where it cannot be opened: then nobody knows.
    """
    if not paths.library.exists():
        return None
    with open_library(paths, must_save=True) as library:
        return library.find(name)


def words_for_missing(name: str, paths: Paths) -> str:
    """What to say of a name that no model has, with those that may have been meant."""
    if not paths.library.exists():
        return _UNKNOWN
    with open_library(paths) as library:
        return library.missing(name)


def settings_at(path: Path, paths: Paths) -> ModelSettings:
    """What is set for the model at `path`. Raises LibraryError."""
    if not paths.library.exists():
        return NOTHING_SET
    with open_library(paths) as library:
        return library.settings_at(path)


def own_at(path: Path, paths: Paths) -> Own:
    """The same, and where the model is that guesses ahead for it. Raises LibraryError."""
    settings = settings_at(path, paths)
    if not settings.draft_model:
        return Own(settings)
    draft = find_model(settings.draft_model, paths)
    if draft is not None and draft.state == "here" and draft.path.exists():
        return Own(settings, draft.path)
    gone = f"its draft model {settings.draft_model} is not there any more"
    return Own(settings, problem=f"{gone}; choose another one in its settings, or none")


def models_after(change: Callable[[Library], object], paths: Paths) -> tuple[Model, ...]:
    """Make a change that a person makes, and return all models as they are then. Raises LibraryError."""
    with open_library(paths, must_save=True) as library:
        change(library)
        return tuple(library.models())


def choose_kv_cache(path: Path, paths: Paths, choice: KvCache) -> ModelSettings | None:
    """Let a KV cache that is set for the model at `path` alone be `choice`; returns all that is set then.

    None where nothing is set for it alone: what is set for all models holds for it. Raises LibraryError.
    """
    if settings_at(path, paths).kv_cache is None:
        return None
    with open_library(paths, must_save=True) as library:
        model = library.model_at(path)
        if model is None:
            return None
        own = replace(model.settings, kv_cache=choice)
        library.save_settings(model, own)
    return own


def note_use(path: Path, paths: Paths) -> str:
    """Note that the model at `path` was opened now; "" or one line on why that was not kept."""
    problems: list[str] = []
    try:
        with open_library(paths, problems.append) as library:
            library.note_use(path)
    except LibraryError as error:
        problems.append(str(error))
    return " ".join(problems)
