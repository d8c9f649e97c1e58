"""What the design promises, as data: each number for the model and machine it was set for, and no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from app.cli.rows import Target

Quantity = Literal[
    "decode",
    "first token",
    "decode ratio",
    "prefill ratio",
    "batch ratio",
    "cached ratio",
    "host time",
    "launches",
    "own share",
    "turn ratio",
    "recomputed",
    "restore share",
    "choice",
    "scheduling",
    "gap ratio",
    "rate beside",
    "copying ratio",
    "plain ratio",
    "predicted",
]
Targets = Mapping[tuple[Quantity, int], Target]
"""By quantity and size: tokens of context or prompt, sequences of a batch, percent; 0 without a size."""
THE_GUIDE = "guide"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured, and on what.

    Attributes:
        model: "guide" for the built-in model, a shape's name, or "" for any other.
        quant: "none", or how the shape's weights are stored, such as "q4" or "q4_k".
        device: "Metal", "CUDA" or "CPU".
        device_name: the chip, as it calls itself.
    """

    model: str
    quant: str
    device: str
    device_name: str


@dataclass(frozen=True, slots=True)
class _Promise:
    """Targets of one subject; `chip` is part of the device's name."""

    model: str
    quant: str
    device: str
    chip: str
    targets: Targets

    def holds_for(self, subject: Subject) -> bool:
        same = (subject.model, subject.quant, subject.device) == (self.model, self.quant, self.device)
        return same and self.chip in subject.device_name


def _at_least(value: float, quantity: Quantity, *sizes: int) -> Targets:
    return {(quantity, size): Target("at least", value) for size in sizes}


_STEP: Targets = {
    ("host time", 1): Target("at most", 0.7),
    ("launches", 1): Target("at most", 6 * 22 + 4),
    **_at_least(0.9, "own share", 1, 8),
}
"""Of a decode step of 22 layers: milliseconds of the host, launches, and the part that are our kernels."""

_PROMISES = (
    _Promise(
        THE_GUIDE,
        "none",
        "CPU",
        "",
        {
            **_at_least(150, "decode", 200),
            ("first token", 200): Target("at most", 0.15),
            **_at_least(0.95, "decode ratio", 200, 4000),
            **_at_least(0.95, "prefill ratio", 200, 4000),
        },
    ),
    _Promise(
        "tinyllama-1.1b",
        "none",
        "CUDA",
        "H200",
        {
            **_at_least(1.5, "decode ratio", 128, 2048, 8192),
            **_at_least(1.2, "decode ratio", 32768),
            **_at_least(1.5, "batch ratio", 8, 32),
            **_at_least(1.2, "prefill ratio", 5, 32, 128),
            **_at_least(1.0, "prefill ratio", 512, 2048, 8192),
            **_at_least(1.2, "cached ratio", 2048),
            **_STEP,
        },
    ),
    _Promise(
        "tinyllama-1.1b",
        "q4",
        "CUDA",
        "H200",
        {**_at_least(2.0, "decode ratio", 128, 2048, 8192), **_STEP},
    ),
)


def targets_of(subject: Subject) -> Targets:
    """The targets of `subject`; none where nothing was promised."""
    return next((promise.targets for promise in _PROMISES if promise.holds_for(subject)), {})


_CACHE: Targets = {
    ("recomputed", 0): Target("at most", 0),
    ("restore share", 0): Target("at least", 0.7),
    ("choice", 0): Target("at most", 1.2),
    ("scheduling", 32): Target("at most", 100),
    ("gap ratio", 50): Target("at most", 2),
    ("gap ratio", 99): Target("at most", 2),
    ("rate beside", 0): Target("at least", 0.7),
    ("copying ratio", 0): Target("at least", 1.5),
    ("plain ratio", 0): Target("at least", 0.97),
    ("predicted", 0): Target("at least", 0.8),
}
"""Of KV memory, the scheduler and guessing ahead, for every model on every machine."""

_TURNS: Mapping[str, Targets] = {
    "CPU": _at_least(20, "turn ratio", 8192),
    "CUDA": _at_least(10, "turn ratio", 8192),
}
"""Of a chat of 8,192 tokens that goes on, by device: times that the first token comes sooner than cold."""


def cache_targets(subject: Subject) -> Targets:
    """The targets of `mlxr bench --cache`; those of batches are the subject's own."""
    batches = {key: target for key, target in targets_of(subject).items() if key[0] == "batch ratio"}
    return {**_CACHE, **_TURNS.get(subject.device, {}), **batches}
