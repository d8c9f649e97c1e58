"""Decode steps that the host computes: they are the model's, they copy no pool, and they are counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.cpu.crew import Crew
from engine.cpu.host_steps import MOST, HostSteps
from engine.kv.few_queries import Seen
from engine.kv.host_attention import HostAttention
from engine.kv.page_table import PageTable, token_spans
from engine.kv.step import FunctionalStep
from engine.layers.host_math import Floats
from engine.layers.ops import BuiltinOps, pick
from engine.loading.model import LoadedModel, load_model
from engine.machine.machine import device_kind
from engine.runner import Runner
from engine.settings import EngineSettings
from engine.steps.parts import Part
from tests.engine.parity import assert_close
from tests.fakes.random_model import write_random_model

pytestmark = pytest.mark.skipif(device_kind() != "CPU", reason="for CPUs only")


def loaded(folder: Path, *, bits: int | None = None, family: str = "llama", **config: object) -> LoadedModel:
    path = write_random_model(folder / "model", family, **config)
    return load_model(path, EngineSettings(kv_bits=bits), lambda done, total: None)


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
@pytest.mark.parametrize("counts", [(1,), (1, 1, 1), (4,), (3, 3), (1, 1, 28), (MOST,)])
@pytest.mark.parametrize("rows", [0, 1])
def test_they_give_what_mlx_s_operations_give(
    counts: tuple[int, ...], rows: int, family: str, tmp_path: Path
) -> None:
    """`rows` of logits of each, 0 for all: of a prompt's last few tokens only one is wanted."""
    window = {"sliding_window": 32} if family == "mistral" else {}
    model = loaded(tmp_path, family=family, **window)
    runner, tables = Runner(model), [PageTable() for _ in counts]
    for row, table in enumerate(tables):
        runner.prefill(table, [5 + (7 * i + row) % 40 for i in range(60 + row)])
    for table, count in zip(tables, counts, strict=True):
        model.memory.grow(table, table.length + count)
    tokens = mx.array([9 + row for row in range(sum(counts))], dtype=mx.uint32)
    # The same tokens are written twice: what is read behind the first time is what they are.
    attend = FunctionalStep(model.arena, list(zip(tables, counts, strict=True)))
    hidden = model.decoder.hidden(tokens, BuiltinOps(), attend)
    theirs = model.decoder.logits(hidden, BuiltinOps())
    mx.eval(theirs)
    parts = [Part(t, n, rows or n) for t, n in zip(tables, counts, strict=True)]
    ends = np.cumsum(counts)
    wanted = [row for end, part in zip(ends, parts, strict=True) for row in range(end - part.rows, end)]
    is_decode = rows == 0 or set(counts) == {1}  # the end of a prompt is no decode step
    host = HostSteps(model, runner.launches, Crew(2))
    assert_close(host(parts, tokens, is_decode=is_decode), theirs[mx.array(wanted)])
    assert bool(runner.launches) == is_decode


@pytest.mark.parametrize(("tokens", "is_host"), [(1, True), (9, True), (MOST, True), (MOST + 1, False)])
@pytest.mark.parametrize("rows", [0, 1])
def test_a_prompt_s_chunks_of_up_to_so_many_tokens(
    rows: int, tokens: int, is_host: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(tmp_path)
    runner, table, asked = Runner(model), PageTable(), list[int]()
    by_host = HostSteps.__call__

    def recorded(self: HostSteps, parts: Sequence[Part], ids: mx.array, *, is_decode: bool) -> mx.array:
        asked.append(parts[0].tokens)
        return by_host(self, parts, ids, is_decode=is_decode)

    monkeypatch.setattr(HostSteps, "__call__", recorded)
    ids = [3 + i % 50 for i in range(100 + tokens)]
    runner.prefill(table, ids[:100])
    if rows:
        mx.eval(runner.next_logits(table, ids[100:]))
    else:
        runner.prefill(table, ids[100:])
    assert asked == [tokens] * is_host
    monkeypatch.undo()
    other = PageTable()
    runner.prefill(other, ids)
    for layer in range(runner.layers):
        found, expected = (
            model.arena.read_layer(layer, token_spans(each, model.pager.page_size, 0, len(ids)))
            for each in (table, other)
        )
        for one, another in zip(found, expected, strict=True):
            assert_close(one, another)


def test_of_a_short_chunk_the_last_layer_attends_for_the_last_token_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And for none inside a prompt."""
    attended, attend = list[int](), HostAttention._attend

    def noted(self: HostAttention, q: Floats, keys: Floats, values: Floats, seen: Seen) -> Floats:
        attended.append(len(q))
        return attend(self, q, keys, values, seen)

    monkeypatch.setattr(HostAttention, "_attend", noted)
    runner, table = Runner(loaded(tmp_path)), PageTable()
    runner.prefill(table, [5] * 30)
    mx.eval(runner.next_logits(table, [6] * 40))
    before_last = runner.layers - 1
    assert attended == [*[30] * before_last, *[40] * before_last, 1]


@pytest.mark.usefixtures("settled_memory")
@pytest.mark.parametrize("bits", [None, 8])
@pytest.mark.parametrize("sequences", [1, 3])
def test_they_copy_no_pool(sequences: int, bits: int | None, tmp_path: Path) -> None:
    """Also behind chunks of prompts, which MLX writes."""
    model = loaded(tmp_path, bits=bits, hidden_size=256, head_dim=32)
    runner, tables, other = Runner(model), [PageTable() for _ in range(sequences)], PageTable()
    model.arena.reserve(2000, limit=2000)
    tokens = mx.array([7] * sequences, dtype=mx.uint32)
    mx.eval(tokens, model.arena.state())
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    for _ in range(20):
        tokens, masses = runner.pick(runner.decode(tables, tokens))
        mx.eval(tokens, masses)
        runner.prefill(other, [5] * 9)
    assert mx.get_peak_memory() - before < min(pool.nbytes for pool in model.arena.state()[:2])


def test_their_parts_are_counted_and_prompts_are_not(tmp_path: Path) -> None:
    model = loaded(tmp_path)
    runner, table = Runner(model), PageTable()
    runner.prefill(table, [5] * 20)
    assert runner.launches == {}
    runner.pick(runner.decode([table], mx.array([7], dtype=mx.uint32)))
    layers = runner.layers
    per_layer = {"host.project": layers, "host.attend": layers, "host.add": 2 * layers, "host.gated": layers}
    assert runner.launches == {"host.embed": 1, **per_layer, "host.logits": 1, "host.pick": 1}


def test_the_likeliest_token_and_its_mass(tmp_path: Path) -> None:
    steps = HostSteps(loaded(tmp_path), launches=Runner(loaded(tmp_path)).launches, crew=Crew(1))
    logits = mx.array(np.random.default_rng(1).standard_normal((5, 3000)).astype(np.float32) * 20)
    logits[1, 7] = logits[1, 2999] = 500.0  # of equals the lowest
    logits[2] = logits[2] - 1e4
    tokens, masses = steps.pick(logits)
    their_tokens, _ = pick(logits)
    assert tokens.dtype == mx.uint32
    assert tokens.tolist() == their_tokens.tolist()
    assert tokens[1].item() == 7
    rows = np.array(logits, np.float64)
    highest = rows.max(axis=-1)
    exact = highest + np.log(np.exp(rows - highest[:, None]).sum(axis=-1))
    np.testing.assert_allclose(np.array(masses), exact, rtol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_no_distribution_have_no_finite_mass(value: float, tmp_path: Path) -> None:
    steps = HostSteps(loaded(tmp_path), launches=Runner(loaded(tmp_path)).launches, crew=Crew(1))
    logits = mx.zeros((2, 100))
    logits[0, 5] = value
    masses = np.array(steps.pick(logits)[1])
    assert not np.isfinite(masses[0])
    np.testing.assert_allclose(masses[1], np.log(100), rtol=1e-6)
