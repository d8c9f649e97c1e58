"""What a person set for one model alone, found before it is opened; and what a person changes of models."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from app.library.records import Model, ModelSettings, Own
from app.models.background import Background, Post
from app.paths import Paths
from app.settings import KvCache

if TYPE_CHECKING:
    from app.library.library import Library

log = logging.getLogger(__name__)


class OwnSettings:
    """Asks the library on a thread of its own: a scan must not hold up what is being opened.

    What is saved here is found by whoever asks behind it.
    """

    def __init__(self, paths: Paths, post: Post) -> None:
        self._paths = paths
        self._background = Background("mlxr-own-settings", post)

    def find(self, path: str, then: Callable[[Own], None]) -> None:
        """What is set for the model at `path`; nothing where the library cannot be read."""

        def work() -> Own:
            from app.library.lookup import own_at

            return own_at(Path(path), self._paths)

        def without(problem: str) -> None:
            log.warning("%s is opened without settings of its own: %s", path, problem)
            then(Own())

        self._background.ask(work, then, without)

    def change(
        self,
        change: Callable[[Library], object],
        then: Callable[[tuple[Model, ...]], None],
        failed: Callable[[str], None],
    ) -> None:
        """Make a change that a person makes of a model.

        `then` gets all models as they are then, `failed` a line on why it could not be kept.
        """

        def work() -> tuple[Model, ...]:
            from app.library.lookup import models_after

            return models_after(change, self._paths)

        self._background.ask(work, then, failed)

    def choose_kv_cache(
        self,
        path: str,
        choice: KvCache,
        then: Callable[[ModelSettings | None], None],
        failed: Callable[[str], None],
    ) -> None:
        """Change the KV cache that is set for the model at `path` alone, if any is.

        `then` gets all that is set for it, or None; `failed` a line on why it could not be kept.
        """

        def work() -> ModelSettings | None:
            from app.library.lookup import choose_kv_cache

            return choose_kv_cache(Path(path), self._paths, choice)

        self._background.ask(work, then, failed)

    def close(self, seconds: float) -> None:
        """Ask for nothing any more; what was asked for is saved first."""
        if not self._background.close(seconds):
            log.warning("the settings of models did not end in time")
