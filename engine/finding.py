"""What requests find in the cache, in memory and on SSD; how long it takes, and why there is not more."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from engine.batch import Sent
from engine.cache_events import CacheReport, Predicted
from engine.cache_report import ChatPrefixes
from engine.foresight import Foresight
from engine.kv.restoring import Ahead
from engine.loading.model import LoadedModel
from engine.machine import device_name
from engine.request import Request, Sequence
from engine.runner import Runner
from engine.self_check import SelfCheck
from engine.settings import EngineSettings

log = logging.getLogger(__name__)


class Finding:
    """The cache of one model as its requests see it."""

    def __init__(
        self, model: LoadedModel, settings: EngineSettings, steps: Callable[[int, int], int]
    ) -> None:
        """`steps`: how many compute tokens of a prompt, by the first and their number: Batcher.steps."""
        self._model, self._memory = model, model.memory
        self._prefixes = ChatPrefixes(settings.page_size)
        self._check = SelfCheck(model, settings.ssd.check_share if settings.ssd else 0.0)
        self._steps = steps
        self._foresight = Foresight(
            settings.cache / "rates" / f"{model.fingerprint}.json",
            f"{device_name()} {model.info.executor} {model.info.dtype} {model.fingerprint}",
            model.arena.page_bytes,
            settings.page_size,
        )

    def expect(self, sequence: Sequence) -> None:
        """It has begun: what `restore` is going to read back is read meanwhile."""
        tokens = sequence.tokens(0, sequence.length)
        if self._should_restore(self._memory.ahead(sequence.table, tokens)):
            self._memory.expect(sequence.table, tokens)

    def restore(self, sequence: Sequence, runner: Runner) -> bool:
        """Read the next run of its pages back from SSD, where that is quicker than computing them.

        Returns False when there is no more to read; of some sequences it is then checked what was read.
        """
        tokens = sequence.tokens(0, sequence.length)
        if self._read_run(sequence, tokens):
            self._memory.trim(sequence.table)  # or pages that a window has left take the room of the next
            return True
        sequence.may_restore = False
        self._memory.settle(sequence.table, tokens, sequence.request.command.chat)
        self._sample(sequence, tokens, runner)
        return False

    def report(self, sequence: Sequence) -> CacheReport:
        """What there was of its prompt, once nothing more is read back."""
        request, found = sequence.request, sequence.table.length
        cached = min(sequence.begun_at, found)
        begin, reason = self._prefixes.miss(request.command.chat, request.prompt, found, request.missed)
        return CacheReport(request.id, len(request.prompt), cached, found - cached, begin, reason)

    def predict(self, request: Request, ahead: Iterable[Sequence]) -> Predicted:
        """What it would find, were it sent now, behind the prompts of `ahead`."""
        prompt, found = len(request.prompt), self._memory.lookup(request.prompt)
        stored, cached = found.stored_tokens, found.cached_tokens
        read = stored - found.skipped_tokens
        if stored and not self._foresight.should_restore(stored, cached, read):
            stored = read = 0
        if stored:
            self._memory.fetch(request.prompt)  # it is likely to be sent
        reused = cached + stored
        begin, reason = self._prefixes.miss(request.command.chat, request.prompt, reused, request.missed)
        steps = self._steps(reused, prompt - reused)
        seconds = self._foresight.first_token(prompt, reused, read, ahead, steps)
        return Predicted(request.id, prompt, cached, stored, seconds, begin, reason)

    def took(self, sent: Sent, seconds: float) -> None:
        """A step is done."""
        self._foresight.took(sent, seconds)

    def answered(self, request: Request) -> None:
        """Its first token is there, and nobody is beside it."""
        report, clock = request.report, request.clock
        if request.began_alone and report is not None and not report.restored_tokens:
            cached, seconds = report.cached_tokens, clock.first_token - clock.arrived
            new = len(request.prompt) - cached
            self._foresight.answered(new, cached, self._steps(cached, new), seconds)

    def computed(self, sequence: Sequence) -> None:
        """Its pages are kept: its chat was computed that far."""
        tokens = sequence.tokens(0, sequence.table.length)
        self._prefixes.computed(sequence.request.command.chat, tokens)

    def forget(self, chat: str) -> None:
        """Nothing of it is expected any more."""
        self._prefixes.forget(chat)

    def close(self) -> None:
        """Keep what was learned."""
        self._foresight.save()

    def _read_run(self, sequence: Sequence, tokens: tuple[int, ...]) -> int:
        """The tokens gained."""
        memory, size = self._memory, self._model.pager.page_size
        if not self._should_restore(memory.ahead(sequence.table, tokens)):
            return 0
        began, before = time.perf_counter(), memory.counts.restored_pages
        gained = memory.restore(sequence.table, tokens, sequence.request.command.chat)
        if gained:
            pages = memory.counts.restored_pages - before
            self._foresight.restored(pages * size, time.perf_counter() - began)
        return gained

    def _should_restore(self, ahead: Ahead) -> bool:
        size = self._model.pager.page_size
        gains, reads = (ahead.end - ahead.begin) * size, (ahead.end - ahead.first) * size
        return self._foresight.should_restore(gains, ahead.begin * size, reads)

    def _sample(self, sequence: Sequence, tokens: tuple[int, ...], runner: Runner) -> None:
        """Of some prompts that came back from SSD, see whether the pages are right."""
        size, table = self._model.pager.page_size, sequence.table
        begin = sequence.begun_at // size * size
        if table.length <= sequence.begun_at or table.length % size or self._model.config.largest_window:
            return
        if self._check.is_due() and not self._check.agrees(runner, table, tokens):
            log.warning("pages of %s from SSD disagree with it; they are gone", self._model.info.name)
            self._memory.distrust(table, tokens, begin)
