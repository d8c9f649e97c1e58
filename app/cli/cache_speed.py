"""`mlxr bench --cache`: what KV memory, the scheduler and guessing ahead bring, beside the targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from app.cli.cache_speed_batches import measure_steps, measure_throughput
from app.cli.cache_speed_beside import measure_beside
from app.cli.cache_speed_draft import measure_draft
from app.cli.cache_speed_loading import measure_loading
from app.cli.cache_speed_messages import measure_messages
from app.cli.cache_speed_prediction import measure_prediction
from app.cli.cache_speed_restart import measure_restart
from app.cli.cache_speed_scene import CachePlan, Scene
from app.cli.cache_speed_speculation import measure_speculation
from app.cli.cache_speed_turns import measure_turns
from app.cli.rows import Row

Part = Callable[[Scene], Iterator[Row]]

PARTS: Mapping[str, Part] = MappingProxyType(
    {
        "turns": measure_turns,
        "restart": measure_restart,
        "steps": measure_steps,
        "batches": measure_throughput,
        "beside": measure_beside,
        "speculation": measure_speculation,
        "prediction": measure_prediction,
        "draft": measure_draft,
        "messages": measure_messages,
        "loading": measure_loading,
    }
)
"""By the name that `--only` takes."""

FEWEST = 64
"""Tokens of the shortest chat that can go on in all the ways that are measured."""
MOST_ANSWERS = 32
"""That the engine decodes as one batch; more would wait for each other."""

CACHE_PLAN = CachePlan(
    context=8192,
    long_prompt=16384,
    pairs=3,
    decoded=32,
    batches=(1, 2, 4, 8, 16, 32),
    requests=100,
    only=(),
)
"""What is measured when nothing else is asked for."""


def measures_text(plan: CachePlan) -> bool:
    """Whether a part of it needs a model that writes text."""
    return not {"speculation", "messages"}.isdisjoint(plan.only or PARTS)


def measure_cache(scene: Scene) -> list[Row]:
    """The rows of every part that the plan asks for.

    Raises AppError, RequestFailed among them, and EngineError.
    """
    chosen = scene.plan.only or tuple(PARTS)
    return [row for name, part in PARTS.items() if name in chosen for row in part(scene)]
