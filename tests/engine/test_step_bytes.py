"""What a decode step moves, counted by the emulator: weights once, keys and values once per KV head."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.utils import load_model as load_peer
from mlx_lm.utils import quantize_model, save_model

from engine.kernels.choice import KernelChoice
from engine.kernels.kernels import Kernels
from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel, load_model
from engine.runner import Runner
from engine.settings import EngineSettings
from metal.emulator import Emulator, LaunchReport, Mode
from metal.executors import EmulatedExecutor
from tests.fakes.random_model import write_random_model, write_tokenizer
from tests.metal.conftest import BUILD

CONTEXT = 600
LAYERS, KV_HEADS, HEAD_DIM, WIDTH, VOCAB = 3, 1, 64, 512, 320
SHAPE = {
    "hidden_size": WIDTH,
    "intermediate_size": 1024,
    "head_dim": HEAD_DIM,
    "num_attention_heads": 8,
    "num_key_value_heads": KV_HEADS,
}


def model_folder(folder: Path, bits: int) -> Path:
    plain = write_random_model(folder / "plain", **SHAPE)
    if not bits:
        return plain
    model, config = load_peer(plain)
    model, config = quantize_model(model, config, group_size=64, bits=bits)
    save_model(folder / "packed", model)
    (folder / "packed" / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder / "packed")
    return folder / "packed"


def counted(model: LoadedModel, bytes_read: Counter[str]) -> Runner:
    """A runner on the emulator that adds up the bytes each array of a kernel is read for.

    Lanes that share a group load its scale and bias each, in one access of the simdgroup: there, lines count.
    """

    def observe(_name: str, report: LaunchReport) -> None:
        for array, traffic in report.traffic.items():
            is_shared = array in ("scales", "biases")
            bytes_read[array] += traffic.lines_read * 128 if is_shared else traffic.bytes_read

    assert model.kernels is not None
    executor = EmulatedExecutor(Emulator(BUILD, Mode.CHECKED), observe)
    choice = KernelChoice("emulated", executor, model.kernels.choice.selection, is_forced=True)
    model.kernels = Kernels(choice, model.decoder)
    return Runner(model)


@pytest.mark.parametrize("bits", [0, 4])
def test_a_step_reads_weights_and_pages_once(bits: int, executor_name: str, tmp_path: Path) -> None:
    if executor_name != "emulated":
        pytest.skip("bytes are counted by the emulator")
    settings = EngineSettings(executor="emulated", cache=BUILD.parent)
    model = load_model(model_folder(tmp_path, bits), settings, lambda done, total: None)
    bytes_read: Counter[str] = Counter()
    runner = counted(model, bytes_read)
    table = PageTable()
    runner.prefill(table, [7 + token % 90 for token in range(CONTEXT)])
    bytes_read.clear()
    mx.eval(runner.decode([table], mx.array([9], dtype=mx.uint32)))

    assert sum(bytes_read[name] for name in ("weight", "scales", "biases")) == pytest.approx(
        product_bytes(model), rel=0.05
    )
    pages = LAYERS * KV_HEADS * CONTEXT * HEAD_DIM * 4
    assert bytes_read["keys"] == pytest.approx(pages, rel=0.05)
    assert bytes_read["values"] == pytest.approx(pages, rel=0.05)
    assert bytes_read["table"] <= WIDTH * 4  # one row of the embedding


def product_bytes(model: LoadedModel) -> float:
    """Bytes of the weights in products: all but norms, and the embedding, of which a step reads one row."""
    spec = model.config.quantization
    per_weight = 4.0 if spec is None else spec.default.bits / 8 + 2 * 4 / spec.default.group_size
    norms = WIDTH * 4 * (2 * LAYERS + 1)
    return model.info.weight_bytes - norms - VOCAB * WIDTH * per_weight
