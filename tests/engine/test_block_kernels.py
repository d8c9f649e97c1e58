"""Models in GGUF's blocks run on kernels that read these, each part of a layer in its own format."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from engine import EngineSettings, Finished, Generate, ModelInfo
from engine.kernels.block_cases import block_end_specs, block_product_specs
from engine.kernels.cases import attention_specs, build_case, norm_spec
from engine.kernels.choice import KernelChoice
from engine.kernels.ops import KernelOps
from engine.layers.linear import QuantizedLinear
from engine.layers.matrix import BlockTensor
from engine.loading.gguf.files import GgufFiles
from engine.loading.model import load_model, open_model
from metal.block_types import Q4_K
from metal.candidates_matmul import matmul_spec
from metal.selection import Selection
from metal.trial_cache import TrialCache
from metal.trial_record import CandidateRecord, OpRecord
from metal.trial_scope import ExecutorName, Scope, open_executor
from tests.engine.loading.gguf.writer import WIDE, Types, q4_k_m, write_gguf_model
from tests.fakes.listener import running_engine
from tests.metal.conftest import BUILD
from tests.metal.numbers import normal, wide
from tests.metal.random_blocks import oracle, random_blocks

TOKENS = 5
SHAPE = {**WIDE, "head_dim": 64, "num_attention_heads": 4, "num_key_value_heads": 2}


def answered(file: Path, executor: str) -> tuple[ModelInfo, Finished]:
    settings = EngineSettings(executor=executor, cache=BUILD.parent)
    with running_engine(settings) as listener:
        info = listener.load(file).model
        listener.submit(Generate("request", tokens=(1, 40, 50), max_tokens=TOKENS, ignore_eos=True))
        return info, listener.finished("request")


def test_a_model_of_mixed_formats_runs_on_its_blocks(executor_name: str, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    write_gguf_model(file, types=q4_k_m, **SHAPE)  # type: ignore[arg-type]
    info, finished = answered(file, executor_name)
    assert (info.executor, info.kernel_notes) == (executor_name, ())
    launches = Counter(dict(finished.launches))
    # Of a layer qkv, output, gate and up, down; the first has its values in another format; and the logits.
    assert launches["matvec_blocks"] == TOKENS * (5 + 4 + 1)
    assert launches["embed"] == TOKENS
    assert launches["mlx.Matmul"] == 0
    assert answered(file, "reference")[1].tokens == finished.tokens


def joined_differently(name: str) -> Type:
    """Gates and ups in two formats, keys in a third: neighbours that are not one matrix."""
    return Type.Q8_0 if name.endswith(("ffn_up.weight", "attn_k.weight")) else q4_k_m(name)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("types", [q4_k_m, joined_differently])
def test_the_table_of_a_model_holds_what_the_engine_asks_for(
    types: Types, *, tied: bool, tmp_path: Path
) -> None:
    file = tmp_path / "model.gguf"
    write_gguf_model(file, "qwen2", types=types, tie_word_embeddings=tied, **SHAPE)  # type: ignore[arg-type]
    model = load_model(file, EngineSettings(executor="emulated", cache=tmp_path), lambda done, total: None)
    files, dtype = open_model(file).weights, getattr(mx, model.info.dtype)
    assert isinstance(files, GgufFiles)
    specs = (
        *attention_specs(files.config, dtype, 16),
        norm_spec(files.config, dtype),
        *block_product_specs(files, dtype),
        *block_end_specs(files, dtype),
    )
    assert model.kernels is not None
    executor = open_executor("emulated", tmp_path)
    assert {build_case(spec, executor).key for spec in specs} == set(model.kernels.choice.answers())
    assert model.info.kernel_notes == ()


@pytest.mark.parametrize(("rows", "kernel"), [(9, "matmul_blocks"), (33, "dequantize_blocks")])
def test_a_prompt_runs_on_the_kernel_that_was_measured_to_be_fastest(
    rows: int, kernel: str, executor_name: ExecutorName, tmp_path: Path
) -> None:
    packed = random_blocks(Q4_K, 40, 256, np.random.default_rng(0))
    bias = normal((40,), seed=2)
    linear = QuantizedLinear(BlockTensor(mx.array(packed), Q4_K), bias)
    x, residual = normal((rows, 256), seed=1), normal((rows, 40), seed=3)
    executor, scope = open_executor(executor_name, BUILD), Scope("a machine", "0.32.4", executor_name)
    case = build_case(matmul_spec("Q4_K", 256, 40, 32, "float32"), executor)
    candidates = tuple(
        CandidateRecord(one.name, one.digest, "chosen" if one.name == kernel else "slower", microseconds=9.0)
        for one in case.contenders
    )
    record = OpRecord(case.key, kernel, candidates)
    TrialCache(tmp_path / "tried", scope).update(lambda records: records.update({record.key: record}))
    exact = wide(x) @ oracle(packed, Q4_K).astype(np.float64).T + wide(bias) + wide(residual)
    for folder, launched in ((tmp_path / "tried", 1), (tmp_path / "new", 0)):
        launches: Counter[str] = Counter()
        choice = KernelChoice(executor_name, executor, Selection(folder, scope), is_forced=True)
        y = KernelOps(choice, launches, layers=1).add(residual, x, linear)
        assert launches == ({kernel: 1} if launched else {})
        assert np.abs(wide(y) - exact).max() <= 1e-5 * np.abs(exact).max()
