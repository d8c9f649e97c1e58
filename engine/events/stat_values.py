"""What Stats holds of requests, of the time between tokens, and of memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestStats:
    """A request that runs.

    Attributes:
        id, chat: as in its Generate.
        prompt_tokens: of its prompt; done_tokens of them are in pages, cached ones among them.
        generated_tokens: of all its answers.
        ttft_ms: from its arrival to its first token; 0 before that.
        prefill_tps: prompt tokens computed per second of its prefill; 0 when nothing was computed yet.
        decode_tps: tokens per second of its longest answer, after the first; 0 with fewer than two.
    """

    id: str
    chat: str
    prompt_tokens: int
    done_tokens: int
    generated_tokens: int
    ttft_ms: float
    prefill_tps: float
    decode_tps: float


@dataclass(frozen=True, slots=True)
class TokenGaps:
    """The time from one token of an answer to its next, over the last `count` (at most 512) of all answers.

    Tokens that one step yields, as where guesses were right, come together and count as one. Percentiles are
    by nearest rank, in milliseconds; 0 where `count` is 0.
    """

    count: int = 0
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    p99_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of memory.

    Attributes:
        arena_bytes: KV pages of this model that are built, used or not.
        allocator_bytes: freed arrays that MLX keeps for reuse, of all models.
        process_bytes: physical memory of the whole process, as the system counts it; 0 where it does not say.
        is_short: whether the system is short of memory.
        draft_bytes: weights, and KV pages that are built, of the model that drafts for this one.
    """

    arena_bytes: int = 0
    allocator_bytes: int = 0
    process_bytes: int = 0
    is_short: bool = False
    draft_bytes: int = 0
