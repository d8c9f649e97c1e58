"""What a replay comes to: pages, what the cache did, and memory, as the engine's last figures have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from app.amounts import counted, size
from app.cli.replay_fields import EXPECTED
from app.cli.replay_result import Result
from engine import (
    CacheCounts,
    ChatMemory,
    ChatsCached,
    Event,
    ModelInfo,
    Stats,
)


class Tally:
    """Gathers figures from events.

    Attributes:
        stats: the newest figures; None where the engine told none.
        chats: where chats' pages lie.
        most_pages, most_shared, most_running, most_queued: the highest figures seen, of ten a second.
    """

    def __init__(self) -> None:
        self.stats: Stats | None = None
        self.chats: Mapping[str, ChatMemory] = {}
        self.most_pages = self.most_shared = self.most_running = self.most_queued = 0

    def take(self, event: Event) -> None:
        """Take an event in; most say nothing here."""
        match event:
            case Stats():
                self.stats = event
                self.most_pages = max(self.most_pages, event.pages_used)
                self.most_shared = max(self.most_shared, event.shared_pages)
                self.most_running = max(self.most_running, event.running)
                self.most_queued = max(self.most_queued, event.queued)
            case ChatsCached():
                self.chats = event.chats
            case _:
                pass


@dataclass(frozen=True, slots=True)
class Totals:
    """The last line of a replay, once everything has ended.

    Attributes:
        left_out: steps that never began, after Ctrl-C.
    """

    model: ModelInfo
    tally: Tally
    states: Mapping[str, int]
    unexpected: tuple[Result, ...]
    seconds: float
    left_out: int

    @classmethod
    def of(cls, results: Sequence[Result], tally: Tally, model: ModelInfo, left_out: int) -> Totals:
        """The totals of `results`."""
        states = Counter(result.state for result in results)
        unexpected = tuple(result for result in results if not result.as_expected)
        seconds = max((result.ended for result in results), default=0.0)
        return cls(model, tally, states, unexpected, seconds, left_out)

    @property
    def leaked_pages(self) -> int:
        """Pages that belong to requests although none is left."""
        return self.tally.stats.pages_used if self.tally.stats else 0

    def as_json(self) -> dict[str, Any]:
        """The object of the last line; what the engine said nothing of is null."""
        stats, tally = self.tally.stats, self.tally
        return {
            "totals": {
                "requests": sum(self.states.values()),
                **{state: self.states.get(state, 0) for state in EXPECTED},
                "unexpected": [result.end.id for result in self.unexpected],
                "left_out": self.left_out,
                "seconds": self.seconds,
                "page_size": self.model.page_size,
                "page_bytes": self.model.page_bytes,
                "pages_total": stats.total_pages if stats else self.model.total_pages,
                "pages_in_use": stats.pages_used + stats.cached_pages if stats else 0,
                "pages_cached": stats.cached_pages if stats else 0,
                "pages_leaked": self.leaked_pages,
                "most_pages_held": tally.most_pages,
                "most_pages_shared": tally.most_shared,
                "most_running": tally.most_running,
                "most_queued": tally.most_queued,
                "cache": asdict(stats.cache) if stats else None,
                "chats": {chat: asdict(memory) for chat, memory in tally.chats.items()},
                "peak_memory_bytes": stats.peak_memory_bytes if stats else None,
            }
        }

    def lines(self) -> Iterator[str]:
        """The same in words."""
        ends = ", ".join(
            f"{count} {_ended(state, count)}" for state in EXPECTED if (count := self.states.get(state, 0))
        )
        left_out = f"; {self.left_out} never began" if self.left_out else ""
        requests = counted(sum(self.states.values()), "request")
        yield f"{requests} in {self.seconds:.2f} s: {ends or 'none ended'}{left_out}"
        stats = self.tally.stats
        if stats is None:
            yield "the engine ended before it said anything of its pages"
            return
        each = f"{counted(self.model.page_size, 'token')} and {size(self.model.page_bytes)} each"
        yield (
            f"pages at the end: {stats.cached_pages:,} cached, {self.leaked_pages:,} leaked, of "
            f"{stats.total_pages:,} ({each}); "
            f"requests were seen to hold {self.tally.most_pages:,} at most, to share "
            f"{self.tally.most_shared:,}, {self.tally.most_running:,} running at once"
        )
        yield from _cache_lines(stats.cache)
        yield f"peak memory: {size(stats.peak_memory_bytes)}"


def _cache_lines(cache: CacheCounts) -> Iterator[str]:
    yield (
        f"prompt tokens: {cache.computed_tokens:,} computed, {cache.cached_tokens:,} cached, "
        f"{cache.restored_tokens:,} restored from SSD"
    )
    yield (
        f"pages: {cache.evicted_pages:,} evicted, {cache.spilled_pages:,} spilled to SSD, "
        f"{cache.restored_pages:,} restored, {cache.copied_pages:,} copied on write; "
        f"{counted(cache.preemptions, 'preemption')}"
    )
    if cache.drafted_tokens:
        yield f"drafted tokens: {cache.accepted_tokens:,} of {cache.drafted_tokens:,} accepted"
    if cache.ssd_problem:
        yield f"nothing is written to SSD at present: {cache.ssd_problem}"
    if cache.ssd_bytes or cache.spilled_bytes_today or cache.quarantined_files:
        yield (
            f"SSD: {size(cache.ssd_bytes)} kept, {size(cache.spilled_bytes_today)} written today, "
            f"{counted(cache.quarantined_files, 'file')} refused"
        )


def _ended(state: str, count: int) -> str:
    """How `count` requests of this state ended, behind their number."""
    if state == "length":
        return "at its length" if count == 1 else "at their length"
    return "stopped" if state == "stop" else state
