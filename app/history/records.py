"""The values of the history: one request as it went, and what many of them come to."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["finished", "stopped", "failed"]

Field = Literal[
    "model", "client", "chat", "session", "version", "executor", "device", "kv_bits",
    "temperature", "top_k", "top_p", "min_p", "answers", "outcome",
]  # fmt: skip
"""What requests can be told apart by, to compare models or settings."""

Where = Mapping[Field, "str | int | float | None"]
"""Only requests with these values."""


def new_id() -> str:
    """A name for a request or a session that no other one has."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request, from asking to its end. What was said is not in it.

    Durations and rates come from monotonic clocks; only `at` is what the wall clock said.

    Attributes:
        at: when it was asked, seconds since the epoch.
        session: of the run of the program that asked; `since` is how many seconds after its start it was, by
            a monotonic clock, which stands still while the machine sleeps.
        client: who asked: "window", "chat", "generate".
        chat: its chat; "" is nobody's.
        model: path of the model, as in ModelInfo.
        version: of MLXR.
        executor, device: what ran the model, as in ModelInfo; "" where no model was ready.
        kv_bits: of a stored key or value element; None as computed.
        temperature, top_k, top_p, min_p: how tokens were drawn.
        answers: how many were asked for.
        prompt_tokens: of its prompt; 0 where it ended before that was known.
        cached_tokens, restored_tokens: of them found in memory and on SSD.
        answer_tokens: generated, all answers together.
        drafted_tokens, accepted_tokens: of speculation.
        queued_ms: from asking until its prompt's turn came; None without a first token.
        ttft_ms: from asking to the first token; None where none came.
        total_ms: from asking to the end.
        prefill_tps, decode_tps: tokens per second; None where there was nothing to time.
        outcome: how it ended; `reason` is the engine's word for it: "stop", "length", "cancelled", or the
            kind of a failure. `error` is the failure's line.
    """

    at: float
    session: str
    since: float
    client: str
    chat: str
    model: str
    version: str
    executor: str
    device: str
    kv_bits: int | None
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    answers: int
    prompt_tokens: int
    cached_tokens: int
    restored_tokens: int
    answer_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    queued_ms: float | None
    ttft_ms: float | None
    total_ms: float
    prefill_tps: float | None
    decode_tps: float | None
    outcome: Outcome
    reason: str
    error: str = ""
    id: str = field(default_factory=new_id)


@dataclass(frozen=True, slots=True)
class Figures:
    """What requests come to together. Percentiles are nearest-rank, of those that have the value.

    Attributes:
        requests, stopped, failed: how many there were, and of them stopped and failed ones.
        prompt_tokens, reused_tokens, answer_tokens: sums; reused ones came from memory or SSD.
        drafted_tokens, accepted_tokens: sums.
        ttft_p50, ttft_p95: milliseconds; None where no request had a first token.
        prefill_p50, decode_p50: tokens per second; None where nothing was timed.
    """

    requests: int = 0
    stopped: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    answer_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    ttft_p50: float | None = None
    ttft_p95: float | None = None
    prefill_p50: float | None = None
    decode_p50: float | None = None

    @property
    def reused_share(self) -> float | None:
        """Of prompts' tokens those that were not computed again; None without prompts."""
        return self.reused_tokens / self.prompt_tokens if self.prompt_tokens else None

    @property
    def accepted_share(self) -> float | None:
        """Of guessed tokens those that were right; None where nothing was guessed."""
        return self.accepted_tokens / self.drafted_tokens if self.drafted_tokens else None


@dataclass(frozen=True, slots=True)
class Group:
    """The figures of requests that have `values` in common, in the order of the fields asked for."""

    values: tuple[str | int | float | None, ...]
    figures: Figures
