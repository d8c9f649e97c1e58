"""What requests find in the cache, in memory and on SSD; how long it takes, and why there is not more."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.cache.report import ChatPrefixes
from engine.cache.self_check import SelfCheck
from engine.cpu.host_steps import MOST
from engine.events.cache import CacheReport, MissReason, Predicted
from engine.kv.in_place_chunk import FEW_ROWS
from engine.kv.page_table import PageTable
from engine.kv.restoring import Ahead
from engine.loading.model import LoadedModel
from engine.machine.machine import device_kind, device_name
from engine.prediction.fetch_costs import fetch_costs
from engine.prediction.foresight import Foresight
from engine.prediction.prediction import SHORT
from engine.requests.request import Request, Sequence
from engine.runner import Runner
from engine.settings import EngineSettings
from engine.steps.batch import Sent

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request that was asked about; memory had `begun_at` tokens of it when reading it back began."""

    request: Request
    begun_at: int | None = None


@dataclass(frozen=True, slots=True)
class Reused:
    """Tokens of a prompt: `cached` in memory, `stored` on SSD behind these, for which `read` are read."""

    cached: int
    stored: int
    read: int

    @property
    def tokens(self) -> int:
        """That are not computed."""
        return self.cached + self.stored


class Finding:
    """The cache of one model as its requests see it."""

    def __init__(
        self, model: LoadedModel, settings: EngineSettings, steps: Callable[[int, int], int]
    ) -> None:
        """`steps`: how many compute a few tokens of a prompt, from the first on: see PromptChunks.steps."""
        self._model, self._memory = model, model.memory
        self._prefixes = ChatPrefixes(settings.page_size)
        share = settings.ssd.check_share if settings.ssd else 0.0
        self._check = SelfCheck(model, share, settings.kv_bits)
        self._steps: Callable[[int, int], int] = lambda begin, tokens: (
            steps(begin, tokens) if tokens <= SHORT else 1
        )
        self._has_answered = False
        self._asked: _Asked | None = None
        kind = model.fingerprint if settings.kv_bits is None else f"{model.fingerprint}-kv{settings.kv_bits}"
        self._foresight = Foresight(
            settings.cache / "rates" / f"{kind}.json",
            f"{device_name()} {model.info.executor} {model.info.dtype} {kind}",
            model.arena.page_bytes,
            settings.page_size,
            _few(model),
        )
        model.arena.grew, model.arena.met = self._foresight.grew, self._foresight.met

    def restore(self, sequence: Sequence, runner: Runner, *, is_alone: bool) -> bool:
        """Read the next of its pages back from SSD, where that is quicker than computing them.

        Fewer at once where it is not alone, and others wait. Returns False when there is no more to read; of
        some sequences it is then checked what was read. None is read for a forgotten chat: it would own that.
        """
        tokens, owner = sequence.tokens(0, sequence.length), sequence.request.owner
        ahead = self._memory.ahead(sequence.table, tokens, is_alone=is_alone)
        if owner is not None and ahead.end > ahead.first and self._chooses_to_read(sequence, ahead):
            sequence.request.clock.growth += self._model.arena.meet()
            is_learned = sequence.request.command.restores is None
            if self._read_some(sequence.table, tokens, owner, is_alone, is_learned):
                self._memory.trim(sequence.table)  # or pages that a window has left take the room of the next
                return True
        sequence.may_restore = False
        self._memory.settle(sequence.table, tokens, owner)
        self._sample(sequence.table, tokens, owner, sequence.begun_at, runner)
        return False

    def recall(self, runner: Runner) -> None:
        """Read the next of what was asked about, into pages that are free and built already.

        It has come to its end where the SSD has no more, or such pages are not there; of some prompts it is
        then checked what was read.
        """
        asked, self._asked = self._asked, None
        if asked is None:
            return
        prompt, chat = asked.request.prompt, asked.request.command.chat
        table = self._memory.begin(prompt, chat)
        try:
            begun_at = table.length if asked.begun_at is None else asked.begun_at
            ahead = self._memory.ahead(table, prompt, is_alone=False)
            if ahead.end > ahead.first and self._has_room(ahead) and self._should_restore(ahead):
                self._model.arena.meet()
                if self._read_some(table, prompt, chat, is_alone=False):
                    self._asked = _Asked(asked.request, begun_at)
                    return
            self._sample(table, prompt, chat, begun_at, runner)
        finally:
            self._memory.free(table)

    def make_ready(self) -> None:
        """The arena was just built for pages that may come back: none of them waits for what happens once.

        What a device takes to fetch pages that the host has written is known before a request has to choose.
        """
        self._model.arena.meet()
        if device_kind() == "CUDA" and not self._foresight.knows_fetching:
            for tokens, writing, fetching in fetch_costs(self._model):
                self._foresight.restored(tokens, writing)  # to read them takes no less
                self._foresight.fetched(tokens, fetching)

    @property
    def may_recall(self) -> bool:
        """Whether `recall` may have something to read."""
        return self._asked is not None

    def let_go(self) -> None:
        """What was asked about is not read back any more."""
        self._asked = None

    def report(self, sequence: Sequence, found: int) -> CacheReport:
        """What there was of its prompt, once nothing more is read back: `found` tokens."""
        request, cached = sequence.request, min(sequence.begun_at, found)
        begin, reason = self._miss(request, found)
        return CacheReport(request.id, len(request.prompt), cached, found - cached, begin, reason)

    def reused(self, request: Request) -> Reused:
        """What of its prompt would not be computed, were it sent now."""
        found, wanted = self._memory.lookup(request.ids), request.command.restores
        cached, stored = found.cached_tokens, found.stored_tokens
        begin = cached - cached % self._model.pager.page_size  # a page that memory has in part is read whole
        gains = cached + stored - begin
        read = gains - found.skipped_tokens
        if wanted is None and stored:
            wanted = self._foresight.should_restore(gains, begin, read, self._model.arena.unmet_bytes)
        return Reused(cached, stored, read) if wanted and stored else Reused(cached, 0, 0)

    def predict(self, request: Request, reused: Reused, ahead: Iterable[Sequence], pages: int) -> Predicted:
        """Of it, were it sent now behind the prompts of `ahead`.

        `reused`: what it would find. `pages`: that KV memory has to have for it.
        """
        prompt = len(request.prompt)
        if reused.stored:
            self._memory.fetch(request.prompt)  # it is likely to be sent
        self._asked = _Asked(request) if reused.stored and self._is_its_own(request) else None
        begin, reason = self._miss(request, reused.tokens)
        arena, total = self._model.arena, self._model.pager.total_pages
        grown = arena.pages_for(pages, total) * arena.page_bytes if pages > arena.pages else 0
        seconds = self._first_token(prompt, reused.tokens, reused.read, ahead, grown)
        return Predicted(request.id, prompt, reused.cached, reused.stored, seconds, begin, reason)

    def reading(self, request: Request, reused: Reused) -> float:
        """Seconds that its prompt would take, were it sent alone now; 0 where that is not known."""
        return self._first_token(len(request.prompt), reused.tokens, reused.read) or 0.0

    def rest(self, sequence: Sequence) -> float:
        """The same of what is left of a prompt that is being read."""
        known, there = sequence.length, sequence.table.length
        return (self._first_token(known, there, 0) or 0.0) if sequence.pending > 1 else 0.0

    def saved(self, request: Request) -> float:
        """Seconds that its first token would have come later, had nothing been found; 0 where not known."""
        report, prompt = request.report, len(request.prompt)
        if report is None:
            return 0.0
        found = report.cached_tokens + report.restored_tokens
        whole = self._first_token(prompt, 0, 0)
        rest = self._first_token(prompt, found, report.restored_tokens)
        return max(0.0, whole - rest) if whole is not None and rest is not None else 0.0

    def left(self, request: Request, done: int) -> float | None:
        """Seconds that its tokens behind `done` are expected to take, alone; None where that is not known."""
        prompt = len(request.prompt)
        return self._first_token(prompt, done, 0) if done < prompt else 0.0

    def took(self, sent: Sent, seconds: float) -> None:
        """A step is done."""
        self._foresight.took(sent, seconds)

    def answered(self, request: Request) -> None:
        """Its first token is there, and nobody is beside it."""
        report, clock = request.report, request.clock
        is_first, self._has_answered = not self._has_answered, True
        if not request.came_alone or report is None or request.command.restores is not None:
            return
        restored = report.restored_tokens
        cached, seconds = report.cached_tokens + restored, clock.first_token - clock.taken_up - clock.growth
        new = len(request.prompt) - cached
        steps = self._steps(cached, new)
        # A model's first request pays for what happens once; of a window more comes back than is read.
        if not restored:
            if not (is_first and self._foresight.knows_computing(new)):
                self._foresight.answered(new, cached, steps, seconds)
        elif not is_first and self._model.config.largest_window is None:
            self._foresight.returned(restored, new, cached, steps, seconds)

    def computed(self, sequence: Sequence) -> None:
        """Its pages are kept, unless it was forgotten: its chat was computed that far."""
        owner = sequence.request.owner
        if owner is not None:
            self._prefixes.computed(owner, sequence.tokens(0, sequence.table.length))

    def shared(self, chat: str, tokens: tuple[int, ...]) -> None:
        """`chat` owns whole pages of `tokens` from now on."""
        self._prefixes.computed(chat, tokens)

    def forget(self, chat: str) -> None:
        """Nothing of it is expected any more."""
        self._prefixes.forget(chat)
        if self._asked is not None and self._asked.request.command.chat == chat:
            self.let_go()

    def save(self) -> None:
        """Keep what was learned, where that is anything new."""
        self._foresight.save()

    def _first_token(
        self, prompt: int, reused: int, read: int, ahead: Iterable[Sequence] = (), grown_bytes: int = 0
    ) -> float | None:
        steps, met_bytes = self._steps(reused, prompt - reused), grown_bytes or self._model.arena.unmet_bytes
        return self._foresight.first_token(prompt, reused, read, ahead, steps, grown_bytes, met_bytes)

    def _chooses_to_read(self, sequence: Sequence, ahead: Ahead) -> bool:
        """Whether the next of its pages are to come from SSD: as it was asked, or by what is quicker."""
        wanted = sequence.request.command.restores
        if wanted is None and not self._should_restore(ahead):
            self._foresight.refused()
            return False
        return wanted is not False

    def _read_some(
        self, table: PageTable, tokens: tuple[int, ...], chat: str, is_alone: bool, is_learned: bool = True
    ) -> int:
        """The tokens gained; what it takes `is_learned`."""
        memory, size = self._memory, self._model.pager.page_size
        began, before = time.perf_counter(), memory.counts.restored_pages
        gained = memory.restore(table, tokens, chat, is_alone=is_alone)
        if gained and is_learned:
            pages = memory.counts.restored_pages - before
            self._foresight.restored(pages * size, time.perf_counter() - began)
        return gained

    def _should_restore(self, ahead: Ahead) -> bool:
        size, unmet = self._model.pager.page_size, self._model.arena.unmet_bytes
        gains, reads = (ahead.end - ahead.begin) * size, (ahead.end - ahead.first) * size
        return self._foresight.should_restore(gains, ahead.begin * size, reads, unmet)

    def _miss(self, request: Request, reused: int) -> tuple[int | None, MissReason | None]:
        known = request.missed if reused < request.affected else None
        return self._prefixes.miss(request.command.chat, request.ids, reused, known, request.history)

    def _is_its_own(self, request: Request) -> bool:
        """Whether its chat has pages on SSD: one that is new, or nobody's, owns none before it is sent.

        With a sliding window memory keeps what the last token sees, which is not known before.
        """
        tier, chat = self._model.tier, request.command.chat
        is_stored = tier is not None and chat != "" and chat in tier.chat_bytes()
        return is_stored and self._model.config.largest_window is None

    def _has_room(self, ahead: Ahead) -> bool:
        """Whether as many pages are free and built already."""
        pager = self._model.pager
        return ahead.end - ahead.begin <= self._model.arena.pages - (pager.total_pages - pager.free_pages)

    def _sample(
        self, table: PageTable, tokens: tuple[int, ...], owner: str | None, begun_at: int, runner: Runner
    ) -> None:
        """Of some prompts of which pages came back behind token `begun_at`, see whether these are right."""
        size = self._model.pager.page_size
        begin = begun_at // size * size
        if table.length <= begun_at or table.length % size:
            return
        if self._check.is_due() and not self._check.agrees(runner, table, tokens):
            log.warning("pages of %s from SSD disagree with it; they are gone", self._model.info.name)
            self._memory.distrust(table, tokens, begin)
            self._memory.settle(table, tokens, owner)  # what a window saw before may be gone from it


def _few(model: LoadedModel) -> int:
    """Tokens up to which a chunk is computed another way than a longer one; 0 where none is."""
    if model.kernels is not None:
        return FEW_ROWS
    return MOST if device_kind() == "CPU" else 0
