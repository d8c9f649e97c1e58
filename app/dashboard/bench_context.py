"""The longest context of a model that goes into this machine's memory, as loading it will find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from app.amounts import size
from app.errors import AppError
from app.library.importing import take_in
from app.library.library import Library, open_library
from app.library.look import look
from app.library.model_settings import with_setting
from app.library.records import Model, ModelSettings
from app.paths import Paths
from app.settings import KvCache
from engine import (
    EngineError,
    EngineSettings,
    ModelError,
    ModelSummary,
    inspect_model,
    machine_report,
    model_fit,
)

BITS: Mapping[KvCache, int | None] = MappingProxyType({"full": None, "8": 8})
NAMES: Mapping[KvCache, str] = MappingProxyType({"full": "KV cache in full", "8": "KV cache in 8 bits"})
UNLISTED = "{name} cannot be listed among your models, so nothing can be set for it; look at {path}"


@dataclass(frozen=True, slots=True)
class SafeContext:
    """What fits with one kind of KV cache.

    Attributes:
        tokens: most of one chat, prompt and answer together.
        kv_bytes: of the KV pages that they take.
        kv_budget: bytes that KV pages may take beside the weights.
        is_whole: whether it is all that the model allows.
        draft: name of the model that guesses ahead for it, whose pages are counted too; "" is none.
    """

    kv_cache: KvCache
    tokens: int
    kv_bytes: int
    kv_budget: int
    is_whole: bool
    draft: str = ""

    @property
    def words(self) -> str:
        """For people, one line."""
        limit = "all that the model allows" if self.is_whole else "all that fits"
        beside = f", with {self.draft} guessing ahead" if self.draft else ""
        return (
            f"{NAMES[self.kv_cache]}: {self.tokens:,} tokens, {limit}; "
            f"{size(self.kv_bytes)} of the {size(self.kv_budget)} that chats may take{beside}"
        )

    def within(self, own: ModelSettings) -> ModelSettings:
        """What a person set for the model, with this in it."""
        return with_setting(with_setting(own, "context", str(self.tokens)), "kv_cache", self.kv_cache)


def safe_contexts(
    path: Path,
    settings: EngineSettings | None = None,
    memory: int | None = None,
    draft: Path | None = None,
) -> tuple[SafeContext, ...]:
    """What fits of the model at `path`; a KV cache that is not for it is left out.

    Args:
        settings: page size and KV budget; the usual ones without it.
        memory: bytes that weights and pages share; this machine's without it.
        draft: where the model is that guesses ahead for it, if any.

    Raises AppError where either cannot be read, or they do not fit at all.
    """
    memory = machine_report().memory_bytes if memory is None else memory
    settings, beside = settings or EngineSettings(), None
    if draft is not None and settings.speculation:
        try:
            beside = inspect_model(draft)
        except EngineError as error:
            raise AppError(f"its draft model: {error}") from None
    found = [_safe_context(path, kv_cache, settings, memory, beside) for kv_cache in BITS]
    return tuple(one for one in found if one is not None)


def _safe_context(
    path: Path, kv_cache: KvCache, settings: EngineSettings, memory: int, draft: ModelSummary | None
) -> SafeContext | None:
    settings = replace(settings, kv_bits=BITS[kv_cache])
    try:
        model = inspect_model(path, settings.kv_bits)
    except EngineError as error:
        if settings.kv_bits is not None and not isinstance(error, ModelError):
            return None  # such bits are not for it
        raise AppError(str(error)) from None
    fit = model_fit(model, memory, settings=settings, draft=draft)
    if fit.verdict == "does not fit":
        both, smaller = f"{model.name} does not fit", "choose a smaller one"
        if draft is not None:
            both = f"{model.name} and its draft model {draft.name} do not fit"
            smaller = "choose smaller ones, or no draft model"
        raise AppError(
            f"{both}: {size(fit.weight_bytes)} of weights, and models may use {size(memory)} here; {smaller}"
        )
    longest = model_fit(model, memory, context=fit.most_context, settings=settings, draft=draft)
    return SafeContext(
        kv_cache,
        fit.most_context,
        longest.kv_bytes,
        fit.kv_budget,
        fit.most_context == model.context_length,
        draft.name if draft is not None else "",
    )


def apply_context(path: Path, name: str, choice: SafeContext, paths: Paths) -> ModelSettings:
    """Let it be set for the model at `path`, which is listed if it was not; returns all that is set.

    Raises AppError.
    """
    with open_library(paths, must_save=True) as library:
        model = _listed(library, path)
        if model is None:
            raise AppError(UNLISTED.format(name=name, path=path))
        own = choice.within(model.settings)
        library.save_settings(model, own)
    return own


def _listed(library: Library, path: Path) -> Model | None:
    if model := library.model_at(path):
        return model
    library.refresh(look)  # as the models page would, when it is opened
    if library.model_at(path) is None:
        take_in(library, path, look)
    return library.model_at(path)
