"""Steps in the functional set: which of them are counted, and what says that their pages are written."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from engine.cpu.crew import Crew
from engine.kernels.launch_names import launches_of
from engine.kv.page_table import PageTable
from engine.layers.ops import PICK_OPERATIONS, BuiltinOps
from engine.loading.model import LoadedModel, load_model
from engine.settings import EngineSettings
from engine.steps.functional_steps import FunctionalSteps
from engine.steps.graph import operations
from engine.steps.parts import Part
from engine.steps.staging import Staging
from tests.engine.parity import assert_close
from tests.fakes.random_model import VOCAB, write_random_model


@pytest.fixture
def model(tmp_path: Path) -> LoadedModel:
    folder = write_random_model(tmp_path / "model")
    return load_model(folder, EngineSettings(executor="reference"), lambda done, total: None)


@pytest.fixture
def steps(model: LoadedModel) -> FunctionalSteps:
    model.arena.work_in_place(None)
    return FunctionalSteps(model, BuiltinOps(), BuiltinOps(), Crew(2), Staging())


def ids(*tokens: int) -> mx.array:
    return mx.array(tokens, dtype=mx.uint32)


def grown(model: LoadedModel, tokens: int) -> PageTable:
    table = PageTable()
    model.memory.grow(table, tokens)
    return table


def test_steps_of_prompts_are_not_counted_and_decode_steps_and_picks_are(
    model: LoadedModel, steps: FunctionalSteps
) -> None:
    table = grown(model, 4)
    logits = steps([Part(table, 3)], ids(5, 6, 7), is_decode=False)
    assert steps.launches == {}
    steps.pick(logits)
    assert steps.launches == dict.fromkeys(("host.pick",) if steps.host else PICK_OPERATIONS, 1)
    table.length = 3
    steps([Part(table)], ids(8), is_decode=True)
    assert steps.launches.total() > len(PICK_OPERATIONS) + len(model.decoder.attention)


def test_a_part_has_the_rows_that_are_wanted_and_its_table_is_left_alone(
    model: LoadedModel, steps: FunctionalSteps
) -> None:
    one, other = grown(model, 3), grown(model, 2)
    together = steps([Part(one, 3, 1), Part(other, 2, 2)], ids(5, 6, 7, 8, 9), is_decode=False)
    assert (one.length, other.length) == (0, 0)
    assert together.shape == (3, VOCAB)
    alone = [
        steps([Part(grown(model, 3), 3, 1)], ids(5, 6, 7), is_decode=False),
        steps([Part(grown(model, 2), 2, 2)], ids(8, 9), is_decode=False),
    ]
    assert_close(together, mx.concatenate(alone))


def test_without_logits_the_pools_say_that_pages_are_written(
    model: LoadedModel, steps: FunctionalSteps
) -> None:
    """Where no host computes them, which is done with them when it returns."""
    steps.host = None
    table = grown(model, 4)
    logits = steps([Part(table, 3, 0)], ids(5, 6, 7), is_decode=False)
    assert logits.shape == (0, VOCAB)
    assert [array.shape for array in steps.written] == [array.shape for array in model.arena.written()]
    mx.eval(steps.written)
    table.length = 3
    logits = steps([Part(table)], ids(8), is_decode=True)
    assert len(steps.written) == 1
    assert steps.written[0] is logits
    whole = steps([Part(grown(model, 4), 4, 1)], ids(5, 6, 7, 8), is_decode=False)
    assert_close(logits, whole)


def test_operations_of_mlx_are_counted_step_by_step(model: LoadedModel, steps: FunctionalSteps) -> None:
    """As on a GPU without kernels, where no host computes them."""
    steps.host = None
    tables = [PageTable(), PageTable()]
    for step in range(40):  # at 16 and 32 tokens the pages of the two lie in each other's way
        before = steps.launches.copy()
        for table in tables:
            model.memory.grow(table, step + 1)
        logits = steps([Part(table) for table in tables], ids(7, 8), is_decode=True)
        assert steps.launches - before == operations([logits]), step
        mx.eval(logits)
        for table in tables:
            table.length += 1
    assert launches_of("ours", steps.launches) == 0
