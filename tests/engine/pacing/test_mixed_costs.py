"""What a prompt's tokens cost among an answer's: measured at rest, without a trace."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import mlx.core as mx
import pytest

from engine import EngineSettings
from engine.kv.pager import OutOfPages
from engine.loading.model import LoadedModel, load_model
from engine.pacing.mixed_costs import LONGEST, MixedCosts, MixedStepBroke
from engine.runner import Runner
from engine.steps.parts import Part, are_mixed
from tests.engine.parity import our_greedy, prompt
from tests.fakes.random_model import write_random_model
from tests.metal.conftest import BUILD


def loaded(folder: Path, executor: str, context: int = 2048, pages: int | None = None) -> LoadedModel:
    write_random_model(
        folder,
        head_dim=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=2,
        max_position_embeddings=context,
    )
    settings = EngineSettings(executor=executor, cache=BUILD.parent, kv_pages=pages)
    return load_model(folder, settings, lambda done, total: None)


@pytest.mark.parametrize("executor", ["reference", "emulated"])
def test_more_and_more_tokens_are_measured_until_they_take_long(executor: str, tmp_path: Path) -> None:
    model = loaded(tmp_path, executor)
    expected = our_greedy(model, prompt()[:40], 16, 8)
    runner = Runner(model)
    runner.launches["decode_attention"], runner.tokens = 5, 3
    costs = MixedCosts(runner, model)
    while not costs.is_done:
        costs.next()
    assert list(costs.times) == [16 << power for power in range(len(costs.times))]
    *shorter, longest = costs.times.values()
    assert all(0 < ratio <= LONGEST for ratio in shorter)
    assert longest > LONGEST or max(costs.times) == 512
    assert (dict(runner.launches), runner.tokens) == ({"decode_attention": 5}, 3)
    assert model.pager.pages_used == 0
    assert our_greedy(model, prompt()[:40], 16, 8) == expected


def test_what_is_measured_is_an_answer_with_and_without_a_prompt_behind_long_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, seen, step = loaded(tmp_path, "reference"), list[list[tuple[int, int, int]]](), Runner.step

    def note(self: Runner, parts: list[Part], *rest: object) -> object:
        seen.append([(part.table.length, part.tokens, part.rows) for part in parts])
        return step(self, parts, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Runner, "step", note)
    costs = MixedCosts(Runner(model), model)
    costs.next()
    assert (len(seen), costs.times) == (6, {})  # a request waits for no more
    assert {len(parts) for parts in seen} == {1, 2}
    assert all(parts == [(1536, 1, 1), (1536, 16, 0)][: len(parts)] for parts in seen)


def break_steps(monkeypatch: pytest.MonkeyPatch, fails: Callable[[Sequence[Part]], bool]) -> None:
    step = Runner.step

    def broken(self: Runner, parts: Sequence[Part], tokens: mx.array) -> mx.array:
        if fails(parts):
            raise RuntimeError("no pipeline could be made")
        return step(self, parts, tokens)

    monkeypatch.setattr(Runner, "step", broken)


def test_once_a_mixed_step_has_broken_none_is_known_and_none_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.pacing.mixed_costs.LONGEST", math.inf)
    break_steps(monkeypatch, lambda parts: are_mixed(parts) and parts[-1].tokens == 32)
    model = loaded(tmp_path, "reference")
    costs = MixedCosts(Runner(model), model)
    while not costs.times:
        costs.next()
    with pytest.raises(MixedStepBroke):
        costs.next()
    assert (costs.times, costs.is_done, model.pager.pages_used) == ({}, True, 0)


def test_an_answers_own_step_that_breaks_is_not_taken_for_a_mixed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request would meet it."""
    break_steps(monkeypatch, lambda parts: not are_mixed(parts))
    model = loaded(tmp_path, "reference")
    costs = MixedCosts(Runner(model), model)
    with pytest.raises(RuntimeError, match="no pipeline could be made"):
        costs.next()
    assert costs.is_done


def test_without_a_page_nothing_is_known_and_nothing_breaks(tmp_path: Path) -> None:
    model = loaded(tmp_path, "reference", pages=128)
    table = model.memory.begin([1], None)
    model.memory.grow(table, 2048)
    costs = MixedCosts(Runner(model), model)
    assert not costs.is_done
    with pytest.raises(OutOfPages):
        costs.next()
    assert (costs.times, costs.is_done) == ({}, True)  # or it were tried for ever
    model.memory.free(table)


def test_a_short_context_has_no_long_prompts(tmp_path: Path) -> None:
    model = loaded(tmp_path, "reference", context=512)
    assert MixedCosts(Runner(model), model).is_done
