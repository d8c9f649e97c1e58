"""Weights on disk that are missing, cut short or misshapen, and what is said of them."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from engine.errors import ModelError
from engine.loading.model import load_model
from engine.loading.safetensors_weights import SafetensorsWeights, read_headers
from engine.settings import EngineSettings
from tests.fakes.random_model import random_config, random_tensors, write_random_model


def load(folder: Path) -> list[tuple[int, int]]:
    progress: list[tuple[int, int]] = []
    load_model(folder, EngineSettings(), lambda done, total: progress.append((done, total)))
    return progress


def test_shards_hold_the_same_tensors_as_one_file(tmp_path: Path) -> None:
    one = read_headers(write_random_model(tmp_path / "one"))
    folder = write_random_model(tmp_path / "many", shards=3)
    many = read_headers(folder)
    assert {name: header.shape for name, header in one.items()} == {
        name: header.shape for name, header in many.items()
    }
    assert len({header.file for header in many.values()}) == 3
    weights = SafetensorsWeights(many, mx.float32, None, lambda size: None)
    expected = random_tensors(random_config())["model.layers.2.mlp.up_proj.weight"]
    loaded = weights.at("model.layers.2.mlp.up_proj").array("weight", expected.shape)
    np.testing.assert_array_equal(np.array(loaded), expected)


def test_progress_rises_to_the_bytes_in_the_files(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    progress = load(folder)
    total = sum(header.bytes for header in read_headers(folder).values())
    assert progress[0] == (0, total)
    assert progress[-1] == (total, total)
    assert progress == sorted(progress)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model", shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ModelError, match=r"1 of 3 weight files are missing.*model-00002-of-00003"):
        load(folder)


@pytest.mark.parametrize("keep", [0, 5, 200, 0.5, 0.999])
def test_a_file_cut_short_is_named(keep: float, tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    file = folder / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged or incomplete"):
        load(folder)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ModelError, match=r"tensor model\.layers\.1\.mlp\.up_proj\.weight is missing"):
        load(folder)


def test_a_tensor_of_another_shape_is_named_with_both_shapes(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 128}))
    with pytest.raises(
        ModelError, match=r"gate_proj\.weight has shape \(96, 64\); config\.json asks for \(128, 64\)"
    ):
        load(folder)


def test_weights_of_another_family_are_refused(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model", "qwen3", head_dim=8)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "llama"}))
    with pytest.raises(ModelError, match="6 tensors do not belong to a llama model"):
        load(folder)


def test_derived_buffers_and_a_tied_output_may_be_stored(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model", tie_word_embeddings=True)
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(4, np.float32)
    save_file(tensors, folder / "model.safetensors")
    assert load(folder)


def test_a_folder_without_weights_is_said(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"no \.safetensors weights"):
        load(folder)


def test_scales_without_quantization_settings_are_refused(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.embed_tokens.scales"] = np.ones((320, 2), np.float32)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ModelError, match=r"config\.json has no quantization"):
        load(folder)


@pytest.mark.parametrize("stored", [mx.float16, mx.bfloat16, mx.float32])
def test_stored_half_precision_arrives_in_the_compute_dtype_unchanged(
    stored: mx.Dtype, tmp_path: Path
) -> None:
    values = mx.array(np.random.default_rng(0).standard_normal((4, 6))).astype(stored)
    mx.save_safetensors(str(tmp_path / "model.safetensors"), {"x.weight": values})
    weights = SafetensorsWeights(read_headers(tmp_path), mx.float32, None, lambda size: None)
    loaded = weights.at("x").array("weight", (4, 6))
    assert loaded.dtype == mx.float32
    assert mx.array_equal(loaded, values.astype(mx.float32)).item()


class Trap:
    """Makes the folder `path` when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model-1-of-2.bin", "consolidated.00.pth"])
def test_pickled_weights_are_never_opened(name: str, tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    trap = tmp_path / "sprung"
    (folder / name).write_bytes(pickle.dumps(Trap(trap)))
    with pytest.raises(ModelError, match=f"has only pickled weights \\({name}\\)"):
        load(folder)
    assert not trap.exists()
    pickle.loads((folder / name).read_bytes())
    assert trap.exists()  # it would have shown
