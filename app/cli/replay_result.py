"""What became of one request of a replay: how it ended, what it found cached, and when its text came."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from app.cli.generate import as_json
from app.cli.replay_file import Ask
from engine import CacheReport, Failed, Finished, Generate, Message, ModelInfo, Predicted, TextChunk


@dataclass(slots=True)
class Course:
    """A request while it runs.

    Attributes:
        ask: its line.
        request: what the engine was given; `history` and earlier messages are in it.
        sent: seconds from the start.
        arrivals: of each answer, when its pieces of text came, in seconds of the engine's clock.
        cancelled: a Cancel was sent.
    """

    ask: Ask
    request: Generate
    sent: float
    arrivals: defaultdict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    report: CacheReport | None = None
    predicted: Predicted | None = None
    cancelled: bool = False

    def arrived(self, chunk: TextChunk, when: float) -> bool:
        """Take a piece of text. Returns whether the line asks for a cancel now."""
        self.arrivals[chunk.sample].append(when)
        limit = self.ask.cancel_after
        return limit is not None and chunk.generated_tokens >= limit and not self.cancelled

    def ended(self, end: Finished | Failed, when: float, model: ModelInfo) -> Result:
        """How it ended, `when` seconds from the start, on `model`."""
        gaps = [later - earlier for times in self.arrivals.values() for earlier, later in pairwise(times)]
        return Result(
            ask=self.ask,
            request=self.request,
            model=model,
            end=end,
            sent=self.sent,
            ended=when,
            gaps=tuple(sorted(gaps)),
            report=self.report,
            predicted=self.predicted,
        )


@dataclass(frozen=True, slots=True)
class Result:
    """A request that has ended.

    Attributes:
        sent, ended: seconds from the start.
        gaps: seconds between pieces of text of one answer, in ascending order.
    """

    ask: Ask
    request: Generate
    model: ModelInfo
    end: Finished | Failed
    sent: float
    ended: float
    gaps: Sequence[float]
    report: CacheReport | None
    predicted: Predicted | None

    @property
    def state(self) -> str:
        """ "stop", "length", "cancelled" or "failed"."""
        return "failed" if isinstance(self.end, Failed) else self.end.reason

    @property
    def as_expected(self) -> bool:
        """Whether it ended as its line says; without a word, in any way but failed."""
        return self.state != "failed" if self.ask.expected is None else self.state == self.ask.expected

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that were in memory."""
        return self.report.cached_tokens if self.report else 0

    @property
    def restored_tokens(self) -> int:
        """Prompt tokens that came back from SSD."""
        return self.report.restored_tokens if self.report else 0

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation with the answer, of a chat that finished."""
        assert isinstance(self.end, Finished)
        return (*(self.request.messages or ()), Message("assistant", self.end.text))

    def gap(self, share: float) -> float | None:
        """The gap in milliseconds that `share` of all gaps do not exceed (nearest rank); None without any."""
        if not self.gaps:
            return None
        return 1000 * self.gaps[max(0, math.ceil(share * len(self.gaps)) - 1)]

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints: that of `mlxr generate --json` with what a replay adds."""
        clock = {"sent_s": round(self.sent, 6), "ended_s": round(self.ended, 6)}
        if isinstance(self.end, Failed):
            refusal = asdict(self.end.refusal) if self.end.refusal else None
            failure = {"error": self.end.error, "kind": self.end.kind, "refusal": refusal}
            return {"id": self.end.id, **failure, **clock}
        return {
            "id": self.end.id,
            **as_json(self.end, self.model),
            "others": [_sample_json(sample) for sample in map(asdict, self.end.others)],
            "cache": _without_id(self.report),
            "predicted": _without_id(self.predicted),
            "gaps_ms": {
                "p50": self.gap(0.5),
                "p95": self.gap(0.95),
                "p99": self.gap(0.99),
                "max": self.gap(1),
            },
            **clock,
        }


def _sample_json(sample: dict[str, Any]) -> dict[str, Any]:
    del sample["limit"]
    return {"finish_reason": sample.pop("reason"), **sample}


def _without_id(event: CacheReport | Predicted | None) -> dict[str, Any] | None:
    return None if event is None else {name: value for name, value in asdict(event).items() if name != "id"}
