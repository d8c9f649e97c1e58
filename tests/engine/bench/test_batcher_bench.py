"""The runner that computes nothing leaves pages as they were, and every step of it is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import EngineSettings
from engine.bench.batcher_bench import step_costs
from engine.loading.model import load_model
from tests.fakes.random_model import write_random_model


@pytest.mark.parametrize("batch", [1, 5, 32])
def test_all_pages_are_given_back(tmp_path: Path, batch: int) -> None:
    folder = write_random_model(tmp_path / "model")
    model = load_model(folder, EngineSettings(cache=tmp_path / "kernels"), lambda done, total: None)
    costs = step_costs(model, batch, 20)
    assert 0 < costs.scheduling < 1
    assert 0 < costs.accepting < 1
    assert model.pager.pages_used == 0
    model.memory.check([])
