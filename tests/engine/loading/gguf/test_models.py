"""Whole models in GGUF compute what mlx-lm does with the same weights, dequantised by the gguf package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter, RopeScalingType
from safetensors.numpy import save_file

from engine.loading.model import load_model
from engine.settings import EngineSettings
from tests.engine.loading.gguf.writer import WIDE, Types, every_matrix, q4_k_m, write_gguf_model
from tests.engine.parity import our_greedy, our_logits, peer_run, prompt
from tests.fakes.random_model import random_config

TOLERANCE = {"float32": 1e-3, "float16": 0.08, "bfloat16": 0.08}
"""Greatest error of a logit, as a share of the greatest logit, by what the model computes in; its twin has
float32. The model of random Q5_K blocks makes twenty times the rounding errors of others: 5e-5, and up to
0.05 in float16, on a CPU as on a GPU."""

_LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_ORIGINAL = 64


def llama3_factors(dims: int, theta: float) -> np.ndarray:
    """`rope_freqs.weight` as llama.cpp's converter computes it for Llama 3's scaling."""
    wavelengths = 2 * np.pi * theta ** (np.arange(0, dims, 2) / dims)
    low, high, factor = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"], _LLAMA3["factor"]
    smooth = np.clip((_ORIGINAL / wavelengths - low) / (high - low), 0, 1)
    return 1 / ((1 - smooth) / factor + smooth)


def linear(writer: GGUFWriter) -> None:
    writer.add_rope_scaling_type(RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(4.0)


def yarn(writer: GGUFWriter) -> None:
    writer.add_rope_scaling_type(RopeScalingType.YARN)
    writer.add_rope_scaling_factor(4.0)
    writer.add_rope_scaling_orig_ctx_len(_ORIGINAL)


@dataclass(frozen=True)
class Case:
    """A GGUF file: its family, storage, shape and more; `peer`: what mlx-lm's config has besides."""

    family: str
    types: Types
    changes: Mapping[str, object] = field(default_factory=dict)
    peer: Mapping[str, object] = field(default_factory=dict)
    more: Mapping[str, object] = field(default_factory=dict)


_MATRICES = (Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q5_1, Type.Q4_0, Type.Q2_K, Type.Q5_K, Type.MXFP4)
CASES = {
    **{f"llama-{kind.name}": Case("llama", every_matrix(kind)) for kind in _MATRICES},
    "llama-mix": Case("llama", q4_k_m),
    "llama-tied": Case("llama", q4_k_m, {"tie_word_embeddings": True}),
    "llama-biases": Case("llama", every_matrix(Type.Q8_0), {"attention_bias": True, "mlp_bias": True}),
    "llama-rope-factors": Case(
        "llama",
        q4_k_m,
        {"rope_theta": 500000.0},
        {"rope_scaling": {"rope_type": "llama3", "original_max_position_embeddings": _ORIGINAL, **_LLAMA3}},
        {"rope_factors": llama3_factors(32, 500000.0)},
    ),
    "llama-linear": Case(
        "llama",
        every_matrix(Type.Q4_0),
        peer={"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
        more={"metadata": linear},
    ),
    "mistral-head-dim": Case("mistral", every_matrix(Type.Q4_0), {"head_dim": 64}),
    "qwen2-mix": Case("qwen2", q4_k_m),
    "qwen2-tied": Case("qwen2", every_matrix(Type.Q8_0), {"tie_word_embeddings": True}),
    "qwen3-mix": Case("qwen3", q4_k_m, {"head_dim": 64}),
    "qwen3-yarn": Case(
        "qwen3",
        every_matrix(Type.F16),
        {"head_dim": 64},
        peer={
            "rope_scaling": {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": _ORIGINAL,
            }
        },
        more={"metadata": yarn},
    ),
}


_LONG = {
    "llama-F32",
    "llama-F16",
    "llama-Q8_0",
    "llama-Q5_1",
    "llama-Q5_K",
    "llama-mix",
    "llama-MXFP4",
    "qwen2-tied",
    "qwen3-mix",
}
"""Cases that others cover in part."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in _LONG else []) for name in CASES]
)
def test_logits_and_greedy_tokens_equal_the_dequantised_twin(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    file = tmp_path / "model.gguf"
    changes = {**WIDE, **case.changes}
    tensors = write_gguf_model(file, case.family, types=case.types, **case.more, **changes)  # type: ignore[arg-type]
    twin = tmp_path / "twin"
    twin.mkdir()
    save_file(
        {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, twin / "model.safetensors"
    )
    (twin / "config.json").write_text(json.dumps(random_config(case.family, **{**changes, **case.peer})))
    tokens = prompt()
    theirs, greedy = peer_run(twin, None, tokens)
    model = load_model(file, EngineSettings(), lambda done, total: None)
    ours = our_logits(model, tokens, 40)
    error = mx.abs(ours - theirs[39::40]).max() / mx.abs(theirs).max()
    assert error.item() <= TOLERANCE[model.info.dtype]
    if model.info.dtype == "float32":  # else a token near the edge of two may be the other
        assert our_greedy(model, tokens, 64) == greedy
