"""From a LoadModel to a model at work, with progress; on the engine's thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import mlx.core as mx

from engine.commands import AS_SET, LoadModel
from engine.errors import EngineClosed, ModelError
from engine.events.events import Event
from engine.events.models import LoadProgress
from engine.fitting.fit import Tenant, check_weights, pages_beside_draft
from engine.loading.files import ModelFiles
from engine.loading.model import LoadedModel, load_model
from engine.loading.thread import Apart, at_once
from engine.machine.machine import limit_kept_memory, memory_bytes
from engine.serving import Serving
from engine.settings import EngineSettings
from engine.speculation.model_drafter import DraftModel, check_vocabulary


@dataclass(frozen=True, slots=True)
class Beside:
    """What goes on beside a load.

    Attributes:
        apart: has files read while what it is given is called on this thread.
        go_on: called on this thread where it only waits; whether there was anything to do.
    """

    apart: Callable[[Callable[[], None]], Apart] = lambda tell: at_once
    go_on: Callable[[], bool] = lambda: False


def open_model(
    command: LoadModel,
    settings: EngineSettings,
    emit: Callable[[Event], None],
    is_closing: Callable[[], bool],
    beside: Beside = Beside(),
    files: ModelFiles | None = None,
) -> Serving:
    """Load the model, and the one that drafts for it, and try its block kernels; emits LoadProgress.

    `files`: the model, where it was opened before. Raises EngineError, EngineClosed once `is_closing()`;
    nothing of the model is in memory then.
    """

    def check() -> None:
        if is_closing():
            raise EngineClosed("the engine was shut down while the model was loading")

    news = deque[LoadProgress](maxlen=1)

    def progress(done: int, total: int) -> None:
        check()
        news.append(LoadProgress(command.id, done, total))

    def tell() -> None:
        while news:
            emit(news.popleft())

    limit_kept_memory()
    try:
        own = own_settings(command, settings)
        model = load_model(Path(command.path), own, progress, files, beside.apart(tell))
        tell()
        model.tokenizer.longest = model.whole_context
        size = model.info.weight_bytes
        trying = LoadProgress(command.id, size, size, is_trying=True)
        model.prove_block_kernels(lambda: emit(trying), is_closing, beside.go_on)
        draft = _load_draft(model, settings, check, beside.apart(lambda: None))
    except BaseException:
        mx.clear_cache()
        raise
    return Serving(model, own, emit, draft)


def _load_draft(
    target: LoadedModel, settings: EngineSettings, check: Callable[[], None], apart: Apart
) -> DraftModel | None:
    """`check`: called behind each tensor, and ends the load by what it raises."""
    if settings.draft_model is None:
        return None
    own = replace(settings, ssd=None, kv_bits=None, context=None)
    draft = load_model(settings.draft_model, own, lambda done, total: check(), apart=apart)
    apart(partial(check_vocabulary, draft, target))
    shares = pages_beside_draft(_tenant(target), _tenant(draft), memory_bytes(), settings)
    names = f"{target.info.name} with {draft.info.name}, which guesses for it"
    check_weights(names, target.info.weight_bytes + draft.info.weight_bytes, memory_bytes())
    if shares is None:
        raise ModelError(f"{names}: their KV pages do not fit together; leave the draft model out")
    for model, pages in zip((target, draft), shares, strict=True):
        model.limit_pages(pages, seconds=0.0)
    return DraftModel(draft, target)


def _tenant(model: LoadedModel) -> Tenant:
    needed = model.pager.pages_for(model.most_resident)
    return Tenant(model.info.weight_bytes, model.arena.page_bytes, needed)


def own_settings(command: LoadModel, settings: EngineSettings) -> EngineSettings:
    """The engine's settings with those of one model. Raises EngineError for what makes no sense."""
    if command.context is not None:
        settings = replace(settings, context=command.context)
    if command.kv_bits != AS_SET:
        settings = replace(settings, kv_bits=command.kv_bits)
    return settings
