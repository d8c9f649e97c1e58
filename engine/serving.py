"""One loaded model at work: its requests run as one batch, and each is told of request by request."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.batcher import Batcher
from engine.bench.profiling import StepProfiler
from engine.cache.arena_room import ArenaRoom
from engine.cache.chat_pages import ChatPages
from engine.cache.finding import Finding
from engine.errors import EngineError
from engine.events.cache import Predicted
from engine.events.events import Event
from engine.fitting.fit import Tenant
from engine.fitting.pair import limit_pages, tenant_of
from engine.kv.pager import OutOfPages
from engine.live_runner import LiveRunner
from engine.loading.model import LoadedModel
from engine.pacing.chunking import ChunkSizer
from engine.prediction.expecting import Expecting
from engine.prediction.lessons import Lessons
from engine.requests.endings import Endings
from engine.requests.request import Request, Sequence
from engine.residents.elsewhere import NOBODY, Elsewhere
from engine.residents.neighbour import Neighbour
from engine.rest.tidying import SPILL_AFTER, Tidying
from engine.rest.warm_up import STEPS
from engine.rest.warming import Warming
from engine.settings import EngineSettings
from engine.speculation.model_drafter import DraftModel
from engine.speculation.speculating import Speculations
from engine.steps.batch import Sent
from engine.steps.broken import BrokenSteps
from engine.steps.results import StepResults
from engine.telling import Teller

_LAYERED = 3
"""Chunks of prompts that go through the model layer by layer beside answers may be so many times as long."""

_Found = tuple[Sequence, int]
"""Nothing more of a sequence is read back: so many of its tokens are in memory, and the rest is new."""


class Serving:
    """Requests on `model`, on the engine's thread; a failing request ends in Failed and harms no other.

    Where the runner looks ahead, a step is sent off before the one before it is read, so that the device
    works while this thread reads, detokenises and tells.

    Attributes:
        chats: what is kept for chats that may go on.
        neighbour: what other models have to know of its requests.
    """

    def __init__(
        self,
        model: LoadedModel,
        settings: EngineSettings,
        emit: Callable[[Event], None],
        draft_model: DraftModel | None = None,
    ) -> None:
        """`draft_model`: guesses tokens that `model` then checks."""
        self.model = model
        self._emit = emit
        self._memory = model.memory
        # Pages that a window has left are given back behind a chunk: longer ones would take more memory.
        longest = (_LAYERED if model.config.largest_window is None else 1) * settings.prefill_chunk
        self._live = LiveRunner(model, emit, STEPS, longest, settings.cache)
        self._warming = Warming([self._live, *([draft_model.live] if draft_model else [])])
        chunk, page = settings.prefill_chunk, settings.page_size
        chunks = ChunkSizer(chunk, page, model.config.layers, longest, self._live.mixing)
        self._batcher = Batcher(self._memory, model.pager, chunks, self._live.is_warm)
        self._room = ArenaRoom(model, self._batcher)
        self._broken = BrokenSteps(self._batcher, self._live)
        self._finding = Finding(model, settings, self._batcher.prompts.steps)
        self._draft = draft = draft_model.model if draft_model else None
        self._tell = Teller(model, self._batcher, self._live, self._warming, emit, self._finding.left, draft)
        self._tidying = Tidying(model, self._finding.make_ready, draft)
        self._expecting = Expecting(self._batcher, self._finding, self._room, self._warming, self._tidying)
        self._sent: Sent | None = None
        self._speculations = Speculations(
            is_on=settings.speculation, is_warm=self._live.is_warm, model=draft_model
        )
        self._endings = Endings(
            self._batcher, self._live, self._speculations, self._finding, self._tell, emit
        )
        lessons = Lessons(self._batcher, self._finding)
        self._results = StepResults(model, self._speculations, lessons, self._endings, self._tell)
        self.neighbour = Neighbour(self._batcher)
        self.chats = ChatPages(model, settings, emit, self._tell, self._finding, draft)

    @property
    def busy(self) -> bool:
        """Whether there is a request to work on."""
        return self._batcher.busy

    def add(self, request: Request) -> None:
        """Queue an accepted request."""
        self._expecting.added(request)
        self._batcher.add(request)
        request.came_alone = self._batcher.has_one

    def cancel(self, request_id: str, sample: int | None = None) -> None:
        """End a request as cancelled, or one of its answers; ids that are not here are ignored."""
        if self._batcher.busy:
            self._endings.cancel(request_id, sample)
            self._rest()

    def cancel_all(self, why: str = "") -> None:
        """End every request as cancelled; `why`, where nobody asked for that, as in Finished."""
        if self._batcher.busy:
            self._endings.cancel_all(why)
            self._rest()

    def tell(self) -> None:
        """Where chats lie, for whoever has just heard that the model is ready."""
        self._tell.chats()

    def close(self) -> None:
        """End every request, and put what is worth keeping on SSD."""
        self.cancel_all()
        try:
            self._tidying.close()
            self._finding.save()
        finally:
            self._memory.drop()
            self._tell.chats()

    def tenant(self, *, is_held: bool = False) -> Tenant:
        """What it takes of the memory. `is_held`: nothing that is cached is to go, though nobody needs it."""
        return tenant_of(self.model, self._draft, is_held=is_held or self.busy or self.chats.holds_pinned)

    @property
    def next_tidying(self) -> float | None:
        """Seconds of rest after which `tidy` has something to do; None when it has nothing."""
        return 0.0 if self._finding.may_recall else self._warming.due(self._tidying.due)

    def tidy(self, idle_seconds: float) -> None:
        """Nobody has asked for anything for so long; what a prompt was predicted to find may be read back.

        Pages that are due are put away before more is compiled, but where the disk takes none.
        """
        is_next = self._tidying.is_due(idle_seconds) or not self._warming.cold_steps
        if self._finding.may_recall and not self._tidying.builds:
            self._finding.recall(self._live.runner)
        elif not (is_next and self._tidying.tidy(idle_seconds)) and self._warming.warm(idle_seconds):
            self._tidying.memory_was_used()
        if idle_seconds >= SPILL_AFTER:
            self._finding.save()
        self._tell.stats()

    def put_some_away(self) -> bool:
        """Offer a run of pages to the SSD. Returns whether it has all that it takes: `close` is quick."""
        tier = self.model.tier
        return tier is None or (self._memory.spill(1).is_all and tier.flush(0.0))

    def choose_kernels(self) -> None:
        """Take into use what trials have chosen; for when there is no request."""
        self._live.choose_kernels()

    def profiler(self) -> StepProfiler:
        """A profile of a decode step, for when there is no request. Raises OutOfPages."""
        return StepProfiler(self.model, self._live)

    def predict(self, request: Request, *, is_alone: bool = True) -> Predicted:
        """What it would find, were it sent now. Not `is_alone`: another model has requests."""
        return self._expecting.predict(request, is_alone=is_alone)

    def release(self, chat: str, seconds: float) -> None:
        """Put the pages that only `chat` owns on SSD, which has so long for it, and free their memory."""
        self._finding.let_go()
        until = time.perf_counter() + seconds
        self._memory.put_away(chat, seconds)
        self._speculations.put_away(chat)
        if not self.busy:
            if self.model.tier is not None:
                self.model.tier.flush(max(0.0, until - time.perf_counter()))
            self._tidying.rest_began()  # what is written later is told then
        self._tell.stats()

    def flush(self, seconds: float) -> bool:
        """Wait so long for pages to be written that the SSD took, and tell; returns whether none is left."""
        tier = self.model.tier
        is_all = tier is None or tier.flush(seconds)
        self._tell.stats()
        return is_all

    def forget(self, chat: str) -> None:
        """Drop the cached pages of a chat; what was asked for it goes on without being kept."""
        self._batcher.forget(chat)
        self._speculations.forget(chat)
        self.chats.forget(chat)

    def watch_pages(self, is_watched: bool) -> None:
        """Tell of single pages from now on, or no longer."""
        self._tell.pages.switch(is_watched)
        if is_watched:
            self._tell.stats()

    def limit_pages(self, pages: int, seconds: float) -> None:
        """KV memory may grow to `pages` pages of `tenant` from here on (see LoadedModel.limit_pages)."""
        before = self.model.pager.total_pages
        limit_pages(self.model, self._draft, pages, seconds)
        if self.model.pager.total_pages != before:
            self._tell.stats()

    def work(self, elsewhere: Elsewhere = NOBODY) -> None:
        """Send a step of the running requests, and read the one that was sent before.

        While another model works too, a step is read in the turn in which it is sent: the other's step would
        count as its time. A prompt's is short where the other has answers.
        """
        flying, is_alone = self._sent, not elsewhere.is_busy
        self._batcher.chunks.elsewhere = elsewhere
        self._live.first_runs.begin()
        try:
            if self._room.is_there(elsewhere.answers) and (sequence := self._batcher.start(self._sent)):
                self._started(sequence)
            settled = self._restore_some(is_alone and self._batcher.has_one)
            before, self._sent = self._sent, None
            runner = self._live.runner
            looks_ahead = is_alone and runner.looks_ahead
            if not runner.looks_ahead:  # sending a chunk is computing it
                self._tell_found(settled)
                settled = None
            try:
                following = self._batcher.send(runner, before) if is_alone or not before else None
            finally:
                self._tell_found(settled)  # while the device is at work
            if following is not None and not looks_ahead:
                before, following = following, None
            self._sent = following
            if before is not None:
                self._read(before)
        except Exception as error:  # noqa: BLE001 — the top of the thread for these requests
            self._broke(error, flying)
        self._batcher.chunks.elsewhere = NOBODY  # what is asked between two turns is asked of it alone
        self._rest()
        self._tell.beat()

    def _rest(self) -> None:
        """Rest begins where nobody has a request any more; the step that was sent ahead is nobody's then."""
        if not self._batcher.busy:
            sent, self._sent = self._sent, None
            if sent is not None:
                self._broken.left(sent)
            self._live.first_runs.rest()
            self._live.tell_notes()
            self._room.rest()
            self._tidying.rest_began()
            self._tell.stats()

    def _started(self, sequence: Sequence) -> None:
        """It began, for the first time or again after it gave way."""
        sequence.begun_at, request = sequence.table.length, sequence.request
        if len(self._batcher.running) == 1 and not self.chats.has_room(request):
            self._endings.fail(request, self.chats.refusal(request))
            return
        self._finding.let_go()
        request.clock.growth += self._room.prepare(sequence)
        if not request.clock.prefill_began:
            request.clock.prefill_began = time.perf_counter()
            request.launched_before = self._live.launches

    def _restore_some(self, is_alone: bool) -> _Found | None:
        """Read pages back from SSD for a sequence that has just begun; returns what it has at the end."""
        sequence = next((s for s in self._batcher.running if s.may_restore), None)
        if sequence is None:
            return None
        if self._finding.restore(sequence, self._live.runner, is_alone=is_alone):
            return None  # the next are read after the next step
        return sequence, sequence.table.length

    def _tell_found(self, found: _Found | None) -> None:
        """Tell what there was of a prompt, where it is known by now."""
        if found is None:
            return
        sequence, tokens = found
        request, report = sequence.request, self._finding.report(sequence, tokens)
        self._tell.count(cached_tokens=report.cached_tokens, restored_tokens=report.restored_tokens)
        if request.report is None:
            request.report = report
            self._emit(report)
            self._tell.prefill(request, tokens)

    def _read(self, sent: Sent) -> None:
        """Wait for a step and take its results; then see to those that go on."""
        self._results.read(sent, self._sent, lambda: self._batcher.pace(self._live.runner, sent))
        self._broken.went_well(sent)
        self._live.first_runs.went_well()
        self._batcher.keeping.keep_prompts(at_once=not sent.answers)
        self._batcher.trim()
        self._speculations.guess(self._batcher.running)

    def _broke(self, error: Exception, flying: Sent | None) -> None:
        """A step broke, behind the one that was `flying`: its culprit fails, where that is known."""
        self._sent = None
        if is_of_guess := not isinstance(error, EngineError) and self._speculations.distrust():
            self._live.tell(f"the draft model guesses no more until it is loaded again: it broke ({error})")
        if culprit := self._broken.blame(error, flying, is_of_guess=is_of_guess):
            if not isinstance(error, OutOfPages):
                self._endings.fail(culprit, error)
            elif not self._endings.run_out(culprit):
                self._endings.fail(culprit, self.chats.refusal(culprit))
