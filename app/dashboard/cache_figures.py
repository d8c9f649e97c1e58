"""What the cache has done and holds, in words, from engine events and from nothing else; without Qt."""

from __future__ import annotations

from dataclasses import dataclass

from app import amounts
from app.dashboard.axis import number_words
from engine import RUNNING, ModelInfo, PageMap, Stats

NONE = "–"


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure with its name, and what it means on hover."""

    name: str
    value: str
    about: str


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Pages: in use by running answers, kept for the next ones, and free."""

    used: int
    cached: int
    free: int

    @property
    def total(self) -> int:
        """All pages."""
        return self.used + self.cached + self.free


def occupancy(stats: Stats | None, model: ModelInfo | None, pages: PageMap | None = None) -> Occupancy:
    """Of the pages that the model may have; all are free before anything is known.

    As `pages` say where they are told: what stands beside a map of them is of the same moment.
    """
    if pages is not None:
        used = sum(bool(state & RUNNING) for state in pages.states)
        held = len(pages.states) - pages.states.count(0)
        return Occupancy(used, held - used, pages.total_pages - held)
    if stats is None:
        return Occupancy(0, 0, model.total_pages if model else 0)
    free = max(0, stats.total_pages - stats.pages_used - stats.cached_pages)
    return Occupancy(stats.pages_used, stats.cached_pages, free)


def occupancy_words(pages: Occupancy, page_bytes: int) -> str:
    """Such as "12 of 512 pages in use, 40 kept for later, 460 free (30 MB)"."""
    if not pages.total:
        return "No model is in memory"
    return (
        f"{pages.used:,} of {pages.total:,} pages in use, {pages.cached:,} kept for later, "
        f"{pages.free:,} free ({amounts.size(pages.free * page_bytes)})"
    )


def facts(stats: Stats | None) -> list[Fact]:
    """What the cache has done since the model was loaded."""
    if stats is None:
        return [Fact(name, NONE, about) for name, about in _ABOUT.items()]
    cache = stats.cache
    saved = cache.cached_tokens + cache.restored_tokens
    read = saved + cache.computed_tokens
    cap = f"{amounts.size(cache.ssd_bytes)} of {amounts.size(cache.ssd_cap_bytes)}"
    values = (
        f"{number_words(amounts.percent(saved, read))} %" if read else NONE,
        f"{saved:,}",
        _saved_words(cache.saved_seconds),
        amounts.counted(cache.evicted_pages, "page"),
        amounts.counted(cache.spilled_pages, "page"),
        amounts.counted(cache.restored_pages, "page"),
        cap if cache.ssd_cap_bytes else "off",
        amounts.size(cache.spilled_bytes_today) if cache.ssd_cap_bytes else "off",
    )
    return [Fact(name, value, about) for (name, about), value in zip(_ABOUT.items(), values, strict=True)]


_ABOUT = {
    "Hit rate": "Of the prompt tokens since the model was loaded, those that need not be read again",
    "Tokens saved": "Prompt tokens found in memory or on SSD since the model was loaded",
    "Time saved": "An estimate: the time that reading the saved tokens would have taken, prompt by prompt",
    "Evicted": "Pages that left memory to make room",
    "Written to SSD": "Pages that were copied to the disk, so that they need not be computed again",
    "Read from SSD": "Pages that came back from the disk instead of being computed again",
    "SSD cache": "What the cache takes on the disk, of all models, and the most that it may take",
    "Written today": "Bytes written to the disk since midnight UTC, by every run of the app",
}


def _saved_words(seconds: float) -> str:
    if seconds <= 0:
        return NONE
    if seconds < 0.1:
        return "less than 0.1 s"
    return f"about {number_words(seconds)} s" if seconds < 60 else f"about {amounts.duration(seconds)}"
