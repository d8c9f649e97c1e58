"""Parity of the paged path with mlx-lm, whose cache is contiguous, on random models of every family."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model as load_peer
from mlx_lm.utils import quantize_model, save_model
from safetensors.numpy import load_file, save_file

from engine.kv.pager import PageTable
from engine.loading.model import LoadedModel, load_model
from engine.machine import device_kind
from engine.runner import Runner
from engine.settings import EngineSettings
from tests.fakes.random_model import VOCAB, random_config, write_random_model, write_tokenizer

PROMPT_TOKENS = 200
GREEDY_TOKENS = 64
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN_ROPE = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


@dataclass(frozen=True)
class Case:
    """A model to compare: `peer` holds config fields with which mlx-lm runs the same mathematics.

    `idle_layer` gives the peer one more layer that adds nothing: its Llama wants at least one full attention.
    """

    family: str
    changes: dict[str, object]
    peer: dict[str, object] | None = None
    idle_layer: bool = False


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


def prompt(seed: int = 1) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(3, 300, PROMPT_TOKENS)]


def peer_run(
    folder: Path, config: dict[str, object] | None, tokens: Sequence[int]
) -> tuple[mx.array, list[int]]:
    """mlx-lm's logits of the whole prompt (tokens, vocab) and its greedy continuation."""
    model, _ = load_peer(folder, strict=True, model_config=config or {})
    cache = make_prompt_cache(model)
    logits = model(mx.array(tokens)[None], cache=cache)[0]
    generated: list[int] = []
    last = logits[-1]
    for _ in range(GREEDY_TOKENS):
        generated.append(int(mx.argmax(last).item()))
        last = model(mx.array([[generated[-1]]]), cache=cache)[0, -1]
    return logits, generated


def with_idle_layer(folder: Path, twin: Path) -> Path:
    """A copy of the 3-layer model in `folder` with a fourth layer whose outputs are all zero."""
    shutil.copytree(folder, twin)
    tensors = load_file(twin / "model.safetensors")
    for name in [name for name in tensors if name.startswith("model.layers.2.")]:
        idle = name.replace("layers.2.", "layers.3.")
        tensors[idle] = (
            np.zeros_like(tensors[name]) if "o_proj" in name or "down_proj" in name else tensors[name]
        )
    save_file(tensors, twin / "model.safetensors")
    return twin


def our_logits(model: LoadedModel, tokens: Sequence[int], chunk: int) -> mx.array:
    """Logits after the last of every chunk, one row per chunk, then what a decode of 64 tokens says."""
    runner, table = Runner(model), PageTable()
    rows: list[mx.array] = []
    for begin in range(0, len(tokens), chunk):
        row = runner.next_logits(table, tokens[begin : begin + chunk])
        mx.eval(row)
        runner.trim(table)
        rows.append(row)
    runner.free(table)
    return mx.stack(rows)


def our_greedy(model: LoadedModel, tokens: Sequence[int], chunk: int) -> list[int]:
    runner, table = Runner(model), PageTable()
    for begin in range(0, len(tokens) - 1, chunk):
        runner.prefill(table, tokens[begin : min(begin + chunk, len(tokens) - 1)])
        runner.trim(table)
    generated, step = [], [tokens[-1]]
    for _ in range(GREEDY_TOKENS):
        token = int(mx.argmax(runner.next_logits(table, step)).item())
        runner.trim(table)
        generated.append(token)
        step = [token]
    runner.free(table)
    assert model.pager.pages_used == 0
    return generated


def assert_close(ours: mx.array, theirs: mx.array) -> None:
    error = mx.abs(ours - theirs).max() / mx.abs(theirs).max()
    assert error.item() <= 1e-4


@pytest.mark.parametrize("name", CASES)
def test_logits_and_greedy_tokens_equal_mlx_lm_in_every_chunking(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    folder = write_random_model(tmp_path / "model", case.family, **case.changes)
    tokens = prompt()
    peer_folder = with_idle_layer(folder, tmp_path / "twin") if case.idle_layer else folder
    theirs, greedy = peer_run(peer_folder, case.peer, tokens)
    model = load_model(folder, EngineSettings(), lambda done, total: None)
    for chunk in (1, 7, 16, 17, 64, PROMPT_TOKENS):
        ends = [min(begin + chunk, PROMPT_TOKENS) - 1 for begin in range(0, PROMPT_TOKENS, chunk)]
        assert_close(our_logits(model, tokens, chunk), theirs[mx.array(ends)])
        assert our_greedy(model, tokens, chunk) == greedy


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(
    ("family", "tied"), [("llama", True), ("qwen2", False), ("qwen3", True), ("mistral", False)]
)
def test_quantised_models_equal_mlx_lm(family: str, tied: bool, bits: int, tmp_path: Path) -> None:
    plain = write_random_model(tmp_path / "plain", family, head_dim=8, tie_word_embeddings=tied)
    model, config = load_peer(plain)
    model, config = quantize_model(model, config, group_size=32, bits=bits)
    folder = tmp_path / "quantised"
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder)
    tokens = prompt()
    theirs, greedy = peer_run(folder, None, tokens)
    ours = load_model(folder, EngineSettings(), lambda done, total: None)
    assert_close(our_logits(ours, tokens, 64)[-1], theirs[-1])
    assert our_greedy(ours, tokens, 64) == greedy


def test_pages_that_are_no_neighbours_give_the_same_tokens(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    tokens = prompt()
    _, greedy = peer_run(folder, None, tokens)
    model = load_model(folder, EngineSettings(), lambda done, total: None)
    others = [PageTable() for _ in range(24)]
    for other in others:
        model.pager.grow(other, 16)
    for other in others[::2]:
        model.pager.free(other)
    runner, table = Runner(model), PageTable()
    runner.prefill(table, tokens[:-1])
    assert len(model.pager.spans(table, 0, len(tokens) - 1)) > 5
    generated, step = [], [tokens[-1]]
    for _ in range(GREEDY_TOKENS):
        step = [int(mx.argmax(runner.next_logits(table, step)).item())]
        generated += step
    assert generated == greedy


def test_a_window_over_every_layer_keeps_only_its_pages(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model", "mistral", sliding_window=32)
    model = load_model(folder, EngineSettings(prefill_chunk=16), lambda done, total: None)
    runner, table = Runner(model), PageTable()
    for begin in range(0, PROMPT_TOKENS, 16):
        runner.prefill(table, prompt()[begin : begin + 16])
        runner.trim(table)
        assert model.pager.pages_used <= 32 // 16 + 1
    assert model.pager.total_pages < PROMPT_TOKENS // 16


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
