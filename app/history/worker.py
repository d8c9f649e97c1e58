"""The thread that owns the database of requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.errors import AppError
from app.history.export import write_csv
from app.history.records import RequestRecord, Where
from app.history.requests import RequestStore
from app.history.schema import HISTORY
from app.history.spans import Span
from app.store.database_worker import DatabaseWorker, Keeping, Post

_HISTORY: Keeping[RequestStore, RequestRecord] = Keeping(
    kind=HISTORY,
    store=RequestStore,
    begin=RequestStore.trim,
    save=RequestStore.add,
    cannot_save="The history of requests cannot be saved right now ({reason}); MLXR keeps trying.",
    not_saved="The history of requests could not be saved ({reason}).",
    lost="One entry of the history of requests cannot be saved ({reason}). Others are saved.",
    cannot_read="The history of requests cannot be read right now ({reason}).",
    ended="The history of requests is no longer saved ({reason}). Start MLXR again.",
)


class HistoryWorker(DatabaseWorker[RequestStore, RequestRecord]):
    """Saves and reads the history on a thread of its own (see DatabaseWorker)."""

    def __init__(self, path: Path, post: Post, on_problem: Callable[[str], None]) -> None:
        super().__init__(_HISTORY, path, post, on_problem)

    def export(
        self,
        path: Path,
        then: Callable[[int | AppError], None],
        span: Span | None = None,
        where: Where | None = None,
    ) -> None:
        """Write requests to the CSV file `path`; `then` gets how many, or why it could not be written."""

        def written(store: RequestStore) -> int | AppError:
            try:
                return write_csv(store.rows(span, where), path)
            except AppError as error:  # the file's trouble is not the database's
                return error

        self.ask(written, then, lambda words: then(AppError(words)))
