"""One repository of the Hub: what there is to download, its card, and whether this account may."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import QObject, Signal

from app.chat.blocks import Block
from app.hub.client import HubClient
from app.hub.details import Access, RepoDetails, read_access, read_card, read_details
from app.hub.fit import read_shape
from app.models.background import Background
from app.models.card_blocks import card_blocks
from engine import ModelShape


class RepoViewModel(QObject):
    """The repository that is looked at. Signal: `changed`, whenever more of it is known."""

    changed = Signal()

    def __init__(
        self, background: Background, client: Callable[[], HubClient], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._background = background
        self._client = client
        self._repo = ""
        self._number = 0
        self._clear()

    def _clear(self) -> None:
        self._details: RepoDetails | None = None
        self._access: Access | None = None
        self._card: str | None = None
        self._card_blocks: Sequence[Block] = ()
        self._shapes: dict[str, ModelShape | str] = {}
        self._error = ""

    @property
    def repo(self) -> str:
        """Its id; "" while none is looked at."""
        return self._repo

    @property
    def details(self) -> RepoDetails | None:
        """What the Hub says of it, once it has."""
        return self._details

    @property
    def access(self) -> Access | None:
        """Whether this account may download it, once that is known."""
        return self._access

    @property
    def shapes(self) -> Mapping[str, ModelShape | str]:
        """The shape of its models by format, or why they do not run; empty until it is known."""
        return self._shapes

    @property
    def page(self) -> str:
        """The address of its page."""
        return f"{self._client().endpoint}/{self._repo}"

    @property
    def card(self) -> str | None:
        """Its card in Markdown, once it is there; "" where it has none."""
        return self._card

    @property
    def card_blocks(self) -> Sequence[Block]:
        """What is shown of the card, once it is there, each block quick to be laid out."""
        return self._card_blocks

    @property
    def error(self) -> str:
        """The one line that says why nothing more is known, if so."""
        return self._error

    def open(self, repo: str) -> None:
        """Look at a repository."""
        self._repo = repo
        self.reload()

    def close(self) -> None:
        """Look at none."""
        self._number += 1
        self._repo = ""
        self._clear()
        self.changed.emit()

    def quit(self) -> None:
        """Ask for nothing any more; the thread ends when it can."""
        self._background.end()

    def reload(self) -> None:
        """Ask for all of it again, such as after a licence was accepted."""
        self._number += 1
        number, repo = self._number, self._repo
        self._background = self._background.free()  # an earlier question may hang
        self._clear()
        self.changed.emit()

        def work() -> RepoDetails | None:
            """Nothing, where another repository is looked at by now."""
            return read_details(self._client(), repo) if number == self._number else None

        def know(details: RepoDetails | None) -> None:
            if details is not None and number == self._number:
                self._details = details
                self.changed.emit()
                self._ask_access(number, details)
                self._ask_shapes(number, details)
                self._ask_card(number, details)

        self._background.ask(work, know, self._teller(number))

    def look_again(self) -> None:
        """Ask again, if a repository is looked at: another account may be allowed more."""
        if self._repo:
            self.reload()

    def _ask_access(self, number: int, details: RepoDetails) -> None:
        def know(access: Access) -> None:
            if number == self._number:
                self._access = access
                self.changed.emit()

        self._background.ask(lambda: read_access(self._client(), details), know, self._teller(number))

    def _ask_shapes(self, number: int, details: RepoDetails) -> None:
        def know(shapes: dict[str, ModelShape | str]) -> None:
            if number == self._number:
                self._shapes = shapes
                self.changed.emit()

        # Behind a gate, or without an answer, the files' sizes have to do.
        choices = details.choices.choices
        self._background.ask(lambda: read_shape(self._client(), details, choices), know, lambda words: None)

    def _ask_card(self, number: int, details: RepoDetails) -> None:
        def work() -> tuple[str, Sequence[Block]]:
            card = read_card(self._client(), details)
            return card, card_blocks(card)

        def know(found: tuple[str, Sequence[Block]]) -> None:
            if number == self._number:
                self._card, self._card_blocks = found
                self.changed.emit()

        # A card behind a gate is no failure: what to do is said of the gate.
        tell = self._teller(number) if not details.gated else lambda words: know(("", card_blocks("")))
        self._background.ask(work, know, tell)

    def _teller(self, number: int) -> Callable[[str], None]:
        def tell(words: str) -> None:
            if number == self._number:
                self._error = words
                self.changed.emit()

        return tell
