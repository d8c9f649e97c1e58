"""The models that requests reach: who is in memory, who makes room for whom, and whose turn it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.commands import LoadModel
from engine.errors import EngineClosed, EngineError, NoModel, NotAwaited
from engine.events.cache import ChatsCached
from engine.events.events import Event, Stats
from engine.events.models import ModelReady, ModelUnloaded
from engine.requests.failure import failure
from engine.residents.at_rest import WRITTEN_WITHIN, AtRest
from engine.residents.beside_loading import BesideLoading
from engine.residents.chats import ChatsOfAll
from engine.residents.leaving import Leaving, Spared
from engine.residents.opened import Opened
from engine.residents.opening import open_model
from engine.residents.resident import Resident, name_of
from engine.residents.shares import Shares
from engine.residents.turns import Turns
from engine.rest.forgetting import Forgetting
from engine.rest.tidying import CLOSING_SECONDS
from engine.serving import Serving
from engine.settings import EngineSettings


class Residents:
    """The models that were loaded and are wanted still; for one thread, the engine's.

    Several are in memory at once where they fit (`engine.fitting.fit.page_shares`): each then has a share of
    what KV pages may take. Where they do not, those that were used least recently go.

    Attributes:
        at_rest: what is done for them while nobody asks.
    """

    def __init__(
        self,
        settings: EngineSettings,
        emit: Callable[[Event], None],
        is_closing: Callable[[], bool],
        settled: Callable[[], None],
        hear: Callable[[], None] = lambda: None,
        is_unneeded: Callable[[], bool] = lambda: False,
        waiting: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """
        Args:
            settled: called on another thread when `tell_settled` is due.
            hear: called while a model is loaded.
            is_unneeded: whether nobody waits any more for the model that is woken; called on any thread.
            waiting: how many requests wait, before they begin, until models have answered.
        """
        self._settings, self._emit, self._is_closing, self._clock = settings, emit, is_closing, clock
        self._all: dict[str, Resident] = {}  # by path, in the order in which they were asked for
        self._is_unneeded, self._waiting = is_unneeded, waiting
        self._chats = ChatsOfAll(emit)
        self._forgetting = Forgetting(settings.ssd, settled, clock)
        self._turns, self._are_pages_watched = Turns(clock), False
        self._shares = Shares(settings)
        self._beside = BesideLoading(self._turns, hear, clock)
        self._leaving = Leaving(
            self._all, self._shares, self._beside, self._forgetting, self._chats, emit, is_closing
        )
        self.at_rest = AtRest(self._leaving, self._shares, self._forgetting, settings.unload_after, clock)

    @property
    def _awake(self) -> list[Resident]:
        return self._leaving.awake

    @property
    def servings(self) -> list[Serving]:
        """The models in memory."""
        return [resident.at_work for resident in self._awake]

    @property
    def busy(self) -> bool:
        """Whether there is a request to work on."""
        return any(resident.at_work.busy for resident in self._awake)

    def is_alone(self, serving: Serving) -> bool:
        """Whether no other model is loaded, or has a request to work on."""
        return not (self._beside.is_on or any(one.busy for one in self.servings if one is not serving))

    def find(self, path: str) -> Serving | None:
        """The model named by its path, or with "" the newest one; None while it rests, or is not there."""
        resident = self._named(path)
        return None if resident is None or resident.is_leaving else resident.serving

    def called(self, path: str) -> tuple[str, str]:
        """The path of that model, at rest too, and what people call it. Raises NoModel."""
        resident = self._there(path)
        return resident.path, resident.name

    def is_there(self, path: str) -> bool:
        """Whether requests reach that model, at rest too."""
        return self._named(path) is not None

    @property
    def standing(self) -> object:
        """Who is there, and at what: while it stays the same, nobody has room who had none."""
        return tuple(resident.standing for resident in self._all.values())

    def wanted(
        self, path: str, spared: Spared = "answers", has_room: Callable[[], None] = lambda: None
    ) -> Serving:
        """The model for a request; one that rests is loaded again: `has_room` is called before it is read.

        Raises NoModel, NoRoom where somebody would have to go for it who is spared, and what loading does.
        """
        resident = self._there(path)
        if resident.serving is None:
            self._wake(resident, spared, has_room)
        resident.used = self._clock()
        return resident.at_work

    def load(self, command: LoadModel) -> None:
        """Load a model; the same one anew if it is there. Emits what LoadModel says but Failed."""
        self._leaving.why_gone.pop(command.path, None)
        try:
            self._load(command)
        except Exception as error:
            if command.path not in self._all:
                why = failure(command.id, error).error
                self._leaving.why_gone[command.path] = f"{name_of(command)} is not loaded: {why}"
            raise

    def _load(self, command: LoadModel) -> None:
        opened = self._beside.open(command, self._settings, self._awake)
        opened.tenant()  # what cannot be loaded, or not so, unloads nothing
        if (same := self._all.get(command.path)) is not None:
            self._leaving.part_with(same, why=f"{opened.files.name} was loaded anew meanwhile; answer anew")
        resident = Resident(command)
        self._open(resident, opened, WRITTEN_WITHIN if self.busy else CLOSING_SECONDS)
        self._all[command.path] = resident
        self._chats.keep(self._all)
        self._ready(resident)

    def unload(self, path: str) -> None:
        """A model, or with "" the newest, is not wanted any more. Emits ModelUnloaded once it is gone."""
        resident = self._named(path)
        if resident is None:
            return
        if resident.serving is None:
            self._leaving.part_with(resident)
        else:
            resident.at_work.cancel_all()
            resident.is_wanted = False
            self.at_rest.send_away(is_busy=self.busy)

    def close(self) -> None:
        """Free all of them."""
        for resident in self._awake:
            self._leaving.put_out(resident, "asked")
        self._forgetting.close()
        self.tell_settled()

    def forget(self, chat: str) -> None:
        """Drop the cached pages of a chat, on SSD those of every model.

        ChatsCached names it until that outlasts a power cut.
        """
        self._chats.forgets(chat)
        for serving in self.servings:
            serving.forget(chat)
        self._forgetting.forget(chat, self.at_rest.tiers)
        self._chats.forgot(chat, {resident.path for resident in self._awake})

    def tell_settled(self) -> None:
        """Of forgotten chats that are so for good, ChatsCached says it, and what is left of their files."""
        for serving in self.servings:
            serving.tell()
        self._chats.settle(self._forgetting.unsettled)

    def watch_pages(self, are_watched: bool) -> None:
        """Tell of single pages from now on, or no longer; also those of models that are loaded later."""
        self._are_pages_watched = are_watched
        for serving in self.servings:
            serving.watch_pages(are_watched)

    def take_turn(self) -> None:
        """Make a step of a model whose turn it is. One model at least is busy."""
        self._turns.take([resident for resident in self._awake if resident.at_work.busy])
        self.at_rest.send_away(is_busy=self.busy)

    def _ending(self) -> EngineError | None:
        """Why what is loaded need not be any more; None where somebody waits for it."""
        if self._is_closing():
            return EngineClosed("the engine was shut down while the model was loading")
        return NotAwaited("nobody waits for the model any more") if self._is_unneeded() else None

    def _there(self, path: str) -> Resident:
        """Raises NoModel."""
        if (resident := self._named(path)) is not None:
            return resident
        if not path:
            raise NoModel("no model is loaded; open one first")
        raise NoModel(self._leaving.why_gone.get(path) or f"{Path(path).name} is not loaded; open it first")

    def _named(self, path: str) -> Resident | None:
        if path:
            resident = self._all.get(path)
            return resident if resident is not None and resident.is_wanted else None
        return next((one for one in reversed(self._all.values()) if one.is_wanted), None)

    def _wake(self, resident: Resident, spared: Spared, has_room: Callable[[], None]) -> None:
        try:
            opened = self._beside.open(resident.command, self._settings, self._awake)
            self._open(resident, opened, WRITTEN_WITHIN, spared, has_room)
        except (NoModel, NotAwaited):  # nothing is wrong with it
            raise
        except Exception as error:  # it rests on: a disk may come back
            self._emit(failure(resident.command.id, error))
            raise
        self._ready(resident)

    def _open(
        self,
        resident: Resident,
        opened: Opened,
        seconds: float,
        spared: Spared = "nobody",
        has_room: Callable[[], None] = lambda: None,
    ) -> None:
        """Load it; what others have to give up for it is written to SSD within `seconds`."""
        try:
            pages = self._leaving.make_room(opened, seconds, spared, self._ending)
            has_room()
            resident.serving = self._read(resident, opened)
        except BaseException:
            self._shares.divide(self._awake)
            raise
        if pages is not None:
            resident.serving.limit_pages(pages, seconds)
        resident.used = self._clock()

    def _read(self, resident: Resident, opened: Opened) -> Serving:
        tell, beside = partial(self._tell, resident.path), self._beside.of(self._awake)
        try:
            return open_model(resident.command.id, opened, tell, self._ending, beside)
        except NotAwaited:
            self._emit(ModelUnloaded(resident.path, "idle"))
            raise

    def _ready(self, resident: Resident) -> None:
        serving = resident.at_work
        self._emit(ModelReady(resident.command.id, serving.model.info))
        if serving.model.tier is not None:
            self._forgetting.hand_over(serving.model.tier)
        serving.tell()
        if self._are_pages_watched:
            serving.watch_pages(True)

    def _tell(self, path: str, event: Event) -> None:
        """What a model tells goes on: chats with what others have, its queue with who waits for it."""
        if isinstance(event, ChatsCached):
            self._chats.told(path, event.chats)
        elif isinstance(event, Stats) and (event.running or event.queued):
            self._emit(replace(event, queued=event.queued + self._waiting()))
        else:
            self._emit(event)
