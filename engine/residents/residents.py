"""The models that requests reach: who is in memory, who makes room for whom, and whose turn it is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.commands import LoadModel
from engine.errors import NoModel
from engine.events.cache import ChatsCached
from engine.events.events import Event
from engine.events.models import ModelReady, ModelUnloaded, UnloadReason
from engine.kv.ssd.tier import SsdTier
from engine.requests.failure import failure
from engine.residents.beside_loading import BesideLoading
from engine.residents.chats import ChatsOfAll
from engine.residents.opened import Opened
from engine.residents.opening import open_model
from engine.residents.resident import Resident
from engine.residents.shares import Shares
from engine.residents.turns import Turns
from engine.rest.forgetting import Forgetting
from engine.rest.tidying import CLOSING_SECONDS
from engine.serving import Serving
from engine.settings import EngineSettings

log = logging.getLogger(__name__)

_WRITTEN_WITHIN = 0.25
"""Seconds for which a request waits while pages are written that would be lost."""

_WRITTEN_BESIDE = 30.0
"""And a load, for pages that are written between the steps of others' answers."""


class Residents:
    """The models that were loaded and are wanted still; for one thread, the engine's.

    Several are in memory at once where they fit (`engine.fitting.fit.page_shares`): each then has a share of
    what KV pages may take. Where they do not, those that were used least recently go.

    Attributes:
        after: seconds without a request until a model leaves memory, up to the next one; None: never.
    """

    def __init__(
        self,
        settings: EngineSettings,
        emit: Callable[[Event], None],
        is_closing: Callable[[], bool],
        settled: Callable[[], None],
        hear: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`settled`: called on another thread when `tell_settled` is due; `hear`: while a model is loaded."""
        self.after = settings.unload_after
        self._settings, self._emit, self._is_closing, self._clock = settings, emit, is_closing, clock
        self._all: dict[str, Resident] = {}  # by path, in the order in which they were asked for
        self._unopened: dict[str, str] = {}  # by path: which model is not loaded, and why not
        self._chats = ChatsOfAll(emit)
        self._forgetting = Forgetting(settings.ssd, settled, clock)
        self._turns, self._idle_since, self._are_pages_watched = Turns(clock), 0.0, False
        self._shares = Shares(settings)
        self._beside = BesideLoading(self._turns, hear, clock)

    @property
    def _awake(self) -> list[Resident]:
        return [resident for resident in self._all.values() if resident.serving is not None]

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
        return None if resident is None else resident.serving

    def wanted(self, path: str, *, cancels: bool = True) -> Serving:
        """The model for a request; one that rests is loaded again. Raises NoModel, and what loading does.

        Not `cancels`: it is not loaded where others' answers would have to end for it, or pinned chats to go.
        """
        resident = self._named(path)
        if resident is None:
            raise NoModel(self._why_missing(path))
        if resident.serving is None:
            self._wake(resident, cancels)
        resident.used = self._clock()
        return resident.at_work

    def load(self, command: LoadModel) -> None:
        """Load a model; the same one anew if it is there. Emits what LoadModel says but Failed."""
        self._unopened.pop(command.path, None)
        try:
            self._load(command)
        except Exception as error:
            if command.path not in self._all:
                name = command.name or Path(command.path).name
                self._unopened[command.path] = f"{name} is not loaded: {failure(command.id, error).error}"
            raise

    def _load(self, command: LoadModel) -> None:
        opened = self._beside.open(command, self._settings, self._awake)
        opened.tenant()  # what cannot be loaded, or not so, unloads nothing
        if (same := self._all.get(command.path)) is not None:
            self._part_with(same, why=f"{opened.files.name} was loaded anew meanwhile; answer anew")
        resident = Resident(command)
        self._open(resident, opened, _WRITTEN_WITHIN if self.busy else CLOSING_SECONDS)
        self._all[command.path] = resident
        self._chats.keep(self._all)
        self._ready(resident)

    def unload(self, path: str) -> None:
        """A model, or with "" the newest, is not wanted any more. Emits ModelUnloaded once it is gone."""
        resident = self._named(path)
        if resident is None:
            return
        if resident.serving is None:
            self._part_with(resident)
        else:
            resident.at_work.cancel_all()
            resident.is_wanted = False
            self._send_away()

    def close(self) -> None:
        """Free all of them."""
        for resident in self._awake:
            self._put_out(resident, "asked")
        self._forgetting.close()
        self.tell_settled()

    def forget(self, chat: str) -> None:
        """Drop the cached pages of a chat, on SSD those of every model.

        ChatsCached names it until that outlasts a power cut.
        """
        self._chats.forgets(chat)
        for serving in self.servings:
            serving.forget(chat)
        self._forgetting.forget(chat, self._tiers)
        self._chats.forgot(chat, {resident.path for resident in self._awake})

    def tell_settled(self) -> None:
        """Of forgotten chats that are so for good, ChatsCached says it, and what is left of their files."""
        for serving in self.servings:
            serving.tell()
        self._chats.settle(self._forgetting.unsettled)

    @property
    def _tiers(self) -> list[SsdTier]:
        return [serving.model.tier for serving in self.servings if serving.model.tier is not None]

    def watch_pages(self, are_watched: bool) -> None:
        """Tell of single pages from now on, or no longer; also those of models that are loaded later."""
        self._are_pages_watched = are_watched
        for serving in self.servings:
            serving.watch_pages(are_watched)

    def take_turn(self) -> None:
        """Make a step of a model whose turn it is. One model at least is busy."""
        self._turns.take([resident for resident in self._awake if resident.at_work.busy])
        self._send_away()

    def rest(self) -> None:
        """From now on nobody has a request."""
        self._idle_since = self._clock()
        for resident in self._awake:
            resident.tidied = self._idle_since

    @property
    def patience(self) -> float | None:
        """Seconds, while nobody has a request, until `look_after` has something to do; None: never."""
        now = self._clock()
        dues = [
            due
            for resident in self._awake
            for due in (resident.tidies_in(now), resident.leaves_in(self.after, now))
            if due is not None
        ]
        forgets_in = self._forgetting.due(self._tiers, now)
        return min([*dues, *([] if forgets_in is None else [forgets_in])], default=None)

    def look_after(self) -> None:
        """Nobody has a request: send away and tidy up what is due."""
        self._send_away()
        if self._forgetting.due(self._tiers, self._clock()) == 0:
            self._forgetting.again(self._tiers)
        for resident in self._awake:
            now = self._clock()
            if resident.tidies_in(now) == 0:
                try:
                    resident.at_work.tidy(now - self._idle_since)
                except Exception:  # nobody asked for it
                    log.exception("at rest pages could not be put away, or not brought back")
                resident.tidied = self._clock()
        self._shares.divide_at_rest(self._awake)

    def _why_missing(self, path: str) -> str:
        if not path:
            return "no model is loaded; open one first"
        return self._unopened.get(path) or f"{Path(path).name} is not loaded; open it first"

    def _named(self, path: str) -> Resident | None:
        wanted = {resident.path: resident for resident in self._all.values() if resident.is_wanted}
        return wanted.get(path) if path else next(reversed(wanted.values()), None)

    def _send_away(self) -> None:
        """Who is unloaded, or unused for long, leaves: beside answers when all is written, bit by bit."""
        for resident in self._awake:
            is_due = resident.leaves_in(self.after, self._clock()) == 0
            if is_due and (not self.busy or resident.put_some_away()):
                self._put_out(resident, "idle" if resident.is_wanted else "asked")
                self._shares.divide(self._awake, _WRITTEN_WITHIN)

    def _wake(self, resident: Resident, cancels: bool) -> None:
        try:
            opened = self._beside.open(resident.command, self._settings, self._awake)
            self._open(resident, opened, _WRITTEN_WITHIN, cancels)
        except NoModel:  # nothing is wrong with it
            raise
        except Exception as error:  # it rests on: a disk may come back
            self._emit(failure(resident.command.id, error))
            raise
        self._ready(resident)

    def _open(self, resident: Resident, opened: Opened, seconds: float, cancels: bool = True) -> None:
        """Load it; what others have to give up for it is written to SSD within `seconds`."""
        tell = partial(self._tell, resident.path)
        try:
            pages = self._make_room(opened, seconds, cancels)
            beside = self._beside.of(self._awake)
            resident.serving = open_model(resident.command.id, opened, tell, self._is_closing, beside)
        except BaseException:
            self._shares.divide(self._awake, _WRITTEN_WITHIN)
            raise
        if pages is not None:
            resident.serving.limit_pages(pages, seconds)
        resident.used = self._clock()

    def _ready(self, resident: Resident) -> None:
        serving = resident.at_work
        self._emit(ModelReady(resident.command.id, serving.model.info))
        if serving.model.tier is not None:
            self._forgetting.hand_over(serving.model.tier)
        serving.tell()
        if self._are_pages_watched:
            serving.watch_pages(True)

    def _make_room(self, opened: Opened, seconds: float, cancels: bool) -> int | None:
        """Until it fits, let others go. Returns the pages of its share; None when it has all to itself.

        Not `cancels`: raises NoModel where answers, which may begin meanwhile, would have to end for it, or
        a pinned chat to leave memory.
        """
        if not self._awake:
            return None
        newcomer = opened.tenant()  # what cannot be loaded sends nobody away
        while others := self._awake:
            if shares := self._shares.of(others, newcomer):
                for other, pages in zip(others, shares, strict=False):
                    other.at_work.limit_pages(pages, seconds)
                return shares[-1]
            stay = [] if cancels else [other for other in others if any(other.needed_by[:2])]
            if stay and self._shares.of(stay, newcomer) is None:
                is_busy = any(other.at_work.busy for other in stay)
                beside = "the answer being written" if is_busy else "chats that are kept in memory"
                raise NoModel(f"{opened.files.name} rests: there is no room for it beside {beside}")
            first = self._shares.first_to_go(others, newcomer)
            if not first.is_wanted:
                self._part_with(first)
                continue
            why = f"{first.at_work.model.info.name} had to make room for {opened.files.name}; open it again"
            self._unopened[first.path] = why
            self._part_with(first, "room", f"{why} and answer anew")
        return None

    def _part_with(self, resident: Resident, reason: UnloadReason = "asked", why: str = "") -> None:
        """Nobody wants it any more; it is gone from memory: beside others' answers when all is written.

        Its own requests end before that, and say `why`.
        """
        resident.is_wanted = False
        if resident.serving is not None:
            resident.at_work.cancel_all(why)
            self._beside.until(partial(self._is_put_away, resident), self._awake, _WRITTEN_BESIDE)
        self._put_out(resident, reason)

    def _is_put_away(self, resident: Resident) -> bool:
        return self._is_closing() or resident.put_some_away()

    def _put_out(self, resident: Resident, reason: UnloadReason) -> None:
        """It is gone from memory, and forgotten where nobody wants it, also where it rested."""
        if resident.serving is not None:
            self._forgetting.take(resident.leave())
        self._emit(ModelUnloaded(resident.path, reason))
        if not resident.is_wanted:
            del self._all[resident.path]
            if self._all:  # the last's are told until another comes
                self._chats.left(resident.path)

    def _tell(self, path: str, event: Event) -> None:
        """What a model tells goes on, chats with what other models have of them."""
        if isinstance(event, ChatsCached):
            self._chats.told(path, event.chats)
        else:
            self._emit(event)
