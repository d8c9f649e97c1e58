"""Requests reach their models: at once, or when others have answered in whose place their own is loaded."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from engine.commands import Cancel, Generate
from engine.errors import NoRoom
from engine.events.cache import Predicted
from engine.events.events import Event, Waiting
from engine.requests.accepting import accept_command, check_command
from engine.requests.ended import withdrawn
from engine.requests.failure import failure
from engine.requests.request import Request
from engine.residents.residents import Residents
from engine.scheduler import rank_of
from engine.serving import Serving


@dataclass(slots=True, eq=False)
class _Asked:
    """A request that has not begun.

    Attributes:
        path, name: of its model.
        unwanted: its answers that were cancelled since.
        is_forgotten: whether its chat was, since it was asked.
        why: what it was told that it waits for.
    """

    command: Generate
    arrived: float
    path: str
    name: str
    unwanted: set[int] = field(default_factory=set[int])
    is_forgotten: bool = False
    why: str = ""

    @property
    def rank(self) -> float:
        return rank_of(self.command.lane, self.arrived)


class Asking:
    """Begins requests, and keeps those for whose models there is no room until others have answered.

    No answer ends for a request. While one waits, those that are ranked behind it wait too, so that they do
    not keep it waiting for ever.
    """

    def __init__(
        self,
        models: Residents,
        begins: Callable[[Generate, float], None],
        is_withdrawn: Callable[[Generate], bool],
        emit: Callable[[Event], None],
    ) -> None:
        """As of Hearing, `begins` is told what goes on, and `is_withdrawn` whether it has ended meanwhile."""
        self._models, self._begins, self._is_withdrawn, self._emit = models, begins, is_withdrawn, emit
        self._waiting: list[_Asked] = []  # best rank first
        self._tried: object = None  # where the models stood when the first had no room

    @property
    def waiting(self) -> int:
        """How many requests wait for others' answers."""
        return len(self._waiting)

    def waits_for(self, path: str) -> bool:
        """Whether one does, and goes on doing so, whose model this is."""
        return any(asked.path == path and not self._is_withdrawn(asked.command) for asked in self._waiting)

    def generate(self, command: Generate, arrived: float) -> None:
        """Begin a request, or let it wait. Raises what keeps it from being served."""
        check_command(command)
        asked = _Asked(command, arrived, *self._models.called(command.model))
        is_behind = bool(self._waiting) and self._waiting[0].rank <= asked.rank
        insort(self._waiting, asked, key=lambda one: one.rank)
        if is_behind:
            self._tell_others()
        else:
            self._begin(asked)

    def predict(self, command: Generate, arrived: float) -> Predicted:
        """What it would find, were it sent now. Raises what would keep it from being served."""
        check_command(command)
        serving = self._models.wanted(command.model, "answers and pinned chats")
        is_alone = self._models.is_alone(serving) and not self._waiting
        return serving.predict(_accepted(command, serving, arrived), is_alone=is_alone)

    def go_on(self) -> None:
        """Begin those that there is room for now, in their order; whose model is gone hears why."""
        for asked in self._with_model(is_there=False):
            self._try(asked)
        while self._waiting and self._models.standing != self._tried:
            first = self._waiting[0]
            self._begins(first.command, first.arrived)
            self._try(first)

    def cancel(self, cancel: Cancel) -> None:
        """End one that waits, or note which of its answers nobody wants; other ids are ignored."""
        meant = [asked for asked in self._waiting if asked.command.id == cancel.id]
        for asked in meant:
            if self._is_withdrawn(asked.command):
                continue
            if cancel.sample is not None:
                asked.unwanted.add(cancel.sample)
            if cancel.sample is None or asked.unwanted.issuperset(range(asked.command.n)):
                self._withdraw(asked)

    def forget(self, chat: str) -> None:
        """Those that were asked for `chat` until now are answered, and nothing of them is kept."""
        for asked in self._waiting:
            asked.is_forgotten |= asked.command.chat == chat

    def unload(self, path: str) -> None:
        """Unload a model, as `Residents.unload`: those that wait for it end."""
        had_it = self._with_model(is_there=True)
        self._models.unload(path)
        for asked in self._with_model(is_there=False):
            if asked in had_it:
                self._withdraw(asked)

    def close(self) -> None:
        """End all that wait."""
        for asked in list(self._waiting):
            self._withdraw(asked)

    def _with_model(self, *, is_there: bool) -> list[_Asked]:
        return [asked for asked in self._waiting if self._models.is_there(asked.path) is is_there]

    def _try(self, asked: _Asked) -> None:
        """The top of the thread for one that has waited: whatever happens becomes its Failed."""
        try:
            self._begin(asked)
        except Exception as error:  # noqa: BLE001 — the top of the thread
            self._emit(failure(asked.command.id, error))

    def _begin(self, asked: _Asked) -> None:
        """Begin it, or let it wait on where there is no room. Raises what keeps it from being served."""
        command = asked.command
        try:
            serving = self._models.wanted(asked.path, has_room=partial(self._has_room, asked))
        except Exception as error:
            if not self._is_withdrawn(command) and isinstance(error, NoRoom):
                self._tried = self._models.standing
                self._tell(asked, f"{error.name} has no room beside {error.beside}")
                self._tell_others()
                return
            self._remove(asked)
            if self._is_withdrawn(command):  # it has had its end
                return
            raise
        self._remove(asked)
        if not self._is_withdrawn(command):
            request = _accepted(command, serving, asked.arrived)
            request.is_forgotten = asked.is_forgotten
            serving.add(request)
            for sample in asked.unwanted:
                serving.cancel(command.id, sample)

    def _has_room(self, asked: _Asked) -> None:
        """Its model is loaded now, beside those that stay: who waited behind it for one of these begins."""
        self._remove(asked)
        while self._waiting and self._models.find(self._waiting[0].path) is not None:
            self._try(self._waiting[0])

    def _withdraw(self, asked: _Asked) -> None:
        self._emit(withdrawn(asked.command))
        self._remove(asked)

    def _remove(self, asked: _Asked) -> None:
        """It waits for no room any more."""
        if asked in self._waiting:
            self._waiting.remove(asked)
            self._tried = None
            self._tell_others()

    def _tell_others(self) -> None:
        for asked in self._waiting[1:]:
            self._tell(asked, f"a request for {self._waiting[0].name} comes first")

    def _tell(self, asked: _Asked, why: str) -> None:
        if asked.why != why:
            asked.why = why
            self._emit(Waiting(asked.command.id, why))


def _accepted(command: Generate, serving: Serving, arrived: float) -> Request:
    return accept_command(command, serving.model, partial(serving.chats.capacity, command.chat), arrived)
