"""From a LoadModel to a model at work, with progress; on the engine's thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import mlx.core as mx

from engine.errors import EngineError
from engine.events.events import Event
from engine.events.models import LoadProgress
from engine.fitting.fit import pages_alone
from engine.fitting.pair import limit_pages
from engine.loading.model import LoadedModel, load_model
from engine.loading.thread import Apart, at_once
from engine.machine.machine import limit_kept_memory, memory_bytes
from engine.residents.opened import Opened
from engine.serving import Serving
from engine.speculation.model_drafter import DraftModel


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
    load_id: str,
    opened: Opened,
    emit: Callable[[Event], None],
    ending: Callable[[], EngineError | None],
    beside: Beside = Beside(),
) -> Serving:
    """Load the model, and the one that drafts for it, and try its block kernels; emits LoadProgress.

    `load_id`: of the LoadModel. `ending`: why nobody wants it any more, asked on any thread; None where
    somebody does. Raises EngineError, that one too; nothing of the model is in memory then.
    """
    total, news = opened.total_bytes, deque[LoadProgress](maxlen=1)

    def tell() -> None:
        while news:
            emit(news.popleft())

    def progress(before: int) -> Callable[[int, int], None]:
        def add(done: int, _: int) -> None:
            if why := ending():
                raise why
            news.append(LoadProgress(load_id, before + done, total))

        return add

    limit_kept_memory()
    try:
        files, apart = opened.files, beside.apart(tell)
        model = load_model(files.path, opened.settings, progress(0), files, apart)
        model.tokenizer.longest = model.whole_context
        draft = _load_draft(model, opened, progress(files.weights.total_bytes()), apart)
        tell()
        trying = LoadProgress(load_id, total, total, is_trying=True)
        model.prove_block_kernels(lambda: emit(trying), lambda: ending() is not None, beside.go_on)
    except BaseException:
        with suppress(Exception):  # where memory has run out that may break as well
            mx.clear_cache()
        raise
    return Serving(model, opened.settings, emit, draft)


def _load_draft(
    target: LoadedModel, opened: Opened, on_progress: Callable[[int, int], None], apart: Apart
) -> DraftModel | None:
    if opened.draft is None:
        return None
    draft = load_model(opened.draft.path, opened.draft_settings, on_progress, opened.draft, apart)
    limit_pages(target, draft, pages_alone(opened.tenant(), memory_bytes(), opened.settings), seconds=0.0)
    return DraftModel(draft, target)
