"""One loaded model at work: its requests run as one batch, and each is told of request by request."""

from __future__ import annotations

import logging
import math
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import mlx.core as mx

from engine.admission import Capacity, refused
from engine.batch import Chunk, Sent
from engine.batcher import Batcher
from engine.cache_report import ChatPrefixes
from engine.chunking import ChunkSizer
from engine.errors import EngineError, NonFiniteLogits, Refused
from engine.events import (
    CacheCounts,
    CacheReport,
    ChatMemory,
    ChatsCached,
    Event,
    Failed,
    FinishReason,
    KernelsChosen,
    Predicted,
    PrefillProgress,
    Stats,
    TextChunk,
)
from engine.kv.pager import OutOfPages
from engine.loading.model import LoadedModel
from engine.request import Request, Sequence
from engine.runner import Runner
from engine.sampling import token_logprobs
from engine.settings import EngineSettings
from engine.speculating import Speculation
from engine.speculation.draft import Draft
from engine.speculation.gain import StepCosts
from engine.speculation.verify import Verdict
from engine.stats import Pulse
from engine.warm_up import warm_up
from metal.trial_messages import tells_of_memory

log = logging.getLogger(__name__)

CLOSING_SECONDS = 5.0
"""For which unloading a model may write pages to SSD."""

SPILL_AFTER = 3.0
"""Seconds of rest after which pages are written to SSD, SPILL_PAGES at a time."""

FREE_AFTER = 300.0
"""Seconds of rest after which pages that are on SSD leave memory."""

SPILL_PAGES = 64


class Serving:
    """Requests on `model`, on the engine's thread; a failing request ends in Failed and harms no other.

    Where the runner looks ahead, a step is sent off before the one before it is read, so that the device
    works while this thread reads, detokenises and tells.
    """

    def __init__(self, model: LoadedModel, settings: EngineSettings, emit: Callable[[Event], None]) -> None:
        self.model = model
        self._emit = emit
        self._memory = model.memory
        self._runner = Runner(model)
        self._earlier, self._earlier_tokens = Counter[str](), 0
        self._batcher = Batcher(
            self._memory, model.pager, ChunkSizer(settings.prefill_chunk, settings.page_size)
        )
        self._sent: Sent | None = None
        self._read_at = 0.0
        self._prefixes = ChatPrefixes(settings.page_size)
        self._pulse = Pulse()
        self._counts = CacheCounts()
        self._told_chats: dict[str, ChatMemory] = {}
        self._pinned: set[str] = set()
        self._kv_bits = settings.kv_bits
        self._next_tidying: float | None = None
        self._speculates = settings.speculation
        self._step_costs = StepCosts()
        self._speculations: dict[Sequence, Speculation] = {}
        self._warm_up()

    @property
    def busy(self) -> bool:
        """Whether there is a request to work on."""
        return any(True for _ in self._batcher)

    def add(self, request: Request) -> None:
        """Queue an accepted request."""
        self._batcher.add(request)

    def cancel(self, request_id: str) -> None:
        """End a request as cancelled; ids that are not here are ignored."""
        for request in self._requests():
            if request.id == request_id:
                self._cancel(request)

    def cancel_all(self) -> None:
        """End every request as cancelled."""
        for request in self._requests():
            self._cancel(request)

    def _requests(self) -> list[Request]:
        return list({id(sequence.request): sequence.request for sequence in self._batcher}.values())

    def _cancel(self, request: Request) -> None:
        for sequence in request.sequences:
            if sequence.reason is None:
                self._end(sequence, "cancelled")

    def close(self) -> None:
        """End every request, and put what is worth keeping on SSD, for CLOSING_SECONDS at most."""
        self.cancel_all()
        if self.model.tier is not None:
            until = time.perf_counter() + CLOSING_SECONDS
            while (left := until - time.perf_counter()) > 0 and self._memory.spill(SPILL_PAGES):
                self.model.tier.flush(left)
            self.model.tier.close(max(0.0, until - time.perf_counter()))

    @property
    def next_tidying(self) -> float | None:
        """Seconds of rest after which `tidy` has something to do; None when it has nothing."""
        return self._next_tidying

    def tidy(self, idle_seconds: float) -> None:
        """Nobody has asked for anything so long: pages go to SSD, a few at a time, and later leave memory."""
        if self._memory.spill(SPILL_PAGES):
            self._next_tidying = 0.02
        elif idle_seconds < FREE_AFTER:
            self._next_tidying = FREE_AFTER
        else:
            self._next_tidying = None
            if self._memory.evict_all() and not self._memory.cached_pages:
                self.model.arena.release()
                mx.clear_cache()
        self._tell_stats()

    def predict(self, request: Request) -> Predicted:
        """What it would find, were it sent now."""
        found = self._memory.lookup(request.prompt)
        reused = found.cached_tokens + found.stored_tokens
        begin, reason = self._prefixes.miss(request.command.chat, request.prompt, reused, request.missed)
        return Predicted(
            request.id, len(request.prompt), found.cached_tokens, found.stored_tokens, None, begin, reason
        )

    def forget(self, chat: str) -> None:
        """Drop the cached pages of a chat."""
        self._memory.forget(chat)
        self._prefixes.forget(chat)
        self._tell_chats()

    def pin(self, chat: str, pinned: bool) -> None:
        """Keep the cached pages of a chat in memory, or no longer."""
        self._memory.pin(chat, pinned)
        (self._pinned.add if pinned else self._pinned.discard)(chat)

    def capacity(self) -> Capacity:
        """What KV memory has for a request with nobody beside it."""
        pages, chats = self.model.pager, self._memory.chats()
        pinned = {
            chat: chats[chat].memory_bytes // self.model.arena.page_bytes
            for chat in self._pinned & chats.keys()
        }
        return Capacity(pages.total_pages, pages.page_size, pinned, self._kv_bits)

    def choose_kernels(self) -> None:
        """Take into use what trials have chosen; for when there is no request. Pages stay as they are."""
        mx.eval(self.model.arena.state())
        self.model.choose_kernels()
        self._renew_runner()
        self._warm_up()

    def _warm_up(self) -> None:
        """Where kernels are compiled at their first launch, that is not a request's."""
        kernels = self.model.kernels
        if kernels is None or not kernels.is_lazy:
            return
        try:
            warm_up(self._runner, self._memory)
        except Exception as error:  # the first request would have met it
            log.exception("a first step broke")
            self._drop_pages()
            self._doubt_kernels(error)

    def _doubt_kernels(self, error: Exception) -> None:
        """After a step that broke: kernels that nobody asked for do not get a second chance to break one.

        A lack of memory is not their fault.
        """
        kernels = self.model.kernels
        if kernels is None or kernels.choice.is_forced or tells_of_memory(str(error)):
            return
        self.model.drop_kernels(f"kernels are off until it is loaded again, since a step broke ({error})")
        self._renew_runner()

    def _renew_runner(self) -> None:
        """The kernels of the model are others than they were."""
        self._earlier, self._earlier_tokens = self._launches(), self._tokens()
        self._runner = Runner(self.model)
        self._emit(KernelsChosen(self.model.info))

    def work(self) -> None:
        """Send a step of the running requests, and read the one that was sent before."""
        try:
            if sequence := self._batcher.start():
                self._started(sequence)
            self._restore_some()
            before, self._sent = self._sent, None
            following = self._batcher.send(self._runner, before)
            if following is not None and not self._runner.looks_ahead:
                before, following = following, None
            self._sent = following
            if before is not None:
                self._read(before)
        except Exception as error:  # noqa: BLE001 — the top of the thread for these requests
            self._broke(error)
        if self._pulse.due(time.perf_counter()):
            self._tell_stats()

    def _started(self, sequence: Sequence) -> None:
        """It began, for the first time or again after it gave way."""
        sequence.begun_at = sequence.table.length
        if not sequence.request.clock.prefill_began:
            sequence.request.clock.prefill_began = time.perf_counter()
            sequence.request.launched_before = self._launches()

    def _restore_some(self) -> None:
        """Read a run of pages back from SSD for a sequence that has just begun; then it is told of."""
        sequence = next((s for s in self._batcher.running if s.may_restore), None)
        if sequence is None:
            return
        request, table = sequence.request, sequence.table
        tokens = sequence.tokens(0, sequence.length)
        if self._memory.restore(table, tokens, request.command.chat):
            return  # the next run is read after the next step
        sequence.may_restore = False
        cached = min(sequence.begun_at, table.length)
        restored = table.length - cached
        self._count(cached_tokens=cached, restored_tokens=restored)
        if request.report is None:
            begin, reason = self._prefixes.miss(
                request.command.chat, request.prompt, table.length, request.missed
            )
            request.report = CacheReport(request.id, len(request.prompt), cached, restored, begin, reason)
            self._emit(request.report)
            self._tell_prefill(request)

    def _read(self, sent: Sent) -> None:
        tokens, masses = sent.read()
        verdict = sent.check.read() if sent.check else None
        now = time.perf_counter()
        self._measure(sent, now - max(sent.began, self._read_at))
        self._read_at = now
        flying = set(self._sent.sequences) if self._sent else set[Sequence]()
        for row, sequence in enumerate(sent.sequences):
            if sequence.reason is not None:
                continue
            if sent.draft is not None and verdict is not None:
                self._checked(sequence, sent.draft, verdict, sent.logits)
                continue
            sequence.is_in_flight = sequence in flying
            if math.isfinite(masses[row]):
                self._accept(sequence, tokens[row], sent.logits[row] if sent.logits is not None else None)
            else:
                self._fail(sequence.request, _not_finite(self.model.info.name))
        if sent.chunk is not None and sent.chunk.sequence.reason is None:
            self._filled(sent.chunk)
        self._batcher.trim()
        self._speculate()

    def _checked(self, sequence: Sequence, draft: Draft, verdict: Verdict, logits: mx.array | None) -> None:
        """A draft was checked: some of its tokens stay, and one more."""
        sequence.is_in_flight = False
        sequence.table.length = sequence.length + verdict.accepted
        self._count(drafted_tokens=len(draft.tokens), accepted_tokens=verdict.accepted)
        if sequence in self._speculations:
            self._speculations[sequence].checked(draft, verdict)
        if not verdict.is_finite:
            self._fail(sequence.request, _not_finite(self.model.info.name))
        for row, token in enumerate(verdict.tokens):
            if sequence.reason is None:
                self._accept(sequence, token, logits[row] if logits is not None else None)

    def _speculate(self) -> None:
        """Guess what comes next in the answer that runs alone."""
        running = self._batcher.running
        if not self._speculates or len(running) != 1 or not running[0].generated:
            return
        sequence = running[0]
        if sequence not in self._speculations:
            self._speculations[sequence] = Speculation(sequence, self._step_costs)
        draft = self._speculations[sequence].draft()
        sequence.wants_draft = draft is not None and sequence.is_in_flight
        sequence.draft = None if sequence.is_in_flight else draft

    def _measure(self, sent: Sent, seconds: float) -> None:
        if sent.answers == 1 and sent.chunk is None and sent.sequences[0] in self._speculations:
            drafted = len(sent.draft.tokens) if sent.draft else 0
            self._speculations[sent.sequences[0]].stepped(1 + drafted, seconds)
        if sent.draft is not None:
            return
        if sent.chunk is not None:
            self._batcher.chunks.filled(sent.chunk.tokens, seconds, sent.answers)
        elif sent.answers:
            self._batcher.chunks.decoded(sent.answers, seconds)

    def _filled(self, chunk: Chunk) -> None:
        """A chunk of a prompt is computed."""
        self._count(computed_tokens=chunk.tokens)
        self._batcher.keep(chunk.sequence, whole=False)
        if not chunk.is_last:
            self._tell_prefill(chunk.sequence.request)

    def _accept(self, sequence: Sequence, token: int, logits: mx.array | None) -> None:
        request = sequence.request
        asked = request.command.logprobs
        if asked is not None and logits is not None:
            sequence.logprobs.append(token_logprobs(logits, token, asked))
        if not request.clock.first_token:
            self._tell_prefill(request)
        is_end = token in self.model.tokenizer.eos_ids and not request.command.ignore_eos
        shown = sequence.accept(token, is_end)
        self._pulse.token(request.clock.last_token)
        if shown:
            self._emit(TextChunk(request.id, shown, len(sequence.generated), sequence.index))
        if sequence.reason is not None:
            self._end(sequence, sequence.reason)

    def _end(self, sequence: Sequence, reason: FinishReason) -> None:
        request, sequence.reason = sequence.request, reason
        if rest := sequence.drain():
            self._emit(TextChunk(request.id, rest, len(sequence.generated), sequence.index))
        self._batcher.keep(sequence)
        self._prefixes.computed(request.command.chat, sequence.tokens(0, sequence.table.length))
        self._batcher.release(sequence)
        self._speculations.pop(sequence, None)
        if request.is_over:
            before = request.launched_before
            self._emit(request.finished({} if before is None else self._launches() - before))
            self._rest()

    def _rest(self) -> None:
        """What the allocator keeps for reuse goes back to the system while there is nothing to do."""
        if not self.busy:
            mx.clear_cache()
            self._next_tidying = None if self.model.tier is None else SPILL_AFTER
            self._tell_stats()

    def _fail(self, request: Request, error: Exception) -> None:
        """It ends here; the others go on."""
        for sequence in request.sequences:
            sequence.reason = sequence.reason or "cancelled"
            self._batcher.release(sequence)
            self._speculations.pop(sequence, None)
        self._emit(failure(request.id, error))
        self._rest()

    def _broke(self, error: Exception) -> None:
        """A step broke: its culprit fails; where that is not known, all in it start again, one at a time."""
        self._sent = None
        running = self._batcher.running
        requests = list({id(sequence.request): sequence.request for sequence in running}.values())
        if isinstance(error, OutOfPages):
            error = self._refused(requests[0], error)
        if not isinstance(error, EngineError):
            self._drop_pages()
            self._doubt_kernels(error)
        if len(requests) == 1:
            self._fail(requests[0], error)
            return
        log.warning("a step of %d requests broke (%s); they start again, one at a time", len(requests), error)
        for sequence in running:
            sequence.request.is_suspect = True
            self._batcher.restart(sequence)

    def _refused(self, request: Request, error: OutOfPages) -> Exception:
        """It ran alone, and pages that are pinned stand in its way."""
        longest = max(sequence.table.length for sequence in request.sequences) + 1
        needed = self.model.pager.pages_for(longest) + len(request.sequences) - 1
        return refused(needed, request.command.n, len(request.prompt), self.capacity())

    def _drop_pages(self) -> None:
        """After a device error, what pages hold cannot be trusted."""
        for sequence in self._batcher.running:
            self._memory.free(sequence.table)
        self._memory.drop()
        self.model.arena.release()

    def _tell_prefill(self, request: Request) -> None:
        if request.report is None:
            return
        done = min(request.sequences[0].table.length, len(request.prompt))
        reused = request.report.cached_tokens + request.report.restored_tokens
        self._emit(PrefillProgress(request.id, done, len(request.prompt), reused))

    def _launches(self) -> Counter[str]:
        """Of decode steps since the model was loaded, by name."""
        return self._earlier + self._runner.launches

    def _tokens(self) -> int:
        """That these decode steps were for."""
        return self._earlier_tokens + self._runner.tokens

    def _count(self, **more: int) -> None:
        self._counts = replace(
            self._counts, **{name: getattr(self._counts, name) + n for name, n in more.items()}
        )

    def _tell_stats(self) -> None:
        now, running = time.perf_counter(), self._batcher.running
        launches, tokens = self._launches(), max(1, self._tokens())
        ours = sum(count for name, count in launches.items() if not name.startswith("mlx."))
        self._pulse.sent(now)
        self._emit(
            Stats(
                active_id=running[0].request.id if running else "",
                queued=self._batcher.waiting,
                context_tokens=sum(sequence.table.length for sequence in running),
                decode_tps=self._pulse.decode_tps(now) if running else 0.0,
                prefill_tps=self._batcher.chunks.rate,
                pages_used=self.model.pager.pages_used,
                total_pages=self.model.pager.total_pages,
                memory_bytes=mx.get_active_memory(),
                peak_memory_bytes=mx.get_peak_memory(),
                launches=dict(launches),
                own_launches_per_token=ours / tokens,
                mlx_launches_per_token=(launches.total() - ours) / tokens,
                running=len(running),
                cached_pages=self._memory.cached_pages,
                cache=self._cache_counts(),
            )
        )
        self._tell_chats()

    def _cache_counts(self) -> CacheCounts:
        counts, tier = self._memory.counts, self.model.tier
        return replace(
            self._counts,
            evicted_pages=counts.evicted_pages,
            spilled_pages=counts.spilled_pages,
            restored_pages=counts.restored_pages,
            copied_pages=counts.copied_pages,
            preemptions=self._batcher.preemptions,
            spilled_bytes_today=tier.spilled_bytes_today if tier else 0,
            ssd_bytes=tier.ssd_bytes if tier else 0,
            quarantined_files=tier.quarantined_files if tier else 0,
        )

    def _tell_chats(self) -> None:
        """Where chats' pages lie, if that has changed since it was told."""
        chats = dict(self._memory.chats())
        if chats != self._told_chats:
            self._told_chats = chats
            self._emit(ChatsCached(chats))


def _not_finite(name: str) -> NonFiniteLogits:
    return NonFiniteLogits(
        f"{name} produced numbers that are not finite; its weights may be damaged: download the model again"
    )


def failure(request_id: str, error: Exception) -> Failed:
    """The event for a request that raised: an EngineError's own line, or what broke."""
    if isinstance(error, EngineError):
        refusal = error.refusal if isinstance(error, Refused) else None
        return Failed(request_id, str(error), type(error).__name__, refusal=refusal)
    detail = "".join(traceback.format_exception(error))
    return Failed(
        request_id,
        f"something broke inside the engine ({error}); the log has the details",
        "Internal",
        detail,
    )
