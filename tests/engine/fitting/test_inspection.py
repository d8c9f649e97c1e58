"""What headers alone tell of a model equals what loading it measures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlx_lm.utils import load_model as load_peer
from mlx_lm.utils import quantize_model, save_model

from engine import EngineSettings, ModelError, inspect_model
from engine.loading.model import load_model
from tests.fakes.random_model import write_random_model, write_tokenizer


@pytest.fixture(params=["plain", "tied", "quantised"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = write_random_model(
        tmp_path / "m", "qwen3", head_dim=16, tie_word_embeddings=request.param == "tied"
    )
    if request.param == "quantised":
        model, config = quantize_model(*load_peer(folder), group_size=32, bits=8)
        save_model(folder, model)
        (folder / "config.json").write_text(json.dumps(config))
        write_tokenizer(folder)
    return folder


def test_headers_tell_what_loading_measures(folder: Path) -> None:
    summary = inspect_model(folder)
    info = load_model(folder, EngineSettings(), lambda done, total: None).info
    assert summary.parameters == info.parameters
    assert summary.weight_bytes == info.weight_bytes
    assert summary.kv_bytes_per_token * info.page_size == info.page_bytes
    assert (summary.name, summary.family, summary.dtype) == (info.name, info.family, info.dtype)


def test_an_output_projection_that_is_tied_away_counts_nowhere(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    summary, told = inspect_model(folder), list[tuple[int, int]]()
    info = load_model(folder, EngineSettings(), lambda done, total: told.append((done, total))).info
    assert summary.weight_bytes == info.weight_bytes == told[-1][0] == told[-1][1]
    assert summary.parameters == info.parameters


def test_quantisation_is_put_in_words(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "m")
    assert inspect_model(folder).quantization is None
    config = json.loads((folder / "config.json").read_text())
    quantization = {"bits": 4, "group_size": 64, "lm_head": {"bits": 8, "group_size": 64}}
    (folder / "config.json").write_text(json.dumps({**config, "quantization": quantization}))
    assert inspect_model(folder).quantization == "4-bit, groups of 64 (affine), some layers differ"


def test_a_folder_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no model folder"):
        inspect_model(tmp_path / "x")
