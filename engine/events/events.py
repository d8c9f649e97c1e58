"""What the engine tells its callers: frozen values, handed to `emit` on the engine's thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from engine.bench.step_profile import StepProfiled
from engine.events.cache import (
    CacheCounts,
    CacheReport,
    ChatsCached,
    Flushed,
    Freed,
    Predicted,
    Refusal,
    WayOut,
)
from engine.events.models import KernelsChosen, LoadProgress, ModelReady, ModelUnloaded
from engine.events.pages import Bandwidth, PageMap
from engine.events.stat_values import MemoryUse, RequestStats, TokenGaps
from engine.events.trials import KernelTrials

FinishReason = Literal["stop", "length", "cancelled"]
Limit = Literal["max_tokens", "context", "setting", "memory"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Request `id` waits before it begins, until others have ended; `why`: as one line for people."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """How far the request's prompt is.

    Attributes:
        done_tokens: that are done of its `prompt_tokens`, never fewer than were told before: those in pages,
            `cached_tokens` of them reused, and of a chunk that is on its way through the model as large a
            share as of the layers. All of them are when its first token is there.
        seconds: until then, as far as can be said now; None where nothing is known of this machine's rate,
            and of a prompt that takes less than a tenth of a second.
    """

    id: str
    done_tokens: int
    prompt_tokens: int
    cached_tokens: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class TextChunk:
    """More text of an answer. Concatenated, a sample's chunks are exactly its text in Finished.

    `generated_tokens` counts the tokens generated so far; `sample` says which of n answers it is.
    """

    id: str
    text: str
    generated_tokens: int
    sample: int = 0


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token id and its natural-log probability before temperature and filters."""

    id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """The generated token's log-probability and the `top` likeliest, best first."""

    id: int
    logprob: float
    top: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True)
class Timing:
    """Where a request's time went.

    Attributes:
        ttft_ms: from the command's arrival in the queue to the first token.
        prefill_tokens: prompt tokens computed (without cached ones).
        cached_tokens: prompt tokens found in pages.
        prefill_tps: prefill_tokens per second of prefill; 0 when nothing was prefilled.
        decode_tps: tokens per second after the first; 0 with fewer than two tokens.
    """

    ttft_ms: float
    prefill_tokens: int
    cached_tokens: int
    prefill_tps: float
    decode_tps: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One of several answers, as in Finished."""

    reason: FinishReason
    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] | None
    limit: Limit = "context"


@dataclass(frozen=True, slots=True)
class SampleEnded:
    """One of several answers has ended while others go on; Finished will have all of it.

    `limit`: as in Finished.
    """

    id: str
    sample: int
    reason: FinishReason
    limit: Limit = "context"


@dataclass(frozen=True, slots=True)
class Finished:
    """Request `id` ended as it should.

    Attributes:
        reason: "stop" (end token or stop string), "length" (max_tokens or context) or "cancelled".
        text: the whole answer, stop string and end token left out.
        tokens: every generated id, the end token included.
        prompt_tokens: the prompt's exact ids; () where it was cancelled before its turn came.
        logprobs: one per generated token when asked for, else None.
        launches: of the decode steps while it was served, by name: our kernels, MLX's own operations with
            "mlx." before their names, and what the host computes with "host.".
        others: with n above 1, the answers after the first.
        drafted_tokens, accepted_tokens: of speculation, for this request.
        limit: what an answer that ends as "length" has come to the end of: "max_tokens" of the request, the
            "context" that the model allows, that of a "setting" which allows less, or KV "memory".
            That of the first answer; each of `others` has its own.
        why: of answers that nobody cancelled and that end as "cancelled": what they had to end for, and what
            to do, as one line for people.
    """

    id: str
    reason: FinishReason
    text: str
    tokens: tuple[int, ...]
    prompt_tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] | None
    timing: Timing
    launches: Mapping[str, int] = field(default_factory=dict[str, int])
    others: tuple[Sample, ...] = ()
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    limit: Limit = "context"
    why: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """Load or request `id` ended in an error; the engine lives on.

    `error` is one line for people. `kind` is the class name of the EngineError behind it, or
    "Internal" when it was none of ours (`detail` then holds the traceback, for logs). `refusal` is there when
    KV memory cannot hold the request, and names ways out of its own. `ways_out`: of another lack.
    """

    id: str
    error: str
    kind: str
    detail: str = ""
    refusal: Refusal | None = None
    ways_out: tuple[WayOut, ...] = ()


@dataclass(frozen=True, slots=True)
class Stats:
    """A model's pulse: at most 10 a second while busy, and once when it falls idle.

    Attributes:
        model: its path, as in ModelInfo.
        active_id: the request being served, or "".
        queued: requests waiting behind it, also those of other models that have no room beside it.
        context_tokens: tokens that running answers have in pages, each with its prompt.
        decode_tps: tokens per second over the last second; 0 when not decoding.
        prefill_tps: prompt tokens per second of the running or last prefill.
        pages_used: pages held by requests.
        total_pages: pages that its arena may have now: less while other models are in memory too.
        memory_bytes: MLX's active memory, all models together.
        peak_memory_bytes: MLX's peak memory since start.
        launches: of all decode steps since the model was loaded, by name, as in Finished.
        own_launches_per_token, mlx_launches_per_token, host_parts_per_token: the same for each token that
            came of them: our kernels, MLX's own operations, and what the host computes.
        running: answers that prefill or decode now.
        cached_pages: pages that no request holds, kept for the next one; they are no part of pages_used.
        shared_pages: pages that more than one running answer holds.
        cache: what the cache has done since the model was loaded.
        cold_steps: kinds of steps whose kernels are not compiled yet: those that check guesses, and those of
            long texts. They are while the engine rests; until then nothing is guessed that needs them.
        at: when it was told, in seconds of time.perf_counter.
        requests: those that run, the first in the queue first.
        gaps: times between tokens, since the model was loaded.
        memory: what else is in memory.
    """

    active_id: str
    queued: int
    context_tokens: int
    decode_tps: float
    prefill_tps: float
    pages_used: int
    total_pages: int
    memory_bytes: int
    peak_memory_bytes: int
    launches: Mapping[str, int] = field(default_factory=dict[str, int])
    own_launches_per_token: float = 0.0
    mlx_launches_per_token: float = 0.0
    host_parts_per_token: float = 0.0
    running: int = 0
    cached_pages: int = 0
    shared_pages: int = 0
    cache: CacheCounts = field(default_factory=lambda: CacheCounts())
    cold_steps: int = 0
    model: str = ""
    at: float = 0.0
    requests: tuple[RequestStats, ...] = ()
    gaps: TokenGaps = field(default_factory=TokenGaps)
    memory: MemoryUse = field(default_factory=MemoryUse)


Event = (
    LoadProgress
    | ModelReady
    | KernelsChosen
    | KernelTrials
    | ModelUnloaded
    | CacheReport
    | Predicted
    | ChatsCached
    | Freed
    | Flushed
    | Waiting
    | PrefillProgress
    | TextChunk
    | SampleEnded
    | Finished
    | Failed
    | Stats
    | PageMap
    | Bandwidth
    | StepProfiled
)
