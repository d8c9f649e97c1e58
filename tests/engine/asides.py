"""Chunks of prompts in processes of their own, as tests have them computed."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx

from engine import EngineSettings
from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel, load_model
from engine.pacing.ways import Way
from engine.runner import Runner
from engine.steps.parts import Filling, Part
from tests.engine.parity import prompt


def loaded(folder: Path, **settings: object) -> LoadedModel:
    return load_model(folder, EngineSettings(**settings), lambda done, total: None)  # pyright: ignore[reportArgumentType]


def filling(model: LoadedModel, table: PageTable, ids: list[int], rows: int = 1) -> Filling:
    model.memory.grow(table, table.length + len(ids))
    return Filling(Part(table, len(ids), rows), tuple(ids), Way.ASIDE)


def through(runner: Runner, chunk: Filling) -> mx.array:
    """The logits of a chunk that nothing goes on beside."""
    while (logits := runner.advance_aside(chunk, 1.0)) is None:
        pass
    return logits


def stepped(model: LoadedModel) -> Runner:
    """A runner that has decoded."""
    runner, table = Runner(model), PageTable()
    runner.prefill(table, prompt()[:10])
    mx.eval(runner.decode([table], mx.array([5], dtype=mx.uint32)))
    model.memory.free(table)
    return runner
