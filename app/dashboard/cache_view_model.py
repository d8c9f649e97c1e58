"""The cache of the model on show: its pages, what it did, and what may be done with a chat's pages."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from PySide6.QtCore import QObject, Signal

from engine import (
    ChatMemory,
    ChatsCached,
    Command,
    Event,
    Forget,
    KernelsChosen,
    ModelInfo,
    ModelReady,
    ModelUnloaded,
    PageMap,
    Release,
    Stats,
    WatchPages,
)


@dataclass(slots=True)
class _Model:
    info: ModelInfo | None = None
    stats: Stats | None = None
    pages: PageMap | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its number, its state's bits, its chats, and when it was used last (0: it runs, or is free)."""

    number: int
    state: int
    chats: tuple[str, ...]
    used_at: float


@dataclass(slots=True)
class _Places:
    """Chats in the order in which they were first seen: a chat keeps its colour."""

    of: dict[str, int] = field(default_factory=dict[str, int])

    def place(self, chat: str) -> int:
        return self.of.setdefault(chat, len(self.of))


class CacheViewModel(QObject):
    """Keeps what the engine says of pages, of each model apart. `changed` on `flush`, when something has."""

    changed = Signal()

    def __init__(self, submit: Callable[[Command], None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._submit = submit
        self._models: dict[str, _Model] = {}
        self._shown = ""
        self._has_changed = False
        self._places = _Places()
        self.chats: Mapping[str, ChatMemory] = {}

    @property
    def info(self) -> ModelInfo | None:
        """The model on show, while it is in memory."""
        return self._model.info

    @property
    def stats(self) -> Stats | None:
        """What it told last."""
        return self._model.stats

    @property
    def pages(self) -> PageMap | None:
        """Its pages, as they were told last."""
        return self._model.pages

    @property
    def has_several(self) -> bool:
        """Whether other models are in memory too: `chats` names the chats of all of them."""
        return len(self._models) > 1

    def page(self, number: int) -> Page | None:
        """One of its pages; None where there is no such page."""
        pages = self.pages
        if pages is None or not 0 <= number < pages.total_pages:
            return None
        if number >= len(pages.states):
            return Page(number, 0, (), 0.0)
        owner, used = array("I", pages.owner_of)[number], array("d", pages.used_at)[number]
        return Page(number, pages.states[number], pages.owners[owner], used)

    def colour_place(self, chat: str) -> int:
        """Which of the chats seen it is: its colour."""
        return self._places.place(chat)

    def show(self, model: str) -> None:
        """Tell of this model from now on."""
        self._shown, self._has_changed = model, True

    def watch(self, is_watched: bool) -> None:
        """Have single pages told, or no longer."""
        if not is_watched:
            for model in self._models.values():
                model.pages = None  # it would be an old one when somebody looks again
        self._submit(WatchPages(is_watched))

    def release(self, chat: str) -> None:
        """Free the memory of a chat's pages; those that go to SSD come back from there."""
        self._submit(Release(chat))

    def clear(self, chat: str) -> None:
        """Forget a chat's pages, in memory and on SSD: its next message is read anew."""
        self._submit(Forget(chat))

    def handle(self, event: Event) -> None:
        """Take in an engine event."""
        match event:
            case ModelReady():
                self._models[event.model.path] = _Model(event.model)
            case KernelsChosen():
                self._of(event.model.path).info = event.model
            case ModelUnloaded():
                self._models.pop(event.path, None)
            case Stats():
                self._of(event.model).stats = event
            case PageMap():
                self._of(event.model).pages = event
            case ChatsCached():
                self.chats = event.chats
            case _:
                return
        self._has_changed = True

    def flush(self) -> None:
        """Tell the views, when something has changed since the last time."""
        if self._has_changed:
            self._has_changed = False
            self.changed.emit()

    def _of(self, model: str) -> _Model:
        return self._models.setdefault(model, _Model())

    @property
    def _model(self) -> _Model:
        return self._models.get(self._shown, _Model())
