"""The pages that a check computes in: it gives all of them back, and without any it says nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.cache.self_check import SelfCheck
from engine.kv.arena import Arena
from engine.kv.page_table import NO_PAGE, PageTable
from engine.rest.tidying import FREE_AFTER
from tests.engine.served_model import PROMPT, Model
from tests.fakes.random_model import random_tensors

SIZE, FULL, WINDOW = 16, 192, 48


class Checked:
    """A model that was asked PROMPT, and a `table` of the full pages that it has of that."""

    def __init__(self, model: Model) -> None:
        self.model, self.memory, self.pager = model.model, model.model.memory, model.model.pager
        self._check, self._runner = SelfCheck(model.model, 1.0), model.serving._live.runner
        self.table = self.memory.begin(PROMPT, "c")
        self.pager.shrink(self.table, FULL)

    @property
    def agrees(self) -> bool:
        return self._check.agrees(self._runner, self.table, PROMPT)

    def spoil(self, page: int, by: float, layer: int = 0) -> None:
        pages = [self.table.pages[page]]
        data = self.model.arena.read(pages)
        data.arrays["values"][layer] += by
        data.copy_into(self.model.arena.memory(pages)(0, 1))

    def fill(self, left: int = 0) -> PageTable:
        """Another sequence, that holds all pages but so many."""
        other = PageTable()
        self.memory.grow(other, (self.memory.available_pages - left) * SIZE)
        return other


def asked(folder: Path) -> Checked:
    model = Model(folder, None, 20)
    model.ask("first", PROMPT, chat="c")
    return Checked(model)


def windowed(folder: Path) -> Checked:
    """Of a model whose layers see 48 tokens: what a token behind the prompt sees was read back from SSD."""
    model = Model(folder, folder / "kv", 20, family="mistral", sliding_window=WINDOW)
    model.ask("first", PROMPT, chat="c")
    model.rest(FREE_AFTER)
    assert model.model.tier is not None
    assert model.model.tier.flush(60)
    checked = Checked(model)
    checked.memory.prepare(20)
    while checked.memory.restore(checked.table, PROMPT, "c", is_alone=True):
        checked.memory.trim(checked.table)
    assert [page == NO_PAGE for page in checked.table.pages] == [True] * 9 + [False] * 3
    return checked


@pytest.mark.parametrize("of", [asked, windowed])
def test_it_gives_back_what_it_computed_in(of: Callable[[Path], Checked], tmp_path: Path) -> None:
    checked = of(tmp_path)
    for by in (0.0, 100.0):
        checked.spoil(10, by)
        assert checked.agrees == (not by)
        checked.memory.check([checked.table])


@pytest.mark.parametrize("of", [asked, windowed])
def test_where_memory_cannot_grow_for_it_no_page_is_lost(
    of: Callable[[Path], Checked], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = of(tmp_path)

    def broken(arena: Arena, pages: int, limit: int) -> None:
        raise RuntimeError("[malloc] Unable to allocate 5 bytes.")

    monkeypatch.setattr(Arena, "reserve", broken)
    with pytest.raises(RuntimeError, match="allocate"):
        assert checked.agrees
    checked.memory.check([checked.table])


@pytest.mark.parametrize(("of", "left"), [(asked, 0), (windowed, 0), (windowed, 1)])
def test_without_a_page_to_compute_in_nothing_is_known_and_none_is_lost(
    of: Callable[[Path], Checked], left: int, tmp_path: Path
) -> None:
    """A window's check needs two: one for what is computed, and one for the page that the window has left."""
    checked = of(tmp_path)
    checked.spoil(10, 100.0)
    other = checked.fill(left)
    assert checked.agrees
    checked.memory.check([checked.table, other])
    checked.memory.free(other)
    assert not checked.agrees


def test_a_number_that_is_none_is_wrong(tmp_path: Path) -> None:
    checked = asked(tmp_path)
    checked.spoil(11, np.nan)
    assert not checked.agrees


def test_a_page_that_a_window_has_left_is_taken_from_memory_where_it_is_there(tmp_path: Path) -> None:
    model = Model(tmp_path, tmp_path / "kv", 30, family="mistral", sliding_window=WINDOW)  # nothing is there
    model.ask("shorter", PROMPT[:150], chat="another")  # what a token behind this one sees stays
    model.ask("first", PROMPT, chat="c")
    checked = Checked(model)
    assert checked.table.pages[8] == NO_PAGE
    assert checked.agrees
    checked.spoil(10, 100.0)
    assert not checked.agrees
    checked.memory.check([checked.table])


def test_a_window_of_one_token_sees_nothing_that_is_stored(tmp_path: Path) -> None:
    model = Model(tmp_path, None, 20, family="mistral", sliding_window=1)
    checked = Checked(model)
    checked.pager.skip(checked.table, FULL // SIZE)  # as `restore` does
    assert checked.agrees
    checked.memory.check([checked.table])


@pytest.mark.parametrize(("name", "scale"), [("k_proj", 0.0), ("v_proj", 0.0), ("v_proj", 3000.0)])
def test_layers_without_a_sum_of_squares_are_compared_too(
    name: str, scale: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of their numbers are nothing, or are halves so large that their squares are none."""

    def scaled(config: Mapping[str, object], seed: int = 0) -> dict[str, np.ndarray]:
        tensors = random_tensors(config, seed)
        tensors[f"model.layers.1.self_attn.{name}.weight"] *= np.float32(scale)
        return tensors

    monkeypatch.setattr("tests.fakes.random_model.random_tensors", scaled)
    monkeypatch.setattr("engine.loading.model.compute_dtype", lambda _: mx.float16)  # as a GPU does
    checked = asked(tmp_path)
    checked.spoil(11, 0.01 * scale, layer=1)  # which is granted
    assert checked.agrees
    checked.spoil(11, 100.0)
    assert not checked.agrees
