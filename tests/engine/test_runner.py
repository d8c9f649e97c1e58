"""Parity of the paged path with mlx-lm, whose cache is contiguous, on random models of every family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.utils import load_model as load_peer

from engine.kv.page_table import PageTable, token_spans
from engine.kv.step import FunctionalStep
from engine.layers.attention import AttentionLayer
from engine.loading.model import LoadedModel, load_model
from engine.machine.machine import device_kind
from engine.runner import Runner
from engine.settings import EngineSettings
from tests.engine.oracle import GUIDE
from tests.engine.parity import (
    GREEDY_TOKENS,
    PROMPT_TOKENS,
    Case,
    assert_close,
    our_greedy,
    our_logits,
    peer_of,
    peer_run,
    prompt,
    quantised,
)
from tests.fakes.random_model import VOCAB, random_config, write_random_model

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN_ROPE = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


CASES = {
    "llama-gqa1": Case("llama", {"num_key_value_heads": 8}),
    "llama-gqa2": Case("llama", {"num_key_value_heads": 4}),
    "llama-gqa4": Case("llama", {"num_key_value_heads": 2}),
    "llama-gqa8-tied": Case("llama", {"num_key_value_heads": 1, "tie_word_embeddings": True}),
    "llama-biases": Case("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-linear-rope": Case("llama", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    "llama-llama3-rope": Case("llama", {"rope_scaling": LLAMA3_ROPE, "rope_theta": 500000.0}),
    "llama-yarn-rope": Case("llama", {"rope_scaling": YARN_ROPE}),
    "mistral-head-dim": Case("mistral", {"head_dim": 16}),
    # mlx-lm ignores Mistral's window, so its Llama with windowed layers is the oracle
    "mistral-window": Case(
        "mistral",
        {"sliding_window": 37},
        peer={
            "model_type": "llama",
            "num_hidden_layers": 4,
            "layer_types": [*["sliding_attention"] * 3, "full_attention"],
        },
        idle_layer=True,
    ),
    "mistral-mixed-window": Case(
        "mistral",
        {"sliding_window": 24, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
        peer={"model_type": "llama"},
    ),
    "qwen2": Case("qwen2", {}),
    "qwen2-tied-gqa8": Case("qwen2", {"num_key_value_heads": 1, "tie_word_embeddings": True}),
    "qwen3": Case("qwen3", {"head_dim": 16}),
    "qwen3-tied-yarn": Case(
        "qwen3", {"head_dim": 16, "tie_word_embeddings": True, "rope_scaling": YARN_ROPE}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_logits_and_greedy_tokens_equal_mlx_lm_in_every_chunking(name: str, tmp_path: Path) -> None:
    tokens = prompt()
    folder, theirs, greedy = peer_of(CASES[name], tmp_path, tokens)
    model = load_model(folder, EngineSettings(), lambda done, total: None)
    for chunk in (1, 7, 16, 17, 64, PROMPT_TOKENS):
        ends = [min(begin + chunk, PROMPT_TOKENS) - 1 for begin in range(0, PROMPT_TOKENS, chunk)]
        assert_close(our_logits(model, tokens, chunk), theirs[mx.array(ends)])
        assert our_greedy(model, tokens, chunk) == greedy


@pytest.mark.skipif(device_kind() != "CPU", reason="elsewhere the guide computes in half precision")
def test_a_long_prompt_to_the_guide_equals_mlx_lm() -> None:
    """In blocks of queries, several to a chunk."""
    tokens = [int(token) for token in np.random.default_rng(2).integers(8, 3000, 700)]
    peer, _ = load_peer(GUIDE)
    peer.set_dtype(mx.float32)
    theirs = peer(mx.array(tokens)[None])[0]
    model = load_model(GUIDE, EngineSettings(), lambda done, total: None)
    for chunk in (150, 512):
        ends = [min(begin + chunk, len(tokens)) - 1 for begin in range(0, len(tokens), chunk)]
        assert_close(our_logits(model, tokens, chunk), theirs[mx.array(ends)])


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(
    ("family", "tied"), [("llama", True), ("qwen2", False), ("qwen3", True), ("mistral", False)]
)
def test_quantised_models_equal_mlx_lm(family: str, tied: bool, bits: int, tmp_path: Path) -> None:
    plain = write_random_model(tmp_path / "plain", family, head_dim=8, tie_word_embeddings=tied)
    folder = quantised(plain, tmp_path / "quantised", bits)
    tokens = prompt()
    theirs, greedy = peer_run(folder, None, tokens)
    ours = load_model(folder, EngineSettings(), lambda done, total: None)
    assert_close(our_logits(ours, tokens, 64)[-1], theirs[-1])
    assert our_greedy(ours, tokens, 64) == greedy


def test_pages_that_are_no_neighbours_give_the_same_tokens(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    tokens = prompt()
    _, greedy = peer_run(folder, None, tokens)
    model = load_model(folder, EngineSettings(kv_pages=40), lambda done, total: None)
    others = [PageTable() for _ in range(40)]
    for other in others:
        model.pager.grow(other, 16)
    for other in others[::2]:
        model.pager.free(other)
    runner, table = Runner(model), PageTable()
    runner.prefill(table, tokens[:-1])
    assert len(token_spans(table, model.pager.page_size, 0, len(tokens) - 1)) > 5
    generated, step = [], [tokens[-1]]
    for _ in range(GREEDY_TOKENS):
        step = [int(mx.argmax(runner.next_logits(table, step)).item())]
        generated += step
    assert generated == greedy


def in_pieces(model: LoadedModel, lengths: tuple[int, ...]) -> PageTable:
    """A sequence's empty pages: so many tokens in a row, then others' pages, and so on."""
    table, end = PageTable(), 0
    for length in lengths:
        end += length
        model.memory.grow(table, end)
        model.memory.grow(PageTable(), 16)
    return table


@pytest.mark.parametrize("lengths", [(304, 400), (16, 16, 304, 16, 32, 16, 256, 64), (16, 688)])
@pytest.mark.parametrize("name", ["llama-gqa4", "mistral-mixed-window"])
def test_a_token_sees_long_and_short_runs_of_pages_alike(
    name: str, lengths: tuple[int, ...], tmp_path: Path
) -> None:
    case = CASES[name]
    changes: dict[str, Any] = {**case.changes, "max_position_embeddings": 1024}
    if "sliding_window" in changes:
        changes["sliding_window"] = 390
    folder = write_random_model(tmp_path / "model", case.family, **changes)
    model = load_model(folder, EngineSettings(), lambda done, total: None)
    runner, tokens = Runner(model), [(7 * n) % VOCAB for n in range(703)]
    scattered, together = in_pieces(model, lengths), in_pieces(model, (704,))
    assert len(token_spans(scattered, model.pager.page_size, 0, 704)) == len(lengths)
    assert len(token_spans(together, model.pager.page_size, 0, 704)) == 1
    for table in (scattered, together):
        runner.prefill(table, tokens)
    for token in (5, 9):
        assert_close(
            runner.next_logits(scattered, [token])[None], runner.next_logits(together, [token])[None]
        )


def test_a_window_over_every_layer_keeps_only_its_pages(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model", "mistral", sliding_window=32)
    model = load_model(folder, EngineSettings(prefill_chunk=16), lambda done, total: None)
    runner, table = Runner(model), PageTable()
    for begin in range(0, PROMPT_TOKENS, 16):
        runner.prefill(table, prompt()[begin : begin + 16])
        model.memory.trim(table)
        assert model.pager.pages_used <= 32 // 16 + 1


def test_the_arena_grows_with_use_and_not_with_the_context(tmp_path: Path) -> None:
    config = random_config(max_position_embeddings=1 << 20)
    folder = write_random_model(tmp_path / "model", max_position_embeddings=1 << 20)
    model = load_model(folder, EngineSettings(), lambda done, total: None)
    assert config["vocab_size"] == VOCAB
    assert model.arena.pages == 0
    runner, table = Runner(model), PageTable()
    runner.prefill(table, prompt())
    assert model.pager.pages_used == -(-PROMPT_TOKENS // 16)
    assert model.arena.pages < 200


@pytest.mark.skipif(device_kind() != "CPU", reason="elsewhere nothing waits")
@pytest.mark.usefixtures("settled_memory")
@pytest.mark.skipif(device_kind() != "CPU", reason="a GPU frees a step's temporaries a moment after the step")
def test_memory_does_not_move_while_decoding(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    model = load_model(folder, EngineSettings(), lambda done, total: None)
    runner, table = Runner(model), PageTable()
    model.arena.reserve(64, limit=64)
    runner.prefill(table, prompt())
    seen: list[int] = []
    for _ in range(300):
        mx.eval(runner.next_logits(table, [7]))
        seen.append(mx.get_active_memory())
    assert max(seen[20:]) - min(seen[20:]) <= 4 * VOCAB


def test_of_a_prompt_s_end_the_last_layer_attends_for_its_last_token_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reads what it makes of others."""
    attended, attend = list[tuple[int, int]](), FunctionalStep._attend

    def noted(step: FunctionalStep, layer: AttentionLayer, part: Any, q: mx.array) -> mx.array:
        attended.append((layer.index, q.shape[2]))
        return attend(step, layer, part, q)

    monkeypatch.setattr(FunctionalStep, "_attend", noted)
    folder = write_random_model(tmp_path / "model")
    model = load_model(folder, EngineSettings(executor="reference"), lambda done, total: None)
    runner, table = Runner(model), PageTable()
    runner.prefill(table, [5] * 80)
    mx.eval(runner.next_logits(table, [6] * 70))
    last = model.config.layers - 1
    inside = [(layer, tokens) for tokens in (80, 70) for layer in range(last)]
    assert attended == [*inside, (last, 1)]
