"""One loaded model at work: its requests run as one batch, and each is told of request by request."""

from __future__ import annotations

import logging
import math
import time
import traceback
from collections import Counter
from collections.abc import Callable

import mlx.core as mx

from engine.batch import Chunk, Sent, send
from engine.cache_report import ChatPrefixes
from engine.chunking import ChunkSizer
from engine.errors import EngineError, NonFiniteLogits
from engine.events import (
    CacheReport,
    Event,
    Failed,
    FinishReason,
    KernelsChosen,
    PrefillProgress,
    Stats,
    TextChunk,
)
from engine.kv.pager import OutOfPages
from engine.loading.model import LoadedModel
from engine.request import Request, Sequence
from engine.runner import Runner
from engine.sampling import token_logprobs
from engine.scheduler import Scheduler
from engine.settings import EngineSettings
from engine.stats import Pulse
from engine.warm_up import warm_up
from metal.trial_messages import tells_of_memory

log = logging.getLogger(__name__)


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
        self._scheduler = Scheduler[Sequence]()
        self._sent: Sent | None = None
        self._read_at = 0.0
        self._chunks = ChunkSizer(settings.prefill_chunk, settings.page_size)
        self._prefixes = ChatPrefixes()
        self._pulse = Pulse()
        self._preemptions = 0
        self._warm_up()

    @property
    def busy(self) -> bool:
        """Whether there is a request to work on."""
        return any(True for _ in self._scheduler)

    def add(self, request: Request) -> None:
        """Queue an accepted request; its other answers join when its prompt is computed."""
        self._scheduler.add(request.sequences[0])

    def cancel(self, request_id: str) -> None:
        """End a request as cancelled; ids that are not here are ignored."""
        request = next((s.request for s in self._scheduler if s.request.id == request_id), None)
        if request is not None:
            self._cancel(request)

    def cancel_all(self) -> None:
        """End every request as cancelled."""
        for request in {id(s.request): s.request for s in self._scheduler}.values():
            self._cancel(request)

    def _cancel(self, request: Request) -> None:
        for sequence in request.sequences:
            if sequence.reason is None:
                self._end(sequence, "cancelled")

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
            self._start_waiting()
            before, self._sent = self._sent, None
            following = self._send(before)
            if following is not None and not self._runner.looks_ahead:
                before, following = following, None
            self._sent = following
            if before is not None:
                self._read(before)
        except Exception as error:  # noqa: BLE001 — the top of the thread for these requests
            self._broke(error)
        if self._pulse.due(time.perf_counter()):
            self._tell_stats()

    def _start_waiting(self) -> None:
        sequence = self._scheduler.next
        if sequence is None or not self._may_start(sequence):
            return
        request = sequence.request
        sequence.table = self._memory.begin(sequence.tokens(0, sequence.length), request.command.chat)
        self._scheduler.start(sequence)
        if request.report is None:
            request.clock.prefill_began = time.perf_counter()
            request.launched_before = self._launches()
            self._report(request, sequence.table.length)

    def _may_start(self, sequence: Sequence) -> bool:
        """Whether it can begin beside those that run: alone it can always."""
        running = self._scheduler.running
        if not running:
            return True
        if sequence.request.is_suspect or any(other.request.is_suspect for other in running):
            return False
        needed = self.model.pager.pages_for(sequence.length + 1) + len(running)
        return needed <= self._memory.available_pages

    def _report(self, request: Request, cached: int) -> None:
        chat = request.command.chat
        begin, reason = self._prefixes.miss(chat, request.prompt, cached, request.missed)
        request.report = CacheReport(request.id, len(request.prompt), cached, 0, begin, reason)
        self._emit(request.report)
        self._tell_prefill(request)

    def _send(self, before: Sent | None) -> Sent | None:
        """The next step; None when there is nothing to compute before the last one is read."""
        flying, known = self._decoding(before)
        room = [s for s in sorted([*flying, *known], key=lambda s: s.rank) if self._has_room(s, 1, before)]
        running = self._scheduler.running
        decoding = [s for s in (*flying, *known) if s in room and s in running]
        chunk = self._next_chunk(len(decoding), before)
        decoding = [s for s in decoding if s in self._scheduler.running]
        if not decoding and chunk is None:
            return None
        sent = send(self._runner, decoding, chunk, before)
        for sequence in sent.sequences:
            sequence.is_in_flight = True
            if sequence.index and not sequence.request.has_opened:
                sequence.table = self._memory.fork(sequence.request.sequences[0].table)
                self._scheduler.join(sequence)
        for sequence in sent.sequences:
            sequence.request.has_opened = True
        return sent

    def _decoding(self, before: Sent | None) -> tuple[list[Sequence], list[Sequence]]:
        """Who decodes in the next step: those whose last token is in flight, and those whose is known."""
        flying: list[Sequence] = []
        known: list[Sequence] = []
        for sequence in self._scheduler.running:
            if sequence.is_in_flight:
                if self._runner.looks_ahead and sequence.may_go_on:
                    flying.append(sequence)
            elif sequence.pending == 1:
                known.append(sequence)
        order = {s: row for row, s in enumerate(before.sequences)} if before else {}
        return sorted(flying, key=lambda s: order.get(s, 0)), known

    def _next_chunk(self, answers: int, before: Sent | None) -> Chunk | None:
        filling = self._scheduler.filling
        if filling is None:
            return None
        size = self._chunks.next(filling.pending, answers)
        return Chunk(filling, size) if self._has_room(filling, size, before) else None

    def _has_room(self, sequence: Sequence, tokens: int, before: Sent | None) -> bool:
        """Make room for more tokens of it, if need be by taking the pages of those ranked behind it."""
        if sequence not in self._scheduler.running:
            return False  # it gave way itself
        while True:
            try:
                self._memory.grow(sequence.table, sequence.table.length + tokens)
                return True
            except OutOfPages:
                if before is not None:
                    return False  # when the step in flight is read there may be room
                victim = self._scheduler.victim(sequence)
                if victim is None:
                    if len(self._scheduler.running) == 1:
                        raise
                    return False
                self._give_way(victim)

    def _give_way(self, sequence: Sequence) -> None:
        """Take back the pages of a running answer; it goes on later, from its tokens."""
        self._keep(sequence)
        self._memory.free(sequence.table)
        self._scheduler.give_way(sequence)
        self._preemptions += 1

    def _read(self, sent: Sent) -> None:
        tokens, masses = sent.read()
        now = time.perf_counter()
        self._measure(sent, now - max(sent.began, self._read_at))
        self._read_at = now
        flying = set(self._sent.sequences) if self._sent else set[Sequence]()
        for row, sequence in enumerate(sent.sequences):
            if sequence.reason is not None:
                continue
            sequence.is_in_flight = sequence in flying
            if math.isfinite(masses[row]):
                self._accept(sequence, tokens[row], sent.logits[row] if sent.logits is not None else None)
            else:
                self._fail(sequence.request, _not_finite(self.model.info.name))
        if sent.chunk is not None and sent.chunk.sequence.reason is None:
            self._filled(sent.chunk.sequence)
        for sequence in self._scheduler.running:
            self._memory.trim(sequence.table)

    def _measure(self, sent: Sent, seconds: float) -> None:
        if sent.chunk is not None:
            self._chunks.filled(sent.chunk.tokens, seconds, sent.answers)
        elif sent.answers:
            self._chunks.decoded(sent.answers, seconds)

    def _filled(self, sequence: Sequence) -> None:
        """A chunk of its prompt is computed."""
        self._keep(sequence, whole=False)
        if not sequence.request.clock.first_token:
            self._tell_prefill(sequence.request)

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
        self._keep(sequence)
        self._prefixes.computed(request.command.chat, sequence.tokens(0, sequence.table.length))
        self._release(sequence)
        if request.is_over:
            before = request.launched_before
            self._emit(request.finished({} if before is None else self._launches() - before))
            self._rest()

    def _keep(self, sequence: Sequence, *, whole: bool = True) -> None:
        """What is computed of it may be found by others."""
        table = sequence.table
        table.length = min(table.length, sequence.length)  # a step in flight is one further
        self._memory.keep(
            table, sequence.tokens(0, table.length), sequence.request.command.chat, whole=whole
        )

    def _release(self, sequence: Sequence) -> None:
        self._memory.free(sequence.table)
        self._scheduler.remove(sequence)

    def _rest(self) -> None:
        """What the allocator keeps for reuse goes back to the system while there is nothing to do."""
        if not self.busy:
            mx.clear_cache()
            self._tell_stats()

    def _fail(self, request: Request, error: Exception) -> None:
        """It ends here; the others go on."""
        for sequence in request.sequences:
            sequence.reason = sequence.reason or "cancelled"
            self._release(sequence)
        self._emit(failure(request.id, error))
        self._rest()

    def _broke(self, error: Exception) -> None:
        """A step broke: its culprit fails; where that is not known, all in it start again, one at a time."""
        self._sent = None
        running = self._scheduler.running
        requests = list({id(sequence.request): sequence.request for sequence in running}.values())
        if not isinstance(error, EngineError):
            self._drop_pages()
            self._doubt_kernels(error)
        if len(requests) == 1:
            self._fail(requests[0], error)
            return
        log.warning("a step of %d requests broke (%s); they start again, one at a time", len(requests), error)
        for sequence in running:
            sequence.is_in_flight = False
            sequence.request.is_suspect = True
            self._memory.free(sequence.table)
            self._scheduler.give_way(sequence)

    def _drop_pages(self) -> None:
        """After a device error, what pages hold cannot be trusted."""
        for sequence in self._scheduler:
            self._memory.free(sequence.table)
            sequence.table.length = 0
        self._memory.clear()
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

    def _tell_stats(self) -> None:
        now, running = time.perf_counter(), self._scheduler.running
        launches, tokens = self._launches(), max(1, self._tokens())
        ours = sum(count for name, count in launches.items() if not name.startswith("mlx."))
        self._pulse.sent(now)
        self._emit(
            Stats(
                active_id=running[0].request.id if running else "",
                queued=len(self._scheduler.waiting),
                context_tokens=sum(sequence.table.length for sequence in running),
                decode_tps=self._pulse.decode_tps(now) if running else 0.0,
                prefill_tps=self._chunks.rate,
                pages_used=self._memory.held_pages,
                total_pages=self.model.pager.total_pages,
                memory_bytes=mx.get_active_memory(),
                peak_memory_bytes=mx.get_peak_memory(),
                launches=dict(launches),
                own_launches_per_token=ours / tokens,
                mlx_launches_per_token=(launches.total() - ours) / tokens,
                running=len(running),
                cached_pages=self._memory.cached_pages,
            )
        )


def _not_finite(name: str) -> NonFiniteLogits:
    return NonFiniteLogits(
        f"{name} produced numbers that are not finite; its weights may be damaged: download the model again"
    )


def failure(request_id: str, error: Exception) -> Failed:
    """The event for a request that raised: an EngineError's own line, or what broke."""
    if isinstance(error, EngineError):
        return Failed(request_id, str(error), type(error).__name__)
    detail = "".join(traceback.format_exception(error))
    return Failed(
        request_id,
        f"something broke inside the engine ({error}); the log has the details",
        "Internal",
        detail,
    )
