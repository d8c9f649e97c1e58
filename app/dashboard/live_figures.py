"""What the live cards show of one model, folded from engine events and from nothing else; without Qt."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine import Event, Finished, KernelsChosen, ModelInfo, ModelReady, ModelUnloaded, Stats


@dataclass(frozen=True, slots=True)
class LiveFigures:
    """One model, and what is known of it.

    Attributes:
        model: None while none is in memory.
        stats: the last that it told; None before the first.
        ttft_ms: from the arrival of the last request that has got there to its first token; None before that.
        answer_tps: tokens a second of the answer that ended last; None before that.
        bandwidth: bytes a second that the machine reads; None until it is measured.
    """

    model: ModelInfo | None = None
    stats: Stats | None = None
    ttft_ms: float | None = None
    answer_tps: float | None = None
    bandwidth: float | None = None


def fold(figures: LiveFigures, event: Event) -> LiveFigures:
    """The figures after one more event of their model."""
    match event:
        case ModelReady():
            return LiveFigures(event.model, bandwidth=figures.bandwidth)
        case KernelsChosen():
            return replace(figures, model=event.model)
        case ModelUnloaded():
            return LiveFigures(bandwidth=figures.bandwidth)
        case Stats():
            began = [request for request in event.requests if request.ttft_ms > 0]
            ttft = began[-1].ttft_ms if began else figures.ttft_ms
            return replace(figures, stats=event, ttft_ms=ttft)
        case Finished():
            timing = event.timing
            return replace(
                figures,
                ttft_ms=timing.ttft_ms or figures.ttft_ms,
                answer_tps=timing.decode_tps or figures.answer_tps,
            )
        case _:
            return figures


def step_bytes(figures: LiveFigures) -> float | None:
    """Bytes that a decode step of the running answers must read: the weights, and each answer's KV once."""
    model, stats = figures.model, figures.stats
    if model is None or stats is None or not model.step_weight_bytes:
        return None
    return model.step_weight_bytes + stats.context_tokens * model.page_bytes / model.page_size


def most_tps(figures: LiveFigures) -> float | None:
    """The roofline: tokens a second at which decode would read memory as fast as this machine does.

    bandwidth x running answers / bytes of a step, as a step yields a token for each. None until it is known.
    """
    needed, stats = step_bytes(figures), figures.stats
    if needed is None or stats is None or not figures.bandwidth or not stats.running:
        return None
    return figures.bandwidth * stats.running / needed


def bandwidth_share(figures: LiveFigures) -> float | None:
    """Decode as a share of the roofline; guesses that were right, and caches, may make it more than 1."""
    most, stats = most_tps(figures), figures.stats
    return None if not most or stats is None or not stats.decode_tps else stats.decode_tps / most


def accepted_share(figures: LiveFigures) -> float | None:
    """Of the tokens guessed ahead since the model was loaded, those that were right; None without any."""
    if figures.stats is None or not figures.stats.cache.drafted_tokens:
        return None
    return figures.stats.cache.accepted_tokens / figures.stats.cache.drafted_tokens
