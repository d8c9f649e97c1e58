"""A prompt's chunk that goes through the model some layers at a time, beside answers of others."""

from __future__ import annotations

import random
from pathlib import Path

import mlx.core as mx
import pytest

from engine.kv.pager import PageTable
from engine.loading.model import LoadedModel, load_model
from engine.runner import Filling, Part, Runner
from engine.settings import EngineSettings
from tests.engine.parity import assert_close, our_logits, prompt
from tests.fakes.random_model import write_random_model

LAYERS = 3
TOKENS = 24


@pytest.fixture(params=["kernels", "reference"])
def model(request: pytest.FixtureRequest, executor_name: str, tmp_path: Path) -> LoadedModel:
    executor = executor_name if request.param == "kernels" else "reference"
    folder = write_random_model(
        tmp_path / "model",
        head_dim=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=LAYERS,
        sliding_window=31,
    )
    return load_model(folder, EngineSettings(executor=executor), lambda done, total: None)


@pytest.mark.parametrize("tokens", [pytest.param(5, id="a few"), pytest.param(TOKENS, id="many")])
def test_layer_by_layer_beside_steps_of_others_gives_the_same_as_at_once(
    model: LoadedModel, tokens: int
) -> None:
    """Others decode between its slices, the arena grows meanwhile, and all get the logits they get alone."""
    rng, ids = random.Random(tokens), prompt()
    runner, other, table = Runner(model), PageTable(), PageTable()
    alone = our_logits(model, ids[: 20 + tokens], 20 + tokens)[-1]
    runner.prefill(table, ids[:20])
    runner.prefill(other, ids[:10])
    model.memory.grow(table, 20 + tokens)
    filling, logits = Filling(Part(table, tokens), tuple(ids[20 : 20 + tokens])), None
    steps: list[mx.array] = []
    while logits is None:
        assert table.length == 20
        logits = runner.advance(filling, rng.randint(1, 2))
        if len(steps) < 10:
            steps.append(runner.decode([other], mx.array([ids[10 + len(steps)]], dtype=mx.uint32)))
            mx.eval(steps[-1], runner.results)
        model.memory.prepare(other, 64 * len(steps) * model.pager.page_size)
    assert table.length == 20 + tokens
    assert_close(logits[0], alone)
    assert_close(mx.concatenate(steps)[-1:], our_logits(model, ids[: 10 + len(steps)], 10 + len(steps))[-1:])


def test_parts_of_different_lengths_are_no_step(model: LoadedModel) -> None:
    tables = [PageTable(), PageTable()]
    for table in tables:
        model.memory.grow(table, 2)
    with pytest.raises(ValueError, match=r"parts of \[1, 2\] tokens"):
        Runner(model).step([Part(tables[0], 1), Part(tables[1], 2)], mx.array([1, 2, 3], dtype=mx.uint32))
