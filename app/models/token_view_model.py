"""The token for gated models: set, told of and forgotten on a thread of its own, since a keychain may ask."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.hub.token import Kept, Source, TokenStore
from app.models.background import Background


class TokenViewModel(QObject):
    """Signals: `found(Source or None)`, `kept(Kept)`, `forgotten`, `failed(words)`; no token in any."""

    found = Signal(object)
    kept = Signal(object)
    forgotten = Signal()
    failed = Signal(str)

    def __init__(self, background: Background, store: TokenStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._store = store

    def look(self) -> None:
        """Find out where a token comes from, if there is one: `found`."""

        def tell(source: Source | None) -> None:
            self.found.emit(source)

        self._background.ask(self._store.source, tell, self.failed.emit)

    def keep(self, pasted: str) -> None:
        """Keep what was pasted, once the Hub knows it: `kept`."""

        def tell(kept: Kept) -> None:
            self.kept.emit(kept)

        self._background.ask(lambda: self._store.set(pasted), tell, self.failed.emit)

    def forget(self) -> None:
        """Forget it: `forgotten`."""
        self._background.ask(self._store.delete, lambda _: self.forgotten.emit(), self.failed.emit)
