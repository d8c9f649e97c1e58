"""What the status line shows of the engine, folded from its events and from nothing else; without Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from app import text
from app.amounts import size
from app.chat.cache_words import reading_words, why_words
from engine import (
    CacheReport,
    Event,
    Failed,
    Finished,
    ModelInfo,
    ModelReady,
    ModelUnloaded,
    PrefillProgress,
    Stats,
    TextChunk,
)


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The engine's pulse, in the numbers people see.

    Attributes:
        model: the loaded model; None while there is none.
        decode_tps: tokens a second, now while it writes, else of the last answer; 0 before the first.
        pages_held, total_pages: KV pages that requests hold or that are kept for the next one, and in all.
        prefill_done, prefill_total: prompt tokens read while the first word is awaited, without the cached
            ones; 0 of 0 otherwise.
        prefill_cached: prompt tokens that need not be read; `prefill_left`: seconds until the others are.
        prefill_id: the request whose prompt that is; "" otherwise.
        found: what requests found whose first word is awaited, by their ids.
        queued: requests that wait behind the running one.
        writing: answers that are being written; those whose prompt is still read are not among them.
        ttft_ms: from sending to the first token, of the last request that has got there; 0 before that.
        process_bytes: memory of the whole app; 0 where it is not known.
    """

    model: ModelInfo | None = None
    decode_tps: float = 0.0
    pages_held: int = 0
    total_pages: int = 0
    prefill_done: int = 0
    prefill_total: int = 0
    prefill_cached: int = 0
    prefill_left: float | None = None
    prefill_id: str = ""
    found: Mapping[str, CacheReport] = field(default_factory=dict[str, CacheReport])
    queued: int = 0
    writing: int = 0
    ttft_ms: float = 0.0
    process_bytes: int = 0


def fold(status: EngineStatus, event: Event) -> EngineStatus:
    """The status after one more event."""
    match event:
        case ModelReady(model=model):
            return EngineStatus(model=model, total_pages=model.total_pages)
        case ModelUnloaded():
            return EngineStatus()
        case CacheReport():
            return replace(status, found={**status.found, event.id: event})
        case PrefillProgress(cached_tokens=cached):
            return replace(
                status,
                prefill_done=max(0, event.done_tokens - cached),
                prefill_total=event.prompt_tokens - cached,
                prefill_cached=cached,
                prefill_left=event.seconds,
                prefill_id=event.id,
            )
        case TextChunk() | Failed():
            return _read(status, event.id)
        case Finished():
            return _finished(status, event)
        case Stats():
            return _pulse(status, event)
        case _:
            return status


def _read(status: EngineStatus, request_id: str) -> EngineStatus:
    """The prompt of this request is not read any more; another's may be."""
    if request_id in status.found:
        found = {name: report for name, report in status.found.items() if name != request_id}
        status = replace(status, found=found)
    if status.prefill_id != request_id:
        return status
    return replace(status, prefill_done=0, prefill_total=0, prefill_left=None, prefill_id="")


def _finished(status: EngineStatus, event: Finished) -> EngineStatus:
    return replace(
        _read(status, event.id),
        decode_tps=event.timing.decode_tps or status.decode_tps,
        ttft_ms=event.timing.ttft_ms or status.ttft_ms,
    )


def _pulse(status: EngineStatus, event: Stats) -> EngineStatus:
    began = [request.ttft_ms for request in event.requests if request.ttft_ms]
    return replace(
        status,
        decode_tps=event.decode_tps or status.decode_tps,
        pages_held=event.pages_used + event.cached_pages,
        total_pages=event.total_pages or status.total_pages,
        queued=event.queued,
        writing=event.running - sum(not request.generated_tokens for request in event.requests),
        ttft_ms=began[-1] if began else status.ttft_ms,
        process_bytes=event.memory.process_bytes,
    )


@dataclass(frozen=True, slots=True)
class StatusTexts:
    """The status line's fields; "" hides one. `why` is about `activity`."""

    activity: str = ""
    speed: str = ""
    context: str = ""
    pages: str = ""
    first: str = ""
    memory: str = ""
    why: str = ""


def reading(status: EngineStatus) -> str:
    """How far the prompt is that the model reads now; "" while it reads none."""
    if status.prefill_done >= status.prefill_total:
        return ""
    cached, left = status.prefill_cached, status.prefill_left
    return reading_words(status.prefill_done, status.prefill_total, cached, left)


def status_texts(
    status: EngineStatus, context_tokens: int | None = 0, *, reads_elsewhere: bool = False
) -> StatusTexts:
    """The words for a status. Nothing is shown that no event has said.

    Args:
        context_tokens: of the chat on show; None where the model has not told them.
        reads_elsewhere: whether the prompt that is read is none of what is on show.
    """
    if status.model is None:
        return StatusTexts()
    activity = reading(status)
    report = status.found.get(status.prefill_id) if activity else None
    if activity and reads_elsewhere:
        activity = text.elsewhere(text.READING_ELSEWHERE, activity)
    elif not activity and status.queued:
        activity = f"{status.queued} waiting"
    context = text.UNKNOWN if context_tokens is None else f"{context_tokens:,}"
    return StatusTexts(
        activity=activity,
        speed=_speed(status),
        context=f"{context} / {status.model.context_length:,} tokens",
        pages=f"{status.pages_held:,} / {status.total_pages:,} pages",
        first=f"first token {_seconds(status.ttft_ms / 1000)}" if status.ttft_ms else "",
        memory=size(status.process_bytes) if status.process_bytes else "",
        why=why_words(report, status.prefill_left) if report else "",
    )


def _speed(status: EngineStatus) -> str:
    tps = status.decode_tps
    if not tps > 0:
        return ""
    words = f"{tps:.0f} tok/s" if tps >= 10 else f"{tps:.1f} tok/s"
    return f"{words} for {status.writing} answers" if status.writing > 1 else words


def _seconds(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"
