"""The words and bars of `mlxr top`: what a line of the running app says of a model, as labelled rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app import amounts
from app.amounts import count, counted, size, tokens
from app.cli.terminal import one_line
from app.model_location import model_title

BARS = "▁▂▃▄▅▆▇█"
TREND = 40
"""Figures that a trend shows."""
NOTHING_ASKED = "nothing was asked yet"


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages of the KV cache: held by requests, kept for the next one, and how many there may be."""

    used: int
    cached: int
    total: int

    def bar(self, width: int) -> str:
        """A bar of so many places: used ones solid, cached ones grey, free ones pale."""
        used = _share(self.used, self.total, width)
        cached = _share(self.used + self.cached, self.total, width) - used
        return "█" * used + "▒" * cached + "░" * (width - used - cached)


def title(line: dict[str, Any]) -> str:
    """Which model it is."""
    return one_line(model_title(Path(line["model"]["path"])))


def about(line: dict[str, Any]) -> str:
    """What runs it, and what it is."""
    model = line["model"]
    parts = (
        f"{model['executor']} on {model['device']}",
        model["dtype"],
        f"{count(model['parameters'])} weights",
        size(model["weight_bytes"]),
        f"context {tokens(model['context_length'])}",
    )
    return one_line(" · ".join(parts))


def rows(line: dict[str, Any]) -> list[tuple[str, str]]:
    """Label and text of each figure, without the decode trend and the pages' bar; none before any Stats."""
    stats = line["stats"]
    if stats is None:
        return []
    return [
        ("prefill", f"{_rate(stats['prefill_tps'])} tok/s"),
        ("requests", f"{len(stats['requests'])} running, {stats['queued']} waiting"),
        ("first token", _first_tokens(stats)),
        ("each token", _between(stats["gaps"])),
        ("context", _context(stats, line["model"]["context_length"])),
        ("reused", _reused(stats["cache"])),
        ("guesses", _guesses(stats["cache"])),
        ("memory", _memory(stats, line["model"]["weight_bytes"])),
        ("disk cache", _disk(stats["cache"])),
    ]


def decode(stats: dict[str, Any]) -> str:
    """The rate at which answers are written now."""
    return f"{_rate(stats['decode_tps'])} tok/s"


def pages(stats: dict[str, Any]) -> Pages:
    """The pages of the model's arena."""
    return Pages(stats["pages_used"], stats["cached_pages"], stats["total_pages"])


def pages_words(found: Pages) -> str:
    """The same in numbers."""
    free = max(0, found.total - found.used - found.cached)
    return f"{found.used:,} in use, {found.cached:,} cached, {free:,} free"


def trend(values: Sequence[float]) -> str:
    """The last values as bars, the highest of them as high as a line; blanks for zero."""
    shown = values[-TREND:]
    most = max(shown, default=0.0)
    if most <= 0:
        return ""
    return "".join(BARS[_share(value, most, len(BARS) - 1)] if value > 0 else " " for value in shown)


def left(line: dict[str, Any]) -> str:
    """Why a model is no longer there, in words."""
    why = {"idle": "rests: nobody has used it for a while", "room": "made room for another model"}
    name = one_line(model_title(Path(line["model"])))
    return f"{name} {why.get(line['unloaded'], 'was unloaded')}"


def _share(part: float, whole: float, places: int) -> int:
    """How many of so many places a part of a whole takes; anything at all takes one."""
    if part <= 0 or whole <= 0:
        return 0
    return min(places, max(1, round(places * part / whole)))


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def _context(stats: dict[str, Any], most: int) -> str:
    """What answers have in pages; of the `most` that each may have, where there is one answer."""
    held, answers = f"{stats['context_tokens']:,}", stats["running"]
    return f"{held} of {counted(most, 'token')}" if answers <= 1 else f"{held} tokens in {answers:,} answers"


def _first_tokens(stats: dict[str, Any]) -> str:
    """After how long requests that run had their first token."""
    times = [request["ttft_ms"] for request in stats["requests"]]
    known = [f"{ms / 1000:.2f} s" for ms in times if ms]
    waiting = len(times) - len(known)
    parts = [f"after {', '.join(known)}"] if known else []
    parts += [f"{waiting} reading the prompt"] if waiting else []
    return "; ".join(parts) or "–"


def _between(gaps: dict[str, Any]) -> str:
    if not gaps["count"]:
        return "–"
    return (
        f"{gaps['p50_ms']:.1f} ms (median), 95% within {gaps['p95_ms']:.1f} ms, "
        f"99% within {gaps['p99_ms']:.1f} ms"
    )


def _reused(cache: dict[str, Any]) -> str:
    found = cache["cached_tokens"] + cache["restored_tokens"]
    asked = found + cache["computed_tokens"]
    return f"{amounts.percent(found, asked):.0f}% of {asked:,} prompt tokens" if asked else "–"


def _guesses(cache: dict[str, Any]) -> str:
    drafted = cache["drafted_tokens"]
    return f"{100 * cache['accepted_tokens'] / drafted:.0f}% of {drafted:,} right" if drafted else "–"


def _memory(stats: dict[str, Any], weights: int) -> str:
    use = stats["memory"]
    parts = [f"weights {size(weights)}", f"pages {size(use['arena_bytes'])}"]
    parts += [f"draft model {size(use['draft_bytes'])}"] if use["draft_bytes"] else []
    parts += [f"process {size(use['process_bytes'])}"] if use["process_bytes"] else []
    parts += ["the machine is short of memory"] if use["is_short"] else []
    return ", ".join(parts)


def _disk(cache: dict[str, Any]) -> str:
    if cache["ssd_problem"]:
        return one_line(cache["ssd_problem"])
    if not cache["ssd_cap_bytes"]:
        return "off"
    today = size(cache["spilled_bytes_today"])
    return f"{size(cache['ssd_bytes'])} of {size(cache['ssd_cap_bytes'])}, {today} written today"
