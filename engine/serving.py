"""One loaded model at work: steps its requests and says what happened, request by request."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import cast

import mlx.core as mx

from engine.chunking import ChunkSizer
from engine.errors import EngineError, NonFiniteLogits
from engine.events import Event, Failed, FinishReason, PrefillProgress, Stats, TextChunk
from engine.loading.model import LoadedModel
from engine.request import Request
from engine.runner import Runner
from engine.sampling import token_logprobs
from engine.scheduler import Scheduler
from engine.settings import EngineSettings
from engine.stats import Pulse


class Serving:
    """Requests on `model`, on the engine's thread; a failing request ends in Failed and harms no other."""

    def __init__(self, model: LoadedModel, settings: EngineSettings, emit: Callable[[Event], None]) -> None:
        self.model = model
        self._emit = emit
        self._runner = Runner(model)
        self._scheduler = Scheduler()
        self._chunks = ChunkSizer(settings.prefill_chunk, settings.page_size)
        self._pulse = Pulse()

    @property
    def busy(self) -> bool:
        """Whether there is a request to work on."""
        return self._scheduler.active is not None

    def add(self, request: Request) -> None:
        """Queue an accepted request."""
        self._scheduler.add(request)

    def cancel(self, request_id: str) -> None:
        """End a request as cancelled; ids that are not here are ignored."""
        request = self._scheduler.find(request_id)
        if request is not None:
            self._finish(request, "cancelled")

    def cancel_all(self) -> None:
        """End every request as cancelled."""
        for request in self._scheduler:
            self._finish(request, "cancelled")

    def work(self) -> None:
        """One prefill chunk or one decode step of the active request."""
        request = self._scheduler.active
        if request is None:
            return
        try:
            self._step(request)
        except Exception as error:  # noqa: BLE001 — the top of the thread for this request
            self._remove(request)
            if not isinstance(error, EngineError):
                self._runner.drop_pages()
            self._emit(failure(request.id, error))
            self._tell_stats()
        if self._pulse.due(time.perf_counter()):
            self._tell_stats()

    def _step(self, request: Request) -> None:
        if not request.clock.prefill_began:
            request.clock.prefill_began = time.perf_counter()
            self._pulse.reset()
            self._tell_prefill(request)
        if request.unfilled > 1 and (chunk := self._next_chunk(request)):
            self._prefill(request, chunk)
            return
        if request.unfilled:
            tokens, began = request.prompt[request.table.length :], time.perf_counter()
            self._decode(request, tokens)
            self._chunks.measured(len(tokens), began)
        else:
            self._decode(request, (request.generated[-1],))

    def _next_chunk(self, request: Request) -> tuple[int, ...]:
        """Prompt tokens of a chunk that ends before the prompt does; empty when the rest fits one step."""
        size = self._chunks.next(request.unfilled)
        begin = request.table.length
        return () if size == request.unfilled else request.prompt[begin : begin + size]

    def _prefill(self, request: Request, tokens: tuple[int, ...]) -> None:
        began = time.perf_counter()
        self._runner.prefill(request.table, tokens)
        self._chunks.measured(len(tokens), began)
        self._runner.trim(request.table)
        self._tell_prefill(request)

    def _decode(self, request: Request, tokens: tuple[int, ...]) -> None:
        """Run `tokens`, draw the token that follows them, and hand on its text."""
        logits = self._runner.next_logits(request.table, tokens)
        drawn = request.sampler.sample(logits, request.generated, request.prompt)
        finite = mx.isfinite(logits).all()
        mx.eval(drawn, finite)
        if not finite.item():
            raise NonFiniteLogits(
                f"{self.model.info.name} produced numbers that are not finite; its weights may be damaged: "
                "download the model again"
            )
        self._runner.trim(request.table)
        if not request.generated:
            self._tell_prefill(request)
        token = cast(int, drawn.item())
        if request.command.logprobs is not None:
            request.logprobs.append(token_logprobs(logits, token, request.command.logprobs))
        self._accept(request, token)

    def _accept(self, request: Request, token: int) -> None:
        is_end = token in self.model.tokenizer.eos_ids and not request.command.ignore_eos
        shown, reason = request.accept(token, is_end)
        self._pulse.token(request.clock.last_token)
        if shown:
            self._emit(TextChunk(request.id, shown, len(request.generated)))
        if reason is not None:
            self._finish(request, reason)

    def _finish(self, request: Request, reason: FinishReason) -> None:
        if not request.stops.stopped and (rest := request.drain()):
            self._emit(TextChunk(request.id, rest, len(request.generated)))
        finished = request.finished(reason)
        self._remove(request)
        self._emit(finished)
        if not self.busy:
            mx.clear_cache()  # what the allocator keeps for reuse goes back to the system while we are idle
            self._tell_stats()

    def _remove(self, request: Request) -> None:
        self._scheduler.remove(request)
        self._runner.free(request.table)

    def _tell_prefill(self, request: Request) -> None:
        done = min(request.table.length, len(request.prompt))
        self._emit(PrefillProgress(request.id, done, len(request.prompt), 0))

    def _tell_stats(self) -> None:
        now, active = time.perf_counter(), self._scheduler.active
        self._pulse.sent(now)
        self._emit(
            Stats(
                active_id=active.id if active else "",
                queued=self._scheduler.queued,
                context_tokens=active.table.length if active else 0,
                decode_tps=self._pulse.decode_tps(now) if active else 0.0,
                prefill_tps=self._chunks.rate,
                pages_used=self.model.pager.pages_used,
                total_pages=self.model.pager.total_pages,
                memory_bytes=mx.get_active_memory(),
                peak_memory_bytes=mx.get_peak_memory(),
            )
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
