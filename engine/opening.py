"""From a LoadModel to a model at work, with progress; on the engine's thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mlx.core as mx

from engine.commands import AS_SET, LoadModel
from engine.errors import EngineClosed
from engine.events import Event, LoadProgress
from engine.loading.model import LoadedModel, load_model
from engine.serving import Serving
from engine.settings import EngineSettings
from engine.speculation.model_drafter import DraftModel


def open_model(
    command: LoadModel,
    settings: EngineSettings,
    emit: Callable[[Event], None],
    is_closing: Callable[[], bool],
) -> Serving:
    """Load the model, and the one that drafts for it, and try its block kernels; emits LoadProgress.

    Raises EngineError, EngineClosed once `is_closing()`; nothing of the model is in memory then.
    """

    def progress(done: int, total: int) -> None:
        if is_closing():
            raise EngineClosed("the engine was shut down while the model was loading")
        emit(LoadProgress(command.id, done, total))

    try:
        own = own_settings(command, settings)
        model = load_model(Path(command.path), own, progress)
        size = model.info.weight_bytes
        model.prove_block_kernels(
            lambda: emit(LoadProgress(command.id, size, size, is_trying=True)), is_closing
        )
        draft = _load_draft(model, settings)
    except BaseException:
        mx.clear_cache()
        raise
    return Serving(model, own, emit, draft)


def _load_draft(target: LoadedModel, settings: EngineSettings) -> DraftModel | None:
    if settings.draft_model is None:
        return None
    own = replace(settings, ssd=None, kv_bits=None, context=None)
    return DraftModel(load_model(settings.draft_model, own, lambda done, total: None), target)


def own_settings(command: LoadModel, settings: EngineSettings) -> EngineSettings:
    """The engine's settings with those of one model. Raises EngineError for what makes no sense."""
    if command.context is not None:
        settings = replace(settings, context=command.context)
    if command.kv_bits != AS_SET:
        settings = replace(settings, kv_bits=command.kv_bits)
    return settings
