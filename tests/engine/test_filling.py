"""A prompt's chunk that goes through the model some layers at a time, beside answers of others."""

from __future__ import annotations

import random
from pathlib import Path

import mlx.core as mx
import pytest

from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel, load_model
from engine.runner import Runner
from engine.settings import EngineSettings
from engine.steps.parts import Filling, Part
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
        model.memory.prepare(64 * len(steps))
    assert table.length == 20 + tokens
    assert_close(logits[0], alone)
    assert_close(mx.concatenate(steps)[-1:], our_logits(model, ids[: 10 + len(steps)], 10 + len(steps))[-1:])


@pytest.mark.parametrize("answers", [1, 3])
@pytest.mark.parametrize("tokens", [pytest.param(5, id="a few"), pytest.param(TOKENS, id="many")])
def test_a_prompt_that_goes_with_answers_gives_all_of_them_what_they_get_alone(
    model: LoadedModel, tokens: int, answers: int
) -> None:
    """Its pieces are rows of the answers' products, first without logits and then with those of its end."""
    ids = prompt()
    runner, table, others = Runner(model), PageTable(), [PageTable() for _ in range(answers)]
    for number, other in enumerate(others):
        runner.prefill(other, ids[number : 10 + number])
    for piece, rows in ((range(tokens), 0), (range(tokens, 2 * tokens), 1)):
        model.memory.grow(table, piece.stop)
        for other in others:
            model.memory.grow(other, other.length + 1)
        drawn = [ids[number + other.length] for number, other in enumerate(others)]
        parts = [*map(Part, others), Part(table, tokens, rows)]
        logits = runner.step(parts, mx.array([*drawn, *ids[piece.start : piece.stop]], dtype=mx.uint32))
        mx.eval(logits, runner.results)
        assert logits.shape[0] == answers + rows
        for number, other in enumerate(others):
            alone = our_logits(model, ids[number : number + other.length], other.length)[-1]
            assert_close(logits[number], alone)
    assert table.length == 2 * tokens
    assert_close(logits[-1], our_logits(model, ids[: 2 * tokens], 2 * tokens)[-1])
    behind = runner.decode(others, mx.array([7] * answers, dtype=mx.uint32))
    for number, other in enumerate(others):
        history = [*ids[number : number + other.length - 1], 7]
        assert_close(behind[number], our_logits(model, history, len(history))[-1])


def test_parts_of_different_lengths_are_no_step(model: LoadedModel) -> None:
    tables = [PageTable(), PageTable()]
    for table in tables:
        model.memory.grow(table, 2)
    with pytest.raises(ValueError, match=r"parts of \[2, 1\] tokens"):
        Runner(model).step([Part(tables[0], 2), Part(tables[1], 1)], mx.array([1, 2, 3], dtype=mx.uint32))
