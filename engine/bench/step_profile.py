"""What a profile tells of a decode step: its parts, each timed alone, beside the step measured whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepPart:
    """The calls of a step that compute the same thing at the same shapes, one for each layer or one in all.

    Attributes:
        name: "embed", "project", "attend", "add", "gated", "logits" or "pick".
        form: widths of what goes in and what comes out, such as "256→768"; of attention its heads.
        calls: in a step.
        launches: of all its calls in a step, by name, as in Finished: our kernels, and MLX's own operations
            with "mlx." before their names.
        alone: seconds of one call alone, the median over calls and rounds, less `StepProfile.empty`.
    """

    name: str
    form: str
    calls: int
    launches: Mapping[str, int]
    alone: float

    @property
    def seconds(self) -> float:
        """Of all its calls in a step: an estimate, since together they overlap."""
        return self.calls * self.alone


@dataclass(frozen=True, slots=True)
class StepProfile:
    """A decode step of one sequence, part by part. All times are medians, in seconds.

    Each round is a step measured whole, and then one part by part: the rest of the model is read between two
    calls of the same weight, so that caches hold what they hold in a step.

    Attributes:
        model: its path, as in ModelInfo.
        tokens: that the sequence has in pages, at most.
        rounds: that were timed.
        step: from the beginning of a step to its token, with nothing else in flight.
        building: of `step`, the time in which the host builds it; None where launches run when called.
        empty: what waiting takes where there is nothing to compute; it is taken off each part.
        parts: in the order of a step.
        launches: of a step, by name. More than those of its parts is what lies between them.
    """

    model: str
    tokens: int
    rounds: int
    step: float
    building: float | None
    empty: float
    parts: tuple[StepPart, ...]
    launches: Mapping[str, int]

    @property
    def left(self) -> float:
        """Of `step` what no part explains: the host's, or below 0 where parts overlap in a step."""
        return self.step - sum(part.seconds for part in self.parts)

    @property
    def between(self) -> Mapping[str, int]:
        """Launches of a step that belong to none of its parts."""
        rest = dict(self.launches)
        for part in self.parts:
            for name, count in part.launches.items():
                rest[name] = rest.get(name, 0) - count
        return {name: count for name, count in rest.items() if count > 0}


@dataclass(frozen=True, slots=True)
class StepProfiled:
    """ProfileStep `id` succeeded."""

    id: str
    profile: StepProfile
