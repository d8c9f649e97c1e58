"""What the engine tells of its cache: what a request found, where chats lie, what is refused, and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

MissReason = Literal["edited", "template changed", "system prompt changed", "evicted", "other model"]


@dataclass(frozen=True, slots=True)
class CacheReport:
    """What request `id` found in the cache, told when its turn comes, before the first PrefillProgress.

    Attributes:
        prompt_tokens: of the prompt.
        cached_tokens: of them in pages in memory; not computed again.
        restored_tokens: read back from SSD; not computed again either.
        missed_from: the first token that was computed before for this chat and is computed again; None when
            there is none.
        reason: why it is.
    """

    id: str
    prompt_tokens: int
    cached_tokens: int
    restored_tokens: int
    missed_from: int | None = None
    reason: MissReason | None = None


@dataclass(frozen=True, slots=True)
class Predicted:
    """The answer to Predict: what the request would find now, and when its first token would come.

    Attributes:
        id: of the request asked about.
        prompt_tokens, cached_tokens, restored_tokens, missed_from, reason: as CacheReport would have them.
        seconds: from sending to the first token; None until this machine's rate has been measured, while
            another model has requests, or is loaded, and where it would wait for a running answer's end.
    """

    id: str
    prompt_tokens: int
    cached_tokens: int
    restored_tokens: int
    seconds: float | None
    missed_from: int | None = None
    reason: MissReason | None = None


@dataclass(frozen=True, slots=True)
class ChatMemory:
    """Where the pages of a chat lie, in bytes; `shared_bytes` of both belong to other chats too."""

    memory_bytes: int
    ssd_bytes: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class ChatsCached:
    """Where chats' pages lie, when that has changed: a chat that is not named has none."""

    chats: Mapping[str, ChatMemory]


@dataclass(frozen=True, slots=True)
class Freed:
    """The answer to Keep: `pages` of `chat`, a draft model's among them, and their `bytes`, are free now."""

    chat: str
    pages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Flushed:
    """The answer to Flush; `is_all`: no page waits to be written to SSD, each is written or dropped."""

    is_all: bool


@dataclass(frozen=True, slots=True)
class WayOut:
    """One thing that would let a refused request run.

    Attributes:
        kind: "shorten" the prompt by `amount` tokens, "fewer answers" (n at most `amount`), "evict" the
            pinned chat `chat` (`amount` pages), "quantise" the KV memory to `amount` bits, "larger context"
            (up to `amount` tokens) in the settings of the model.
        needs_next: whether it helps only together with the one that is named next.
    """

    kind: Literal["shorten", "fewer answers", "evict", "quantise", "larger context"]
    amount: int
    chat: str = ""
    needs_next: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why KV memory cannot hold a request, and ways out.

    Attributes:
        needed_pages: that it needs.
        available_pages: that it could have.
        pinned_pages: that KV memory has beside those, kept for pinned chats.
        prompt_tokens: of its prompt, as far as they are in pages at once.
    """

    needed_pages: int
    available_pages: int
    ways_out: tuple[WayOut, ...]
    pinned_pages: int = 0
    prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """Since the model was loaded.

    Attributes:
        computed_tokens, cached_tokens, restored_tokens: of prompts, and of what preemption threw back.
        evicted_pages: that left memory; spilled_pages: that were written to SSD.
        restored_pages: that came back.
        copied_pages: by copy-on-write.
        preemptions: requests that gave their pages up for a while.
        spilled_bytes_today: written to SSD since midnight UTC, by every run of the app.
        ssd_bytes: that the cache takes on SSD now.
        ssd_cap_bytes: that it may take there; 0 where it is switched off.
        quarantined_files: that were damaged or disagreed, and are gone.
        drafted_tokens, accepted_tokens: of speculation.
        ssd_problem: why nothing is written to SSD at present, and what helps; "" where nothing speaks against
            it, or where it is switched off.
        waiting_pages: that wait to be written to SSD now.
        saved_seconds: that computing the cached and restored tokens would have taken as well: of each prompt
            what was expected when its first token came, summed up. Of prompts before which nothing was
            measured it has nothing.
    """

    computed_tokens: int = 0
    cached_tokens: int = 0
    restored_tokens: int = 0
    evicted_pages: int = 0
    spilled_pages: int = 0
    restored_pages: int = 0
    copied_pages: int = 0
    preemptions: int = 0
    spilled_bytes_today: int = 0
    ssd_bytes: int = 0
    ssd_cap_bytes: int = 0
    quarantined_files: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    saved_seconds: float = 0.0
    ssd_problem: str = ""
    waiting_pages: int = 0
