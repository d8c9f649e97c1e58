"""Another model is loaded beside a running answer: how the answer goes on, and how long the load takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from app.amounts import size
from app.cli.bench_model import shape_model
from app.cli.cache_speed_beside import CHAT, gaps
from app.cli.cache_speed_models import try_kernels
from app.cli.cache_speed_scene import REST_S, Scene, request
from app.cli.rows import Row, ratio_row
from app.errors import AppError
from app.measure.engine_client import EngineClient
from app.measure.pairs import interleave, prompt_tokens
from engine import Generate, SamplingParams

GROUP = "a load beside an answer"
LOADED = "smollm2-135m"
"""The shape that is loaded, of 135 million parameters."""
CONTEXT = 512
"""Tokens that it must hold."""
ALONE = 100
"""Tokens that the answer writes before the load begins, and after it ended."""


@dataclass(frozen=True, slots=True)
class _Load:
    """A load, and the answer beside it where there is one.

    Attributes:
        seconds: from the command until the model is there.
        pieces: of the answer that came meanwhile.
        gaps: seconds between the answer's tokens meanwhile, the last before and the first after included.
        alone: the same before the load and after it.
    """

    seconds: float
    pieces: int = 0
    gaps: tuple[float, ...] = ()
    alone: tuple[float, ...] = ()


def measure_loading(scene: Scene) -> Iterator[Row]:
    """Rows of the load, alone and beside the answer, and of the answer's tokens meanwhile."""
    scene.say(f"writing {LOADED} with random weights")
    with shape_model(LOADED, "none", CONTEXT) as written, EngineClient(scene.settings) as client:
        try_kernels(scene, written.model)
        client.load(scene.model)
        client.run(_chat(0, ALONE))
        client.wait_until_warm(REST_S)
        loads, others = interleave(
            scene.plan.pairs,
            lambda number: _beside(client, written.model, number),
            lambda number: _alone(client, written.model),
            lambda number: scene.say(f"a load beside an answer: pair {number} of {scene.plan.pairs}"),
        )
        weights = sum(file.stat().st_size for file in written.model.glob("*.safetensors"))
    what = f"loading {LOADED}, {size(weights)}"
    seconds, alone = [load.seconds for load in loads], [load.seconds for load in others]
    yield Row(f"{what}, alone", "s", tuple(alone), group=GROUP)
    yield Row(f"{what}, beside an answer", "s", tuple(seconds), group=GROUP)
    yield ratio_row("loading, beside to alone", seconds, alone, None, GROUP)
    pieces = tuple(float(load.pieces) for load in loads)
    yield Row("pieces of the answer meanwhile", "", pieces, group=GROUP)
    longest = [1000 * max(load.gaps) for load in loads]
    longest_alone = [1000 * max(load.alone) for load in loads]
    yield Row("longest gap between tokens, no load", "ms", tuple(longest_alone), group=GROUP)
    yield Row("longest gap between tokens, beside the load", "ms", tuple(longest), group=GROUP)
    yield ratio_row("longest gap, beside to no load", longest, longest_alone, None, GROUP)
    beside, without = [mean(load.gaps) for load in loads], [mean(load.alone) for load in loads]
    yield ratio_row("the answer's speed, beside to no load", without, beside, None, GROUP)


def _alone(client: EngineClient, model: Path) -> _Load:
    began = time.perf_counter()
    client.load(model)
    seconds = time.perf_counter() - began
    client.unload()
    return _Load(seconds)


def _beside(client: EngineClient, model: Path, number: int) -> _Load:
    chat = client.send(_chat(number))
    client.wait_for_tokens(chat, ALONE)
    began = time.perf_counter()
    client.load(model)
    ended = time.perf_counter()
    written = chat.marks[-1].tokens if chat.marks else 0
    client.wait_for_tokens(chat, written + ALONE)
    has_ended = chat.finished is not None
    client.cancel(chat)
    client.unload()
    before = [mark for mark in chat.marks if mark.at <= began]
    during = [mark for mark in chat.marks if began < mark.at < ended]
    after = [mark for mark in chat.marks if mark.at >= ended]
    alone, beside = (*gaps(before), *gaps(after)), gaps([*before[-1:], *during, *after[:1]])
    if has_ended or not (before and after and alone):
        raise AppError("the answer ended before the load did; give a --model with a longer context")
    return _Load(ended - began, len(during), beside, alone)


def _chat(number: int, count: int | None = None) -> Generate:
    """Drawn, as a greedy answer of random weights may repeat a token that has no text."""
    sampling = SamplingParams(temperature=1.0, seed=number)
    asked = request(prompt_tokens(CHAT, number, 10), chat="")
    return replace(asked, max_tokens=count, sampling=sampling, lane="window")
