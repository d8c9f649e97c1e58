"""The linear parts of a prompt: a kernel normalises where that was measured to be faster than MLX."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine import EngineSettings
from engine.kernel_cases import build_case, norm_spec
from engine.kernel_choice import KernelChoice
from engine.kernels import Kernels
from engine.layers.attention import AttentionLayer
from engine.layers.ops import BuiltinOps, LinearOps
from engine.loading.model import load_model, open_model
from metal.selection import Selection
from metal.trial_cache import TrialCache
from metal.trial_case import CaseSpec
from metal.trial_record import CandidateRecord, OpRecord
from metal.trial_scope import ExecutorName, Scope, open_executor
from tests.fakes.random_model import write_random_model
from tests.metal.conftest import BUILD
from tests.metal.numbers import wide

LAYERS = 2
SHAPE = {"head_dim": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": LAYERS}


def remember(folder: Path, scope: Scope, spec: CaseSpec, chosen: str) -> None:
    """Writes down a trial that `chosen` won."""
    case = build_case(spec, open_executor(scope.executor, BUILD))
    candidates = tuple(
        CandidateRecord(one.name, one.digest, "chosen" if one.name == chosen else "slower", microseconds=9.0)
        for one in case.contenders
    )
    record = OpRecord(case.key, chosen, candidates)
    TrialCache(folder, scope).update(lambda records: records.update({record.key: record}))


def first_queries(layer: AttentionLayer, qkv: mx.array) -> mx.array:
    return qkv[:, : layer.shape.heads * layer.shape.head_dim]


@pytest.mark.parametrize("chosen", ["mlx", "rms_norm", None])
def test_a_prompt_s_norm_is_the_one_that_was_measured_to_be_faster(
    chosen: str | None, executor_name: ExecutorName, tmp_path: Path
) -> None:
    folder = write_random_model(tmp_path / "model", "llama", **SHAPE)
    decoder = load_model(folder, EngineSettings(executor="reference"), lambda done, total: None).decoder
    scope = Scope("a machine", "0.32.4", executor_name)
    if chosen:
        remember(tmp_path, scope, norm_spec(open_model(folder).config, mx.float32), chosen)
    executor, selection = open_executor(executor_name, BUILD), Selection(tmp_path, scope)
    kernels = Kernels(KernelChoice(executor_name, executor, selection, is_forced=True), decoder)

    def prompt(ops: LinearOps) -> mx.array:
        return decoder.hidden(mx.arange(9, dtype=mx.uint32), ops, first_queries)

    kernels.launches.clear()
    found, expected = wide(prompt(kernels.ops)), wide(prompt(BuiltinOps()))
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
    assert kernels.launches == ({"rms_norm": 2 * LAYERS} if chosen == "rms_norm" else {})
