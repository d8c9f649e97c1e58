"""What headers tell of a model equals what inspecting it tells; what is not whole is refused."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import mlx.core as mx
import pytest
from gguf import GGMLQuantizationType as Type

from engine import EngineSettings, ModelError, inspect_model, outline_model
from engine.loading.model import load_model
from engine.machine.machine import device_kind
from engine.settings import EXECUTOR_VARIABLE
from tests.engine.loading.gguf.writer import WIDE, every_matrix, q4_k_m, write_gguf_model
from tests.fakes.random_model import write_random_model


def agrees(path: Path) -> bool:
    """Whether the outline says of `path` what inspection says."""
    outline, summary = outline_model(path), inspect_model(path)
    names = ("family", "parameters", "quantization", "weight_bytes", "context_length", "kv_bytes_per_token")
    return [getattr(outline, name) for name in names] == [getattr(summary, name) for name in names]


def test_a_folder_is_told_from_its_headers(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "m", "qwen3", head_dim=16, shards=2, tie_word_embeddings=True)
    assert agrees(folder)
    outline = outline_model(folder)
    assert (outline.format, outline.problem) == ("safetensors", "")
    assert [file.name for file in outline.files] == [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "tokenizer.model",
    ]


def test_a_gguf_file_is_told_with_its_parts_and_licence(tmp_path: Path) -> None:
    write_gguf_model(
        tmp_path / "m.gguf",
        types=q4_k_m,
        parts=2,
        metadata=lambda writer: writer.add_license("apache-2.0"),
        **WIDE,
    )
    first = tmp_path / "m-00001-of-00002.gguf"
    assert agrees(first)
    outline = outline_model(first)
    assert (outline.format, outline.licence, len(outline.files)) == ("gguf", "apache-2.0", 2)


def assert_holds_what_is_told(file: Path, kind: str) -> None:
    """Write a model, read its headers, load it, and compare with MLX's own count of bytes."""
    types = q4_k_m if kind == "Q4_K_M" else every_matrix(Type[kind])
    write_gguf_model(file, types=types, vocab_size=4096, **WIDE)
    gc.collect()
    before = mx.get_active_memory()
    told = outline_model(file).weight_bytes
    model = load_model(file, EngineSettings(), lambda done, total: None)
    held = mx.get_active_memory() - before
    assert told > 1_500_000
    rounding = 0 if device_kind() == "CPU" else 1 << 18  # a GPU's memory comes by pages of 16 KiB
    assert told <= held <= told + 65_536 + rounding  # rotary tables and such
    assert model.info.weight_bytes == told


EVERY_KIND = pytest.mark.parametrize("kind", ["Q4_0", "Q8_0", "Q4_K", "Q6_K", "F16", "Q4_K_M"])


@EVERY_KIND
def test_headers_tell_the_bytes_that_mlx_holds_without_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv(EXECUTOR_VARIABLE, "reference")
    assert_holds_what_is_told(tmp_path / "m.gguf", kind)


@EVERY_KIND
def test_headers_tell_the_bytes_that_mlx_holds_with_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor_name: str, kind: str
) -> None:
    monkeypatch.setenv(EXECUTOR_VARIABLE, executor_name)
    assert_holds_what_is_told(tmp_path / "m.gguf", kind)


def test_the_same_weights_elsewhere_have_the_same_fingerprint(tmp_path: Path) -> None:
    one, other = write_random_model(tmp_path / "a"), write_random_model(tmp_path / "b")
    different = write_random_model(tmp_path / "c", seed=1)
    assert outline_model(one).fingerprint == outline_model(other).fingerprint
    assert outline_model(one).fingerprint != outline_model(different).fingerprint


def test_a_model_that_is_not_run_is_described_with_the_reason(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "m")
    parameters = outline_model(folder).parameters
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "gemma2"}))
    outline = outline_model(folder)
    assert (outline.family, outline.parameters) == ("gemma2", parameters)
    assert "gemma2" in outline.problem


@pytest.mark.parametrize("missing", ["model-00002-of-00002.safetensors", "tokenizer.model", "config.json"])
def test_a_folder_that_is_not_whole_is_no_model(tmp_path: Path, missing: str) -> None:
    folder = write_random_model(tmp_path / "m", shards=2)
    (folder / missing).unlink()
    with pytest.raises(ModelError):
        outline_model(folder)


def test_a_file_that_is_cut_short_is_no_model(tmp_path: Path) -> None:
    write_gguf_model(tmp_path / "m.gguf")
    whole = (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "m.gguf").write_bytes(whole[:-1])
    with pytest.raises(ModelError, match="cut short"):
        outline_model(tmp_path / "m.gguf")
