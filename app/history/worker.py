"""The thread that owns the database of requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.history.records import RequestRecord
from app.history.requests import RequestStore
from app.history.schema import HISTORY
from app.store.database_worker import DatabaseWorker, Keeping, Post

_HISTORY: Keeping[RequestStore, RequestRecord] = Keeping(
    kind=HISTORY,
    store=RequestStore,
    begin=RequestStore.trim,
    save=RequestStore.add,
    cannot_save="The history of requests cannot be saved right now ({reason}); MLXR keeps trying.",
    ended="The history of requests is no longer saved ({reason}). Start MLXR again.",
)


class HistoryWorker(DatabaseWorker[RequestStore, RequestRecord]):
    """Saves and reads the history on a thread of its own (see DatabaseWorker)."""

    def __init__(self, path: Path, post: Post, on_problem: Callable[[str], None]) -> None:
        super().__init__(_HISTORY, path, post, on_problem)
