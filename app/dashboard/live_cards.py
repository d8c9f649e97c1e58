"""The live cards: what each shows in words, and the lines of its chart; without Qt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app import amounts
from app.dashboard.axis import number_words
from app.dashboard.live_figures import (
    LiveFigures,
    accepted_share,
    bandwidth_share,
    most_tps,
    step_bytes,
)
from app.dashboard.series import Values

NONE = "–"


@dataclass(frozen=True, slots=True)
class Face:
    """What a card says: a value with its unit, a line below it, and what it means on hover."""

    value: str
    unit: str = ""
    detail: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """A card.

    Attributes:
        lines: names of its chart's lines.
        unit: of the values of the lines; "bytes" are written as sizes.
        read: a value for each line.
        face: what it says.
    """

    key: str
    title: str
    unit: str
    lines: tuple[str, ...]
    read: Callable[[LiveFigures], Values]
    face: Callable[[LiveFigures], Face]


def value_words(value: float | None, unit: str) -> str:
    """A value of a line with its unit."""
    if value is None:
        return NONE
    return amounts.size(value) if unit == "bytes" else f"{number_words(value)} {unit}".rstrip()


def time_words(milliseconds: float) -> tuple[str, str]:
    """A time and its unit: milliseconds up to a second."""
    if milliseconds < 1000:
        return number_words(milliseconds), "ms"
    return number_words(milliseconds / 1000), "s"


def _decode(figures: LiveFigures) -> Face:
    about = "Tokens written a second in the last second, by all running answers together"
    stats = figures.stats
    last = f"last answer {_tps(figures.answer_tps)}" if figures.answer_tps else ""
    if stats is None or not stats.decode_tps:
        return Face(NONE, "", last, about)
    detail = f"{stats.running} answers together" if stats.running > 1 else last
    return Face(number_words(stats.decode_tps), "tok/s", detail, about)


def _prefill(figures: LiveFigures) -> Face:
    about = "Tokens read a second, in the running prompt or the last one"
    stats = figures.stats
    if stats is None or not stats.prefill_tps:
        return Face(NONE, about=about)
    reading = [request for request in stats.requests if request.done_tokens < request.prompt_tokens]
    done, total = sum(r.done_tokens for r in reading), sum(r.prompt_tokens for r in reading)
    detail = f"{done:,} of {total:,} tokens read" if reading else "last prompt"
    return Face(number_words(stats.prefill_tps), "tok/s", detail, about)


def _first_token(figures: LiveFigures) -> Face:
    about = "From sending a message to the first token of its answer, in the last answer that began"
    if figures.ttft_ms is None:
        return Face(NONE, about=about)
    value, unit = time_words(figures.ttft_ms)
    return Face(value, unit, "last answer", about)


def _gaps(figures: LiveFigures) -> Face:
    about = (
        "Time from one token of an answer to its next: half of the last {count:,} came within the first "
        "number, 95 and 99 in a hundred within the others. Tokens that come together count as one"
    )
    gaps = figures.stats.gaps if figures.stats else None
    if gaps is None or not gaps.count:
        return Face(NONE, about=about.format(count=512))
    detail = f"p95 {number_words(gaps.p95_ms)} · p99 {number_words(gaps.p99_ms)} ms"
    return Face(number_words(gaps.p50_ms), "ms", detail, about.format(count=gaps.count))


def _batch(figures: LiveFigures) -> Face:
    about = "Answers that are computed in the same steps, and those that wait for their turn"
    stats = figures.stats
    if stats is None:
        return Face(NONE, about=about)
    detail = f"{stats.queued} waiting" if stats.queued else "none waiting"
    return Face(str(stats.running), "running", detail, about)


def _guesses(figures: LiveFigures) -> Face:
    about = "Tokens are guessed where text repeats, and several checked at once: those that were right"
    share, stats = accepted_share(figures), figures.stats
    if share is None or stats is None:
        return Face(NONE, "", "nothing guessed yet", about)
    detail = f"{stats.cache.accepted_tokens:,} of {stats.cache.drafted_tokens:,} tokens"
    return Face(number_words(100 * share), "%", detail, about)


def _memory(figures: LiveFigures) -> Face:
    model, stats = figures.model, figures.stats
    if model is None or stats is None:
        return Face(NONE, about="Memory of the whole app")
    memory = stats.memory
    total = memory.process_bytes or stats.memory_bytes
    draft = [("of the model that drafts for it", memory.draft_bytes)] if memory.draft_bytes else []
    parts = (
        ("weights", model.weight_bytes),
        ("KV pages that are built", memory.arena_bytes),
        *draft,
        ("kept by MLX for reuse", memory.allocator_bytes),
        ("in arrays, of all models", stats.memory_bytes),
    )
    about = "Memory of the whole app. Of this model:\n" + "\n".join(
        f"{amounts.size(size)} {words}" for words, size in parts
    )
    short = "the system is short of memory" if memory.is_short else ""
    detail = short or f"weights {amounts.size(model.weight_bytes)} · KV {amounts.size(memory.arena_bytes)}"
    value, _, unit = amounts.size(total).partition(" ")
    return Face(value, unit, detail, about)


def _bandwidth(figures: LiveFigures) -> Face:
    formula = (
        "Decode as a share of what this machine's memory allows.\n"
        "Most tokens a second = bandwidth × running answers ÷ (weights + KV of their tokens)"
    )
    if not figures.bandwidth:
        return Face(NONE, "", "measured when nothing runs", formula)
    reads = f"memory reads {amounts.size(figures.bandwidth)}/s"
    share, most, needed = bandwidth_share(figures), most_tps(figures), step_bytes(figures)
    if share is None or most is None or needed is None or figures.stats is None:
        return Face(NONE, "", reads, formula)
    worked = (
        f"\n{amounts.size(figures.bandwidth)}/s × {figures.stats.running} ÷ {amounts.size(needed)} "
        f"= {_tps(most)}.\nMore than 100 % is possible: caches are faster than memory, and guesses save steps"
    )
    return Face(
        number_words(100 * share),
        "%",
        f"of {_tps(most)} at {amounts.size(figures.bandwidth)}/s",
        formula + worked,
    )


def _tps(value: float) -> str:
    return f"{number_words(value)} tok/s"


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _memory_lines(figures: LiveFigures) -> Values:
    model, stats = figures.model, figures.stats
    if model is None or stats is None:
        return (None,) * 4
    memory = stats.memory
    return (memory.process_bytes or None, model.weight_bytes, memory.arena_bytes, memory.allocator_bytes)


def _gap_lines(figures: LiveFigures) -> Values:
    gaps = figures.stats.gaps if figures.stats else None
    return (gaps.p50_ms, gaps.p95_ms, gaps.p99_ms) if gaps and gaps.count else (None,) * 3


CARDS = (
    Card("decode", "Decode", "tok/s", ("Decode",), lambda f: (f.stats and f.stats.decode_tps,), _decode),
    Card("prefill", "Prefill", "tok/s", ("Prefill",), lambda f: (f.stats and f.stats.prefill_tps,), _prefill),
    Card("ttft", "First token", "ms", ("First token",), lambda f: (f.ttft_ms,), _first_token),
    Card("gaps", "Between tokens", "ms", ("p50", "p95", "p99"), _gap_lines, _gaps),
    Card(
        "batch",
        "Batch",
        "",
        ("Running", "Waiting"),
        lambda f: (f.stats.running, f.stats.queued) if f.stats else (None, None),
        _batch,
    ),
    Card("guesses", "Guesses right", "%", ("Right",), lambda f: (_percent(accepted_share(f)),), _guesses),
    Card("memory", "Memory", "bytes", ("App", "Weights", "KV pages", "Kept by MLX"), _memory_lines, _memory),
    Card(
        "bandwidth",
        "Of bandwidth",
        "%",
        ("Of bandwidth",),
        lambda f: (_percent(bandwidth_share(f)),),
        _bandwidth,
    ),
)
