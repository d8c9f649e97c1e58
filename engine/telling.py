"""What a loaded model tells of itself: its pulse, its counts, prompts and text, where chats lie."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import replace
from functools import partial
from itertools import chain

import mlx.core as mx

from engine.batcher import Batcher
from engine.events.cache import CacheCounts, ChatMemory, ChatsCached
from engine.events.events import Event, PrefillProgress, Stats, TextChunk
from engine.events.stat_values import MemoryUse, RequestStats
from engine.kernels.launch_names import launches_of
from engine.kv.arena import Arena
from engine.kv.page_map import PageWatch
from engine.kv.page_table import NO_PAGE
from engine.kv.ssd.files import SsdUsage
from engine.live_runner import LiveRunner
from engine.loading.model import LoadedModel
from engine.machine.process_memory import MemoryLook
from engine.requests.request import Request, Sequence
from engine.rest.warming import Warming
from engine.stats import Pulse

QUICK_S = 0.1
"""A prompt that takes no longer, by what others took, is told without its time: reckoning that took
0.3 ms, before a CPU began with a few new tokens; a GPU is through with these in 3."""


class Teller:
    """Counts what happens and emits it as Stats, PageMap, ChatsCached, PrefillProgress and TextChunk.

    Attributes:
        pages: who watches single pages, and what they are told.
    """

    def __init__(
        self,
        model: LoadedModel,
        batcher: Batcher,
        live: LiveRunner,
        warming: Warming,
        emit: Callable[[Event], None],
        left: Callable[[Request, int], float | None],
        draft: LoadedModel | None = None,
    ) -> None:
        """`left`: seconds that a prompt's tokens behind so many are expected to take; None: not known."""
        self._model, self._batcher, self._live, self._emit = model, batcher, live, emit
        self._draft = draft
        self._warming, self._left = warming, left
        self._pulse = Pulse()
        self._look = MemoryLook()
        self.pages = PageWatch(model.info.path, model.memory.tree, model.pager, model.tier)
        self._counted = Counter[str]()
        self._told_chats: dict[str, ChatMemory] | None = None

    def count(self, **more: float) -> None:
        """Add to fields of CacheCounts."""
        self._counted.update(more)

    def token(self, now: float) -> None:
        """A token was decoded, at `now` of time.perf_counter."""
        self._pulse.token(now)

    def stepped(self, sequence: Sequence, now: float) -> None:
        """A step of an answer was read at `now`, with one token of it or more."""
        if sequence.read_at:
            self._pulse.gap(now - sequence.read_at)
        sequence.read_at = now

    def prefill(self, request: Request, done: int, *, is_inside: bool = False) -> None:
        """How far a prompt is; nothing before it is known what was found of it.

        `is_inside`: whether that is in the middle of a chunk: then not every step is told of.
        """
        if request.report is None:
            return
        now, prompt = time.perf_counter(), len(request.prompt)
        done = min(done, prompt)  # there is more to do where an answer starts again
        if is_inside and (done == prompt or not request.progress.is_due(done, now)):
            return
        reused = request.report.cached_tokens + request.report.restored_tokens
        is_quick = prompt - done < QUICK_S * self._batcher.chunks.rate
        left = partial(self._left, request)
        done, seconds = request.progress.told(done, prompt, left, now, is_quick=is_quick)
        self._emit(PrefillProgress(request.id, done, prompt, reused, seconds))

    def text(self, sequence: Sequence, more: str) -> None:
        """What an answer goes on with."""
        self._emit(TextChunk(sequence.request.id, more, len(sequence.generated), sequence.index))

    def beat(self) -> None:
        """Stats, if it is time for them."""
        if self._pulse.due(time.perf_counter()):
            self.stats()

    def ends(self, request: Request) -> None:
        """It is about to end. Of an answer that was quicker than the pulse Stats tell once while it runs."""
        if self._pulse.is_untold(request.clock.first_token, request.clock.last_token):
            self.stats()

    def stats(self) -> None:
        """Stats, single pages where somebody watches them, and chats where they have moved."""
        now, running, model = time.perf_counter(), self._batcher.running, self._model
        launches, tokens = self._live.launches, max(1, self._live.tokens)
        decode_tps = self._pulse.decode_tps(now) if running else 0.0
        self._pulse.sent(now, tells_rate=decode_tps > 0)
        self._emit(
            Stats(
                active_id=running[0].request.id if running else "",
                queued=self._batcher.waiting,
                context_tokens=sum(sequence.table.length for sequence in running),
                decode_tps=decode_tps,
                prefill_tps=self._batcher.chunks.rate,
                pages_used=model.pager.pages_used,
                total_pages=model.pager.total_pages,
                memory_bytes=mx.get_active_memory(),
                peak_memory_bytes=mx.get_peak_memory(),
                launches=dict(launches),
                own_launches_per_token=launches_of("ours", launches) / tokens,
                mlx_launches_per_token=launches_of("MLX", launches) / tokens,
                host_parts_per_token=launches_of("host", launches) / tokens,
                running=len(running),
                cached_pages=model.memory.cached_pages,
                shared_pages=_shared(running),
                cache=self._cache_counts(),
                cold_steps=self._warming.cold_steps,
                model=model.info.path,
                at=now,
                requests=_requests(running),
                gaps=self._pulse.gaps(),
                memory=self._memory_use(now),
            )
        )
        self._tell_pages(now, running)
        self.chats()

    def _tell_pages(self, now: float, running: Many[Sequence]) -> None:
        self.pages.note(now)
        if self.pages.is_due(now, is_at_rest=not self._batcher.busy):
            tables = [(sequence.table, sequence.request.command.chat) for sequence in running]
            if (found := self.pages.look(tables, now)) is not None:
                self._emit(found)
            self.pages.took(now, time.perf_counter())

    def chats(self) -> None:
        """Where chats' pages lie, if that has changed since it was told."""
        running = ((sequence.table, sequence.request.command.chat) for sequence in self._batcher.running)
        chats = dict(self._model.memory.chats(running))
        if chats != self._told_chats:
            self._told_chats = chats
            self._emit(ChatsCached(chats))

    def _memory_use(self, now: float) -> MemoryUse:
        self._look.look(now)
        draft = self._draft
        return MemoryUse(
            arena_bytes=_built(self._model.arena),
            allocator_bytes=mx.get_cache_memory(),
            process_bytes=self._look.process_bytes,
            is_short=self._look.is_short,
            draft_bytes=draft.info.weight_bytes + _built(draft.arena) if draft else 0,
        )

    def _cache_counts(self) -> CacheCounts:
        counts, tier = self._model.memory.counts, self._model.tier
        waiting_pages = tier.waiting_pages if tier else 0  # first: what follows counts all others
        usage = tier.usage if tier else SsdUsage(0, 0)
        return replace(
            CacheCounts(),
            **self._counted,
            evicted_pages=counts.evicted_pages,
            spilled_pages=tier.written_pages if tier else 0,
            waiting_pages=waiting_pages,
            restored_pages=counts.restored_pages,
            copied_pages=counts.copied_pages,
            preemptions=self._batcher.giving_way.count,
            spilled_bytes_today=usage.written_today,
            ssd_bytes=usage.total_bytes,
            ssd_cap_bytes=tier.cap_bytes if tier else 0,
            quarantined_files=tier.quarantined_files if tier else 0,
            ssd_problem=tier.reason if tier else "",
        )


def _built(arena: Arena) -> int:
    """Bytes of its pages, of those too that are built ahead."""
    return arena.pages * arena.page_bytes + arena.growing.ahead_bytes


def _requests(running: Many[Sequence]) -> tuple[RequestStats, ...]:
    return tuple(_request_stats(request) for request in dict.fromkeys(s.request for s in running))


def _request_stats(request: Request) -> RequestStats:
    timing, prompt = request.timing(), len(request.prompt)
    return RequestStats(
        id=request.id,
        chat=request.command.chat,
        prompt_tokens=prompt,
        done_tokens=prompt if request.has_opened else min(prompt, request.sequences[0].table.length),
        generated_tokens=sum(len(sequence.generated) for sequence in request.sequences),
        ttft_ms=timing.ttft_ms,
        prefill_tps=timing.prefill_tps,
        decode_tps=timing.decode_tps,
    )


def _shared(running: Many[Sequence]) -> int:
    """Pages that more than one of these holds: thousands are looked at, ten times a second."""
    if len(running) < 2:
        return 0
    held = Counter(chain.from_iterable(sequence.table.pages for sequence in running))
    del held[NO_PAGE]
    return len(held) - list(held.values()).count(1)
