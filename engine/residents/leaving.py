"""Models leave memory: nobody wants or uses them any more, or another one needs their room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from engine.errors import EngineError, NoRoom
from engine.events.events import Event
from engine.events.models import ModelUnloaded, UnloadReason
from engine.residents.beside_loading import BesideLoading
from engine.residents.chats import ChatsOfAll
from engine.residents.opened import Opened
from engine.residents.resident import Resident
from engine.residents.shares import Shares
from engine.rest.forgetting import Forgetting

_WRITTEN_BESIDE = 30.0
"""Seconds that a load waits for pages that are written between the steps of others' answers."""

Spared = Literal["nobody", "answers", "answers and pinned chats"]
"""With what no model has to go for another one."""


class Leaving:
    """Sends models away.

    Attributes:
        why_gone: of models that had to, by their paths: for whom, and what to do.
    """

    def __init__(
        self,
        present: dict[str, Resident],
        shares: Shares,
        beside: BesideLoading,
        forgetting: Forgetting,
        chats: ChatsOfAll,
        emit: Callable[[Event], None],
        is_closing: Callable[[], bool],
    ) -> None:
        """`present`: all that are there by their paths; who is gone for good is taken out."""
        self.why_gone: dict[str, str] = {}
        self._present, self._shares, self._beside = present, shares, beside
        self._forgetting, self._chats, self._emit = forgetting, chats, emit
        self._is_closing = is_closing

    @property
    def awake(self) -> list[Resident]:
        """Who is in memory."""
        return [resident for resident in self._present.values() if resident.serving is not None]

    def make_room(
        self, opened: Opened, seconds: float, spared: Spared, ending: Callable[[], EngineError | None]
    ) -> int | None:
        """Until it fits, let others go. Returns the pages of its share; None when it has all to itself.

        They are gone for one that is loaded, and rest for one that did, which spares somebody.

        Args:
            seconds: for which they wait while what they give up is written to SSD.
            spared: whom nobody has to go with: raises NoRoom where somebody would, who may begin meanwhile.
            ending: raises what it returns, when nobody waits for the model any more.
        """
        if not self.awake:
            return None
        newcomer = opened.tenant()  # what cannot be loaded sends nobody away
        while others := self.awake:
            if why := ending():
                raise why
            if shares := self._shares.of(others, newcomer):
                for other, pages in zip(others, shares, strict=False):
                    other.at_work.limit_pages(pages, seconds)
                return shares[-1]
            stay = [other for other in others if _is_spared(other, spared)]
            if stay and self._shares.of(stay, newcomer) is None:
                raise NoRoom(opened.files.name, _what_stays(stay))
            first = self._shares.first_to_go(others, newcomer)
            if not first.is_wanted:
                self.part_with(first)
            elif spared == "nobody":
                name = first.at_work.model.info.name
                why = f"{name} had to make room for {opened.files.name}; open it again"
                self.why_gone[first.path] = why
                self.part_with(first, "room", f"{why} and answer anew")
            else:
                self._let_rest(first, ending)
        return None

    def part_with(self, resident: Resident, reason: UnloadReason = "asked", why: str = "") -> None:
        """Nobody wants it any more; it is gone from memory: beside others' answers when all is written.

        Its own requests end before that, and say `why`.
        """
        resident.is_wanted = False
        if resident.serving is not None:
            resident.at_work.cancel_all(why)
            self._beside.until(
                lambda: self._is_closing() or resident.put_some_away(), self.awake, _WRITTEN_BESIDE
            )
        self.put_out(resident, reason)

    def put_out(self, resident: Resident, reason: UnloadReason) -> None:
        """It is gone from memory, and forgotten where nobody wants it, also where it rested."""
        if resident.serving is not None:
            self._forgetting.take(resident.leave())
        self._emit(ModelUnloaded(resident.path, reason))
        if not resident.is_wanted:
            del self._present[resident.path]
            if self._present:  # the last's are told until another comes
                self._chats.left(resident.path)

    def _let_rest(self, resident: Resident, ending: Callable[[], EngineError | None]) -> None:
        """It leaves for another one, unless nobody waits for that any more, and comes back when asked for."""
        resident.is_leaving = True
        try:
            self._beside.until(
                lambda: ending() is not None or resident.put_some_away(), self.awake, _WRITTEN_BESIDE
            )
        finally:
            resident.is_leaving = False
        if ending() is None:
            self.put_out(resident, "idle")


def _is_spared(resident: Resident, spared: Spared) -> bool:
    is_busy, holds_pinned, _ = resident.needed_by
    return spared != "nobody" and (is_busy or (holds_pinned and spared != "answers"))


def _what_stays(stay: list[Resident]) -> str:
    """As in a sentence."""
    names = [other.at_work.model.info.name for other in stay if other.at_work.busy]
    if not names:
        return "chats that are kept in memory"
    if len(names) == 1:
        return f"the answer that {names[0]} is writing"
    return f"the answers that {', '.join(names[:-1])} and {names[-1]} are writing"
