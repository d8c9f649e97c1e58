"""What the models page says of models, hits and downloads, in words."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from app import text
from app.amounts import count, duration, size, tokens
from app.hub.choice import Choice
from app.hub.curated import Curated
from app.hub.fit import fit_by_size
from app.hub.search import Hit
from app.library.records import SOURCES, Model
from app.models.downloads_view_model import DownloadState
from app.models.hit_list_model import Listed
from app.models.library_view_model import Shelf
from engine import Fit

STATES = {"gone": "Its files are gone", "damaged": "Its files are not whole"}
FORMATS = {"gguf": "GGUF", "mlx": "MLX", "safetensors": "Safetensors"}
DOT = " · "


def joined(*parts: str) -> str:
    """The parts that say something, with dots between them."""
    return DOT.join(part for part in parts if part)


def model_line(model: Model) -> str:
    """What a model is, in one line under its name."""
    if model.state != "here":
        return joined(STATES[model.state], str(model.path))
    facts = model.facts
    return joined(
        facts.family,
        f"{count(facts.parameters)} weights" if facts.parameters else "",
        (facts.quantization or "").partition(",")[0],
        size(facts.size),
        f"{tokens(facts.context_length)} context" if facts.context_length else "",
        text.sentence(SOURCES[model.source]),
    )


def shelf_words(shelf: Shelf) -> str:
    """How many models there are, and what they take; files that some share are counted for each."""
    here = [model for model in shelf.models if model.state == "here"]
    gone, odd = len(shelf.models) - len(here), len(shelf.left_out)
    told = f"{len(here)} model{'s' if len(here) != 1 else ''}, {size(sum(one.facts.size for one in here))}"
    left_out = f"{odd} more {'is' if odd == 1 else 'are'} not whole or not readable" if odd else ""
    return joined(told, f"{gone} gone or damaged" if gone else "", left_out) if shelf.models else ""


def fit_words(fit: Fit) -> str:
    """How a model goes into this machine's memory, in one or two words."""
    return {"fits": "Fits", "tight": "Tight", "does not fit": "Does not fit"}[fit.verdict]


def fit_reason(fit: Fit) -> str:
    """The numbers behind it."""
    weights = f"{size(fit.weight_bytes)} of weights, {size(fit.memory_bytes)} of memory for models"
    if fit.verdict == "does not fit":
        return weights
    return f"{weights}; up to {fit.most_context:,} tokens in one chat"


def ago(moment: datetime | None) -> str:
    """How long ago that was, in its largest unit."""
    if moment is None:
        return ""
    days = (datetime.now(UTC) - moment.astimezone(UTC)).days
    for length, unit in ((365, "year"), (30, "month"), (7, "week"), (1, "day")):
        if days >= length:
            number = days // length
            return f"{number} {unit}{'s' if number > 1 else ''} ago"
    return "today"


def used_words(seconds: float | None) -> str:
    """When a model was opened last; seconds since the epoch."""
    if seconds is None:
        return "Never opened"
    return f"Opened {time.strftime('%Y-%m-%d %H:%M', time.localtime(seconds))}"


def model_details(model: Model, fit: Fit | None) -> str:
    """Everything about a model, a line each, for its tooltip."""
    facts = model.facts
    rows = [
        model.name,
        str(model.path),
        joined(
            text.sentence(SOURCES[model.source]), "" if Path(model.origin).is_absolute() else model.origin
        ),
        f"Format: {facts.format}" if facts.format else "",
        f"Licence: {facts.licence}" if facts.licence else "",
        f"{fit_words(fit)}: {fit_reason(fit)}" if fit else "",
        f"Draft model: {model.settings.draft_model}" if model.settings.draft_model else "",
        used_words(model.last_used),
        facts.problem,
    ]
    return "\n".join(row for row in rows if row)


def download_words(state: DownloadState) -> str:
    """How a download stands: bytes, rate and time left, or why it does not go on."""
    amount = f"{size(state.done)} of {size(state.total)}" if state.total else ""
    match state.phase:
        case "queued":
            return joined("Waiting", amount)
        case "running":
            rate = f"{size(state.rate)}/s" if state.rate else ""
            left = f"{duration(state.seconds_left)} left" if state.seconds_left is not None else ""
            return joined(amount, rate, left)
        case "verifying":
            return joined("Verifying", amount)
        case "retrying":
            return joined(amount, f"Trying again: {state.words}")
        case "paused":
            return joined("Paused", amount)
        case "failed":
            return text.sentence(state.words)
        case "finished":
            return joined("Ready", size(state.total))


def listed(hit: Hit) -> Listed:
    """A hit of a search as a row: what it is and how liked, and whether it is gated."""
    line = joined(
        f"{count(hit.parameters)}" if hit.parameters else "",
        "/".join(FORMATS[one] for one in _formats(hit)),
        f"{count(hit.downloads)} downloads",
        hit.licence,
    )
    return Listed(
        hit.repo, line, label="Gated" if hit.gated else "", unsupported=text.sentence(hit.unsupported)
    )


def short_list(models: Iterable[Curated], memory: int) -> list[Listed]:
    """The list that is on show before anything is searched for; `memory` bytes are for models, 0: unknown."""
    return [
        Listed(
            one.repo,
            joined(FORMATS[one.format], f"{count(one.parameters)} weights", size(one.bytes), one.licence),
            title=one.name,
            note=one.good_for,
            label=text.sentence(fit_by_size(_choice(one), memory).verdict) if memory else "",
        )
        for one in models
    ]


def _choice(one: Curated) -> Choice:
    """What the list recommends of a repository, as far as it tells."""
    stored = "gguf" if one.format == "gguf" else "safetensors"
    return Choice(one.choice, one.choice, stored, (), one.bytes, one.bytes, None, one.parameters, (), "")


def _formats(hit: Hit) -> tuple[str, ...]:
    """MLX models are safetensors, too: that is not said twice."""
    return tuple(one for one in hit.formats if one != "safetensors" or "mlx" not in hit.formats)
