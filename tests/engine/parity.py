"""The same tokens through mlx-lm and through our pages: the oracle of the runner's tests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model as load_peer
from mlx_lm.utils import quantize_model, save_model
from safetensors.numpy import load_file, save_file

from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel
from engine.runner import Runner
from tests.fakes.random_model import write_random_model, write_tokenizer

PROMPT_TOKENS = 200
GREEDY_TOKENS = 64


@dataclass(frozen=True)
class Case:
    """A model to compare: `peer` holds config fields with which mlx-lm runs the same mathematics.

    `idle_layer` gives the peer one more layer that adds nothing: its Llama wants at least one full attention.
    """

    family: str
    changes: dict[str, object]
    peer: dict[str, object] | None = None
    idle_layer: bool = False


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


def peer_of(case: Case, folder: Path, tokens: Sequence[int]) -> tuple[Path, mx.array, list[int]]:
    """The model of `case`, written in `folder`, and what `peer_run` gives for it."""
    model = write_random_model(folder / "model", case.family, **case.changes)
    twin = with_idle_layer(model, folder / "twin") if case.idle_layer else model
    return model, *peer_run(twin, case.peer, tokens)


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


def quantised(folder: Path, to: Path, bits: int) -> Path:
    """The model in `folder` as mlx-lm quantises it, in groups of 32, written to `to`."""
    model, config = load_peer(folder)
    model, config = quantize_model(model, config, group_size=32, bits=bits)
    save_model(to, model)
    (to / "config.json").write_text(json.dumps(config))
    write_tokenizer(to)
    return to


def our_logits(model: LoadedModel, tokens: Sequence[int], chunk: int) -> mx.array:
    """Logits after the last of every chunk, one row per chunk, then what a decode of 64 tokens says."""
    runner, table = Runner(model), PageTable()
    rows: list[mx.array] = []
    for begin in range(0, len(tokens), chunk):
        row = runner.next_logits(table, tokens[begin : begin + chunk])
        mx.eval(row)
        model.memory.trim(table)
        rows.append(row)
    model.memory.free(table)
    return mx.stack(rows)


def our_greedy(
    model: LoadedModel, tokens: Sequence[int], chunk: int, count: int = GREEDY_TOKENS
) -> list[int]:
    runner, table = Runner(model), PageTable()
    for begin in range(0, len(tokens) - 1, chunk):
        runner.prefill(table, tokens[begin : min(begin + chunk, len(tokens) - 1)])
        model.memory.trim(table)
    generated, step = [], [tokens[-1]]
    for _ in range(count):
        token = int(mx.argmax(runner.next_logits(table, step)).item())
        model.memory.trim(table)
        generated.append(token)
        step = [token]
    model.memory.free(table)
    assert model.pager.pages_used == 0
    return generated


def assert_close(ours: mx.array, theirs: mx.array) -> None:
    error = mx.abs(ours - theirs).max() / mx.abs(theirs).max()
    assert error.item() <= 1e-4
