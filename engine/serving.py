"""One loaded model at work: steps its requests and says what happened, request by request."""

from __future__ import annotations

import logging
import math
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import cast

import mlx.core as mx

from engine.chunking import ChunkSizer
from engine.errors import EngineError, NonFiniteLogits
from engine.events import Event, Failed, FinishReason, KernelsChosen, PrefillProgress, Stats, TextChunk
from engine.kv.pager import OutOfPages
from engine.loading.model import LoadedModel
from engine.request import Draw, Request
from engine.runner import Runner
from engine.sampling import token_logprobs
from engine.scheduler import Scheduler
from engine.settings import EngineSettings
from engine.stats import Pulse
from engine.warm_up import warm_up
from metal.trial_messages import tells_of_memory

log = logging.getLogger(__name__)


class Serving:
    """Requests on `model`, on the engine's thread; a failing request ends in Failed and harms no other."""

    def __init__(self, model: LoadedModel, settings: EngineSettings, emit: Callable[[Event], None]) -> None:
        self.model = model
        self._emit = emit
        self._runner = Runner(model)
        self._earlier, self._earlier_tokens = Counter[str](), 0
        self._scheduler = Scheduler()
        self._chunks = ChunkSizer(settings.prefill_chunk, settings.page_size)
        self._prefill_sent = 0.0  # when the newest prefill went to the device
        self._pulse = Pulse()
        self._warm_up()

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
            warm_up(self._runner)
        except Exception as error:  # the first request would have met it
            log.exception("a first step broke")
            self._runner.drop_pages()
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
                self._doubt_kernels(error)
            self._emit(failure(request.id, error))
            self._tell_stats()
        if self._pulse.due(time.perf_counter()):
            self._tell_stats()

    def _step(self, request: Request) -> None:
        if not request.clock.prefill_began:
            request.clock.prefill_began = time.perf_counter()
            request.launched_before = self._launches()
            self._pulse.reset()
            self._tell_prefill(request)
        if request.unfilled > 1 and (chunk := self._next_chunk(request)):
            self._prefill(request, chunk)
            return
        if request.unfilled:
            tokens, before = request.prompt[request.table.length :], self._runner.tokens_in_flight
            began = self._prefill_sent if before else time.perf_counter()
            self._decode(request, tokens)
            self._chunks.measured(before + len(tokens), began)
        else:
            self._decode(request, (request.generated[-1],))

    def _next_chunk(self, request: Request) -> tuple[int, ...]:
        """Prompt tokens of a chunk that ends before the prompt does; empty when the rest fits one step."""
        size = self._chunks.next(request.unfilled)
        begin = request.table.length
        return () if size == request.unfilled else request.prompt[begin : begin + size]

    def _prefill(self, request: Request, tokens: tuple[int, ...]) -> None:
        began = self._prefill_sent = time.perf_counter()
        # Before there is a rate to choose chunks by, the first is waited for.
        done = self._runner.prefill(request.table, tokens, overlap=self._chunks.rate > 0)
        self._chunks.measured(done, began)
        self._runner.trim(request.table)
        self._tell_prefill(request)

    def _decode(self, request: Request, tokens: tuple[int, ...]) -> None:
        """Draw the token that follows `tokens`, and hand on its text.

        Where the runner can look ahead, the step after it is sent off first, so that the device works while
        this thread reads, detokenises and tells.
        """
        draw = request.ahead or self._draw(request, self._runner.next_logits(request.table, tokens))
        request.ahead = self._draw_ahead(request, draw)
        if not math.isfinite(cast(float, draw.mass.item())):
            raise NonFiniteLogits(
                f"{self.model.info.name} produced numbers that are not finite; its weights may be damaged: "
                "download the model again"
            )
        token = cast(int, draw.token.item())
        self._runner.trim(request.table)
        if not request.generated:
            self._tell_prefill(request)
        if request.command.logprobs is not None:
            request.logprobs.append(token_logprobs(draw.logits, token, request.command.logprobs))
        self._accept(request, token)

    def _draw(self, request: Request, logits: mx.array, pending: mx.array | None = None) -> Draw:
        if request.sampler.is_greedy:
            token, mass = (row[0] for row in self._runner.pick(logits[None]))
        else:
            token = request.sampler.sample(logits, request.generated, request.prompt, pending)
            mass = mx.logsumexp(logits)
        draw = Draw(token, mass, logits)
        mx.async_eval(draw.token, draw.mass)
        return draw

    def _draw_ahead(self, request: Request, last: Draw) -> Draw | None:
        """The draw after `last`; None when there will be none, or it is known only when `last` is."""
        if not self._runner.looks_ahead or len(request.generated) + 1 >= request.most_tokens:
            return None
        try:
            logits = self._runner.decode([request.table], last.token.reshape(1))[0]
        except OutOfPages:
            return None  # the token at hand comes first; the step that needs the page will say so
        return self._draw(request, logits, last.token)

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
        if request.ahead is not None:
            request.table.length -= 1  # the token it was given is no part of the answer's pages
            request.ahead = None
        before = request.launched_before
        finished = request.finished(reason, {} if before is None else self._launches() - before)
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

    def _launches(self) -> Counter[str]:
        """Of decode steps since the model was loaded, by name."""
        return self._earlier + self._runner.launches

    def _tokens(self) -> int:
        """That these decode steps were for."""
        return self._earlier_tokens + self._runner.tokens

    def _tell_stats(self) -> None:
        now, active = time.perf_counter(), self._scheduler.active
        launches, tokens = self._launches(), max(1, self._tokens())
        ours = sum(count for name, count in launches.items() if not name.startswith("mlx."))
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
                launches=dict(launches),
                own_launches_per_token=ours / tokens,
                mlx_launches_per_token=(launches.total() - ours) / tokens,
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
