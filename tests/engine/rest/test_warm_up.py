"""Steps before the first request leave no trace but compiled kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import mlx.core as mx
import pytest

from engine import EngineSettings, Event, KernelsChosen
from engine.kv.memory import KVMemory
from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel, load_model
from engine.rest.warm_up import warm_batch, warm_step, warm_up
from engine.runner import Runner
from engine.serving import Serving
from engine.steps.graph import operations
from engine.steps.parts import Filling, Part
from tests.engine.parity import our_greedy, prompt
from tests.fakes.random_model import write_random_model
from tests.metal.conftest import BUILD


@pytest.fixture
def model(executor_name: str, tmp_path: Path) -> LoadedModel:
    folder = write_random_model(
        tmp_path / "model", head_dim=64, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2
    )
    settings = EngineSettings(executor=executor_name, cache=BUILD.parent)
    return load_model(folder, settings, lambda done, total: None)


def test_nothing_is_counted_and_no_page_is_kept(model: LoadedModel) -> None:
    expected = our_greedy(model, prompt()[:40], 16, 8)
    assert model.kernels is not None
    launched = model.kernels.launches.copy()
    runner = Runner(model)
    warm_up(runner, model.memory)
    warmed = set(model.kernels.launches - launched)
    assert {"page_write", "page_gather", "page_copy", "decode_attention", "matvec"} <= warmed
    assert (runner.launches.total(), runner.tokens, model.pager.pages_used) == (0, 0, 0)
    assert model.memory.counts.copied_pages == 0
    assert our_greedy(model, prompt()[:40], 16, 8) == expected


def test_a_step_at_the_end_of_long_tables_takes_one_page_and_leaves_nothing(model: LoadedModel) -> None:
    expected = our_greedy(model, prompt()[:40], 16, 8)
    assert model.kernels is not None
    launched = model.kernels.launches.copy()
    runner = Runner(model)
    runner.launches["decode_attention"] = 5
    warm_step(runner, model, tokens=2, length=1024)
    assert {"decode_attention", "attention_reduce", "matvec"} <= set(model.kernels.launches - launched)
    assert (dict(runner.launches), runner.tokens) == ({"decode_attention": 5}, 0)
    assert model.pager.pages_used == 0
    assert our_greedy(model, prompt()[:40], 16, 8) == expected


@pytest.mark.parametrize(
    "warm",
    [
        lambda runner, model: warm_up(runner, model.memory),
        lambda runner, model: warm_step(runner, model, tokens=4, length=1024),
        lambda runner, model: warm_batch(runner, model, 3),
    ],
    ids=["at load", "a draft", "a batch"],
)
def test_what_a_step_leaves_for_the_next_one_is_computed_too(
    warm: Callable[[Runner, LoadedModel], None], model: LoadedModel
) -> None:
    """That is compiled as well: an answer's second token, or the one behind a draft, would wait for it."""
    runner = Runner(model)
    warm(runner, model)
    assert not operations(runner.for_next)
    runner.step([Part(PageTable([0]), 1, 1)], mx.zeros(1, mx.uint32))
    assert operations(runner.for_next)


@pytest.mark.parametrize(
    ("tokens", "length", "by_layers", "at_once"),
    [(200, 456, [], 1), (256, 256, [0, 1, 1], 1), (256, 512, [0, 1, 1], 1), (2048, 6144, [0, 1, 1], 0)],
)
def test_chunks_that_many_prompts_have_are_met_layer_by_layer(
    tokens: int,
    length: int,
    by_layers: list[int],
    at_once: int,
    model: LoadedModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As beside answers, and all layers at once as well where the prompt has just begun."""
    taken, filled, advance, fill = list[int](), list[int](), Runner.advance, Runner.fill

    def noted(self: Runner, filling: Filling, layers: int) -> mx.array | None:
        taken.append(layers)
        return advance(self, filling, layers)

    def noted_at_once(self: Runner, part: Part, ids: Sequence[int], *, may_trace: bool = False) -> mx.array:
        filled.append(part.tokens)
        return fill(self, part, ids, may_trace=may_trace)

    monkeypatch.setattr(Runner, "advance", noted)
    monkeypatch.setattr(Runner, "fill", noted_at_once)
    runner = Runner(model)
    warm_step(runner, model, tokens, length)
    assert (taken, filled) == (by_layers, [tokens] * at_once)
    assert (runner.launches.total(), runner.tokens, model.pager.pages_used) == (0, 0, 0)


def test_a_chunk_is_met_as_far_as_its_layers_attend_differently(
    executor_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_random_model(
        tmp_path / "model",
        "mistral",
        head_dim=64,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_hidden_layers=5,
        sliding_window=32,
        layer_types=["sliding_attention"] * 3 + ["full_attention"] * 2,
    )
    model = load_model(folder, EngineSettings(executor=executor_name, cache=BUILD.parent), lambda *_: None)
    taken, advance = list[int](), Runner.advance

    def noted(self: Runner, filling: Filling, layers: int) -> mx.array | None:
        taken.append(layers)
        return advance(self, filling, layers)

    monkeypatch.setattr(Runner, "advance", noted)
    warm_step(Runner(model), model, tokens=256, length=256)
    assert taken == [0, 1, 1, 2]


def test_a_budget_of_one_page_is_no_error(executor_name: str, tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model", head_dim=64, num_attention_heads=4)
    settings = EngineSettings(executor=executor_name, cache=BUILD.parent, kv_pages=1)
    model = load_model(folder, settings, lambda done, total: None)
    warm_up(Runner(model), model.memory)
    assert model.pager.pages_used == 0


@pytest.mark.parametrize(
    ("broken", "is_forced", "stays"),
    [
        ("no pipeline could be made", False, False),
        ("no pipeline could be made", True, True),
        ("Unable to allocate 9 bytes", False, True),
    ],
)
def test_kernels_that_break_at_the_first_step_are_off_unless_asked_for(
    broken: str, is_forced: bool, stays: bool, model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_runner: Runner, _memory: KVMemory) -> None:
        raise RuntimeError(broken)

    assert model.kernels is not None
    model.kernels.is_lazy, model.kernels.choice.is_forced = True, is_forced
    monkeypatch.setattr("engine.rest.warm_up.warm_up", fails)
    events: list[Event] = []
    Serving(model, EngineSettings(), events.append)
    assert (model.kernels is not None) == stays
    assert (broken in model.info.executor_reason) != stays
    assert [type(event) for event in events] == ([] if stays else [KernelsChosen])
