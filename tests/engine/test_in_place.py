"""The in-place set against mlx-lm: kernels that write and read pages, on each executor of this machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.kv import in_place, in_place_chunk
from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel, load_model
from engine.runner import Runner
from engine.settings import EngineSettings
from engine.steps.staging import Staging
from metal.decode_attention import MAX_TOKENS
from metal.padded_attention import attend_padded
from metal.prefill_attention import PrefillAttention
from tests.engine.parity import (
    Case,
    assert_close,
    our_greedy,
    our_logits,
    peer_of,
    peer_run,
    prompt,
    quantised,
)
from tests.fakes.random_model import write_random_model
from tests.metal.conftest import BUILD

TOKENS = 70
COUNT = 24
CASES = {
    "llama": Case("llama", {"head_dim": 64, "num_attention_heads": 4, "num_key_value_heads": 2}),
    "qwen2-gqa8": Case("qwen2", {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 1}),
    "qwen3": Case("qwen3", {"head_dim": 128, "num_attention_heads": 3, "num_key_value_heads": 1}),
    "mistral-window": Case(
        "mistral",
        {"head_dim": 64, "num_attention_heads": 4, "num_key_value_heads": 1, "sliding_window": 37},
        peer={
            "model_type": "llama",
            "num_hidden_layers": 4,
            "layer_types": [*["sliding_attention"] * 3, "full_attention"],
        },
        idle_layer=True,
    ),
}


@pytest.fixture
def settings(executor_name: str) -> EngineSettings:
    return EngineSettings(executor=executor_name, cache=BUILD.parent)


def load(folder: Path, settings: EngineSettings) -> LoadedModel:
    model = load_model(folder, settings, lambda done, total: None)
    assert model.info.executor == settings.executor
    return model


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name in {"llama", "qwen3"} else ()) for name in CASES],
)
def test_logits_and_greedy_tokens_equal_mlx_lm(name: str, settings: EngineSettings, tmp_path: Path) -> None:
    tokens = prompt()[:TOKENS]
    folder, theirs, greedy = peer_of(CASES[name], tmp_path, tokens)
    model = load(folder, settings)
    for chunk in (7, 17, TOKENS):
        ends = [min(begin + chunk, TOKENS) - 1 for begin in range(0, TOKENS, chunk)]
        assert_close(our_logits(model, tokens, chunk), theirs[mx.array(ends)])
    assert our_greedy(model, tokens, 17, COUNT) == greedy[:COUNT]


def test_a_batch_of_different_lengths_gives_each_its_own_tokens(
    settings: EngineSettings, tmp_path: Path
) -> None:
    case = CASES["llama"]
    folder = write_random_model(tmp_path / "model", case.family, **case.changes)
    prompts = [prompt(seed)[:length] for seed, length in enumerate((5, 16, 33, 64))]
    alone = [peer_run(folder, None, tokens)[1][:8] for tokens in prompts]
    model = load(folder, settings)
    runner = Runner(model)
    tables = [PageTable() for _ in prompts]
    for table, tokens in zip(tables, prompts, strict=True):
        runner.prefill(table, tokens[:-1])
    last = mx.array([tokens[-1] for tokens in prompts], dtype=mx.uint32)
    steps: list[list[int]] = []
    for _ in range(8):
        last = mx.argmax(runner.decode(tables, last), axis=-1)
        steps.append(last.tolist())  # pyright: ignore[reportArgumentType]
    assert [list(tokens) for tokens in zip(*steps, strict=True)] == alone


def test_an_unsupported_shape_runs_on_mlx_and_says_why(settings: EngineSettings, tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    info = load_model(folder, settings, lambda done, total: None).info
    assert info.executor == "reference"
    assert info.executor_reason.endswith("a head size of 8; kernels take 64, 80, 96, 128, 256")


@pytest.mark.parametrize("bits", [4, 8])
def test_quantised_models_run_on_kernels_too(bits: int, settings: EngineSettings, tmp_path: Path) -> None:
    plain = write_random_model(tmp_path / "plain", head_dim=64, num_attention_heads=4, num_key_value_heads=2)
    folder = quantised(plain, tmp_path / "quantised", bits)
    tokens = prompt()[:TOKENS]
    theirs, greedy = peer_run(folder, None, tokens)
    model = load(folder, settings)
    runner = Runner(model)
    assert our_greedy(model, tokens, 17, 8) == greedy[:8]
    table = PageTable()
    assert_close(runner.next_logits(table, tokens[:5]), theirs[4])
    assert model.kernels is not None
    assert not model.kernels.ops.refused
    assert runner.launches["matvec_affine"] == 4 * 3 + 1


@pytest.mark.parametrize("name", ["llama", "mistral-window"])
def test_a_history_is_attended_to_where_it_lies(name: str, settings: EngineSettings, tmp_path: Path) -> None:
    tokens = prompt()[:TOKENS]
    folder, theirs, _ = peer_of(CASES[name], tmp_path, tokens)
    model = load(folder, settings)
    kernels = model.kernels
    assert kernels is not None
    for shape, launchers in kernels.attention.items():
        prefill = PrefillAttention(kernels.choice.executor, kernels.launches, shape)
        kernels.attention[shape] = replace(launchers, prefill=prefill)
    ends = [min(begin + 17, TOKENS) - 1 for begin in range(0, TOKENS, 17)]
    assert_close(our_logits(model, tokens, 17), theirs[mx.array(ends)])
    assert kernels.launches["prefill_attention"]


@pytest.mark.parametrize("name", [pytest.param("llama", marks=pytest.mark.long), "mistral-window"])
@pytest.mark.parametrize(
    ("most", "room"), [(TOKENS, 0), (TOKENS, 400), (0, 0)], ids=["traced", "staged", "not traced"]
)
def test_a_short_chunk_is_attended_to_where_its_history_lies_in_parts(
    name: str, most: int, room: int, settings: EngineSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`room`: integers of a ring that goes round meanwhile, as CUDA has one; 0: as others have none."""
    monkeypatch.setattr(Staging, "for_device", lambda: Staging(room))
    tokens = prompt()[:TOKENS]
    folder, theirs, _ = peer_of(CASES[name], tmp_path, tokens)
    model = load(folder, settings)
    kernels = model.kernels
    assert kernels is not None
    for shape, launchers in kernels.attention.items():
        short = PrefillAttention(kernels.choice.executor, kernels.launches, shape)
        kernels.attention[shape] = replace(launchers, pads=True, short=short)
    monkeypatch.setattr("metal.prefill_attention._FEWEST_KEYS", 16)
    monkeypatch.setattr("engine.runner.LONGEST", most)
    ends = [min(begin + 17, TOKENS) - 1 for begin in range(0, TOKENS, 17)]
    assert_close(our_logits(model, tokens, 17), theirs[mx.array(ends)])
    chunks = TOKENS // 17 * len(model.decoder.attention)
    assert kernels.launches["prefill_attention"] == chunks
    assert kernels.launches["attention_reduce"] >= chunks - len(model.decoder.attention)
    assert not kernels.launches["page_gather"]


@pytest.mark.parametrize("name", [pytest.param("llama", marks=pytest.mark.long), "mistral-window"])
@pytest.mark.parametrize("most", [TOKENS, 0], ids=["traced", "not traced"])
def test_a_chunk_whose_lengths_come_once_is_computed_at_rounded_ones(
    name: str,
    most: int,
    settings: EngineSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = prompt()[:TOKENS]
    folder, theirs, _ = peer_of(CASES[name], tmp_path, tokens)
    model = load(folder, settings)
    assert model.kernels is not None
    attention, seen = model.kernels.attention, list[int]()
    attention.update({shape: replace(kernels, pads=True) for shape, kernels in attention.items()})

    def is_common(begin: int, tokens: int) -> bool:
        return tokens == 16

    def counted(q: mx.array, *rest: Any) -> mx.array:
        seen.append(q.shape[1])
        return attend_padded(q, *rest)

    monkeypatch.setattr(in_place, "is_common", is_common)
    monkeypatch.setattr("engine.runner.is_common", is_common)
    monkeypatch.setattr("engine.runner.LONGEST", most)
    for module in (in_place, in_place_chunk):
        monkeypatch.setattr(module, "attend_padded", counted)
    for chunk in (16, 17):
        ends = [min(begin + chunk, TOKENS) - 1 for begin in range(0, TOKENS, chunk)]
        assert_close(our_logits(model, tokens, chunk), theirs[mx.array(ends)])
    layers = len(model.decoder.attention)
    assert TOKENS % 16 <= MAX_TOKENS >= TOKENS % 17  # the rests are decode steps
    assert Counter(seen) == {64: TOKENS // 17 * layers}
