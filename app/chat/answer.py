"""One answer on its way: what the engine's events make of it, without Qt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from app.chat.answer_notes import CUT_WORDS
from app.store.records import ChatMessage, Status
from engine import (
    CacheReport,
    Event,
    Failed,
    Finished,
    FinishReason,
    Limit,
    PrefillProgress,
    SampleEnded,
    TextChunk,
    Waiting,
)

AnswerPhase = Literal["waiting", "prefilling", "streaming"]

STATUS_OF_REASON: dict[str, Status] = {"stop": "complete", "length": "length", "cancelled": "stopped"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that a request in flight writes, perhaps one of several.

    Attributes:
        request_id: the engine's name for the request.
        message: the assistant's message so far.
        phase: "waiting" until the engine begins with it; `waits_for`: what for, as the engine says.
        prefill_done, prefill_total: prompt tokens read so far, and in all, without the cached ones.
        cached: prompt tokens that need not be read: they were in memory or on SSD.
        left: seconds until the prompt is read; None where that is not known.
        report: what was found of it; None before that is known.
        cancelled: Cancel has been sent; the phase is what it was.
        sample: which of the request's answers it is.
    """

    request_id: str
    message: ChatMessage
    phase: AnswerPhase = "waiting"
    waits_for: str = ""
    prefill_done: int = 0
    prefill_total: int = 0
    cached: int = 0
    left: float | None = None
    report: CacheReport | None = None
    cancelled: bool = False
    sample: int = 0

    @property
    def context_tokens(self) -> int | None:
        """Tokens of its prompt and of what it has so far; None until the engine has told of its prompt."""
        prompt = self.cached + self.prefill_total
        return prompt + self.message.generated_tokens if prompt else None

    @property
    def over(self) -> bool:
        """Whether the engine has ended it."""
        return self.message.status != "streaming"


def advance(answer: Answer, event: Event) -> Answer:
    """The answer after one more event of its request; other events change nothing."""
    match event:
        case Waiting():
            return replace(answer, waits_for=event.why)
        case CacheReport():
            return _found(answer, event)
        case PrefillProgress(cached_tokens=cached):
            return replace(
                answer,
                phase="prefilling",
                prefill_done=max(0, event.done_tokens - cached),
                prefill_total=event.prompt_tokens - cached,
                cached=cached,
                left=event.seconds,
            )
        case TextChunk(sample=answer.sample):
            text = answer.message.text + event.text
            message = replace(answer.message, text=text, generated_tokens=event.generated_tokens)
            return replace(answer, phase="streaming", message=message)
        case SampleEnded(sample=answer.sample):
            status, error = STATUS_OF_REASON[event.reason], _cut(event.reason, event.limit)
            return replace(answer, message=replace(answer.message, status=status, error=error))
        case Finished():
            return replace(answer, message=_finished(answer.message, event, answer.sample))
        case Failed():
            return replace(answer, message=replace(answer.message, status="failed", error=event.error))
        case _:
            return answer


def _found(answer: Answer, report: CacheReport) -> Answer:
    cached = report.cached_tokens + report.restored_tokens
    message = replace(answer.message, missed_from=report.missed_from, miss_reason=report.reason or "")
    return replace(
        answer,
        message=message,
        phase="prefilling",
        prefill_total=report.prompt_tokens - cached,
        cached=cached,
        report=report,
    )


def _finished(message: ChatMessage, event: Finished, sample: int) -> ChatMessage:
    own = event if sample == 0 else event.others[sample - 1]
    return replace(
        message,
        text=own.text,
        tokens=own.tokens,
        status=STATUS_OF_REASON[own.reason],
        error=event.why if own.reason == "cancelled" else _cut(own.reason, own.limit),
        generated_tokens=len(own.tokens),
        ttft_ms=event.timing.ttft_ms,
        decode_tps=event.timing.decode_tps,
    )


def _cut(reason: FinishReason, limit: Limit) -> str:
    """Why an answer that was cut goes no further; "" for others."""
    return CUT_WORDS[limit] if reason == "length" else ""
