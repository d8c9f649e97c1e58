"""One request in flight: its answers, each with its tokens, pages and text so far, and the clock."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass, field

from engine.commands import Generate
from engine.events.cache import CacheReport, MissReason
from engine.events.events import Finished, FinishReason, Limit, Sample, Timing, TokenLogprobs
from engine.kv.page_table import PageTable
from engine.pacing.ways import Way
from engine.prediction.progress import Progress
from engine.requests.failure import Suspicion
from engine.requests.stopping import StopStrings
from engine.sampling.device import Sampler
from engine.scheduler import turn_of
from engine.speculation.draft import Draft
from engine.steps.parts import Filling
from engine.tokenizer import Detokenizer


@dataclass(slots=True)
class Clock:
    """Moments of a request, in seconds of time.perf_counter; 0 where not yet reached.

    It was `taken_up` once the engine's thread had done what came before it, such as loading the model; for
    `growth` seconds since then it waited for KV memory to grow.
    """

    arrived: float
    taken_up: float
    prefill_began: float = 0.0
    first_token: float = 0.0
    last_token: float = 0.0
    growth: float = 0.0


@dataclass(slots=True, eq=False)
class Sequence:
    """One answer in the making.

    Attributes:
        request: whose answer it is; `index` says which of its n.
        table: its pages. `table.length` tokens of prompt + generated are in them, and one more while a step
            is in flight whose input has not been read.
        is_in_flight: whether a step was sent that draws its next token, which is not read yet.
        may_restore: whether the SSD may have more of its tokens than memory had; `begun_at` is what it had.
        kept: tokens of its prompt up to which others may find its pages.
        given: tokens of it whose pages others may find since it gave way; 0 where it never did.
        filling: the chunk of its prompt that is on its way through the model; `table` has room for it.
        draft: what to check in its next step.
        is_discarded: whether nobody wants it any more, so that nothing of it is kept.
        wants_draft: whether a draft is due: the next step then waits until the last token is read.
        read_at: when a step with tokens of it was read last, in seconds of time.perf_counter; 0 before that.
        reading: seconds that were expected, when somebody else came last, until its prompt is read.
        reason: why it has ended; None while it goes on.
        limit: what bounds it.
    """

    request: Request
    index: int
    sampler: Sampler
    detokenizer: Detokenizer
    stops: StopStrings
    table: PageTable = field(default_factory=PageTable)
    generated: list[int] = field(default_factory=list[int])
    logprobs: list[TokenLogprobs] = field(default_factory=list[TokenLogprobs])
    text: list[str] = field(default_factory=list[str])
    is_in_flight: bool = False
    may_restore: bool = False
    begun_at: int = 0
    kept: int = 0
    given: int = 0
    filling: Filling | None = None
    draft: Draft | None = None
    wants_draft: bool = False
    is_discarded: bool = False
    read_at: float = 0.0
    reading: float = 0.0
    reason: FinishReason | None = None
    limit: Limit = "context"

    @property
    def rank(self) -> float:
        """Its place in the queue; less is earlier."""
        return self.request.rank

    @property
    def turn(self) -> float:
        """When its prompt is read; one whose answer has begun, and that gave way, is put back for nothing."""
        reading = 0.0 if self.request.has_opened else self.reading
        return turn_of(self.rank, reading, self.request.command.lane)

    @property
    def length(self) -> int:
        """Tokens of prompt and answer that are known."""
        return len(self.request.prompt) + len(self.generated)

    @property
    def resident(self) -> int:
        """Most of these that are in pages at once, with the next one: a sliding window leaves the others."""
        return min(self.length, self.request.most_resident - 1)

    @property
    def pending(self) -> int:
        """Tokens that are known and not in pages."""
        pending = len(self.request.prompt) + len(self.generated) - self.table.length
        return pending if pending > 0 else 0

    @property
    def may_go_on(self) -> bool:
        """Whether a token may follow the one that is being drawn, or the last one."""
        return len(self.generated) + self.is_in_flight < self.request.most_tokens

    @property
    def drawn_together(self) -> list[Sequence]:
        """Whose tokens are drawn behind its prompt: all the request's answers the first time."""
        return [self] if self.request.has_opened else self.request.sequences

    @property
    def last_token(self) -> int:
        """Of prompt and answer, as far as it is known."""
        return self.generated[-1] if self.generated else self.request.prompt[-1]

    @property
    def known(self) -> Many[int]:
        """All tokens of prompt and answer that are known, to be looked up."""
        return self.tokens(0, self.length) if self.generated else self.request.ids

    def tokens(self, begin: int, end: int) -> tuple[int, ...]:
        """Tokens begin … end-1 of prompt and answer."""
        prompt = self.request.prompt
        if end <= len(prompt):
            return prompt[begin:end]
        offset = len(prompt)
        return (*prompt[begin:], *self.generated[max(0, begin - offset) : end - offset])

    def goes(self, way: Way) -> bool:
        """Whether a chunk of its prompt goes through the model that way."""
        return self.filling is not None and self.filling.way is way

    def drop_filling(self) -> None:
        """What is computed of its chunk is not wanted."""
        if self.filling is not None:
            self.filling.drop()
        self.filling = None

    def accept(self, token: int, is_end: bool) -> str:
        """Take the next token. Returns text that may now be shown; `reason` is set when the answer ends."""
        clock = self.request.clock
        clock.last_token = time.perf_counter()
        clock.first_token = clock.first_token or clock.last_token
        self.generated.append(token)
        shown, stopped = ("", False) if is_end else self.stops.add(self.detokenizer.add(token))
        self.text.append(shown)
        if is_end or stopped:
            self.reason = "stop"
        elif len(self.generated) >= self.request.most_tokens:
            self.reason = "length"
        return shown

    def drain(self) -> str:
        """The text still held back when an answer ends without a stop string."""
        if self.stops.stopped:
            return ""
        rest, stopped = self.stops.add(self.detokenizer.finish())
        if not stopped:
            rest += self.stops.finish()
        self.text.append(rest)
        return rest

    def sample(self) -> Sample:
        """What has come of it."""
        return Sample(
            reason=self.reason or "cancelled",
            text="".join(self.text),
            tokens=tuple(self.generated),
            logprobs=None if self.request.command.logprobs is None else tuple(self.logprobs),
            limit=self.limit,
        )


@dataclass(slots=True, eq=False)
class Request:
    """A Generate that was accepted.

    Attributes:
        ids: the prompt once more, as what is compared with others' quickly.
        most_tokens: of each answer.
        rank: its place in the queue (see engine.scheduler).
        report: what it found in the cache, once its turn has come; `progress`: what was told of it since.
        most_resident: tokens of an answer and its prompt that are in pages at once, however long they are.
        missed: why its chat's template or model broke with what was computed before: of its first so many
            ids that are `affected`.
        history: ids of the prompt, from the first on, that its chat says it was computed as.
        launched_before: launches until its prefill began.
        read: tokens of its prompt that were in pages when an answer of it ended.
        has_opened: whether its prompt was computed, and its answers have begun.
        came_alone: whether nobody else was there when it came, nor another model's steps came between since.
        drafted_tokens, accepted_tokens: of its answers' speculation.
        why: it ends before its time, where nobody cancelled it, for people.
        is_forgotten: whether its chat was, since it was asked: nothing of it is kept.
        suspicion: what is held against it after a step broke that it was in; its steps are its own meanwhile.
        may_have_process: whether chunks of its prompt may have one of their own: not once that broke, as the
            system may have ended it.
    """

    command: Generate
    prompt: tuple[int, ...]
    ids: array[int]
    most_tokens: int
    clock: Clock
    rank: float
    most_resident: int
    missed: MissReason | None = None
    affected: int = 0
    history: int = 0
    sequences: list[Sequence] = field(default_factory=list[Sequence])
    report: CacheReport | None = None
    progress: Progress = field(default_factory=Progress)
    launched_before: Counter[str] | None = None
    read: int = 0
    has_opened: bool = False
    came_alone: bool = False
    why: str = ""
    is_forgotten: bool = False
    suspicion: Suspicion | None = None
    may_have_process: bool = True
    drafted_tokens: int = 0
    accepted_tokens: int = 0

    @property
    def id(self) -> str:
        """The caller's name for it."""
        return self.command.id

    @property
    def owner(self) -> str | None:
        """The chat whose pages are kept of it; None where none are."""
        return None if self.is_forgotten else self.command.chat

    @property
    def is_over(self) -> bool:
        """Whether all its answers have ended."""
        return all(sequence.reason is not None for sequence in self.sequences)

    def finished(self, launches: Mapping[str, int]) -> Finished:
        """The event that ends it; `launches` of decode steps since it began."""
        first, *others = (sequence.sample() for sequence in self.sequences)
        return Finished(
            id=self.id,
            reason=first.reason,
            text=first.text,
            tokens=first.tokens,
            prompt_tokens=self.prompt,
            logprobs=first.logprobs,
            timing=self.timing(),
            launches=dict(launches),
            others=tuple(others),
            drafted_tokens=self.drafted_tokens,
            accepted_tokens=self.accepted_tokens,
            limit=first.limit,
            why=self.why,
        )

    def timing(self) -> Timing:
        """Durations and rates so far."""
        clock, report = self.clock, self.report
        reused = report.cached_tokens + report.restored_tokens if report else 0
        done = len(self.prompt) if clock.first_token else max(self.read, self.sequences[0].table.length)
        computed = max(0, min(done, len(self.prompt)) - reused) if report else 0
        prefill_end = clock.first_token or time.perf_counter()
        prefill = prefill_end - clock.prefill_began if clock.prefill_began else 0.0
        decode = clock.last_token - clock.first_token
        generated = max(len(sequence.generated) for sequence in self.sequences)
        return Timing(
            ttft_ms=1000 * (clock.first_token - clock.arrived) if clock.first_token else 0.0,
            prefill_tokens=computed,
            cached_tokens=reused,
            prefill_tps=computed / prefill if prefill > 0 else 0.0,
            decode_tps=(generated - 1) / decode if decode > 0 else 0.0,
        )
