"""What is told of a model from its first bytes, beside what is told once it is here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import gguf
import pytest
from gguf import GGMLQuantizationType as Type
from safetensors import safe_open

from engine import (
    ModelError,
    ModelShape,
    StoredWeights,
    inspect_model,
    shape_in_config,
    shape_in_gguf,
    sizes_here,
)
from tests.engine.loading.gguf.writer import WIDE, every_matrix, q4_k_m, write_gguf_model
from tests.fakes.random_model import write_random_model

BIG: Mapping[str, object] = {**WIDE, "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4}


@pytest.mark.parametrize("kv_bits", [None, 8])
@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_a_config_and_counts_tell_what_the_headers_tell(
    family: str, kv_bits: int | None, tmp_path: Path
) -> None:
    changes = {"sliding_window": 64} if family == "mistral" else {}
    folder = write_random_model(tmp_path / "model", family, head_dim=32, **changes)
    counts: dict[str, int] = {}
    with safe_open(folder / "model.safetensors", framework="numpy") as tensors:
        for name in tensors.keys():  # noqa: SIM118 — not a mapping
            counts["F32"] = counts.get("F32", 0) + tensors.get_tensor(name).size
    size = (folder / "model.safetensors").stat().st_size
    shape = shape_in_config((folder / "config.json").read_bytes())
    sizes = sizes_here(shape, StoredWeights(size, elements=counts), kv_bits)
    here = inspect_model(folder, kv_bits)
    assert sizes.kv_bytes_per_token == here.kv_bytes_per_token
    assert (sizes.context_length, sizes.largest_window) == (here.context_length, here.largest_window)
    assert sizes.weight_bytes == here.weight_bytes
    assert shape.family == here.family


@pytest.mark.parametrize(
    ("types", "names"),
    [
        (q4_k_m, ("Q4_K", "Q6_K")),
        (every_matrix(Type.Q8_0), ("Q8_0",)),
        (every_matrix(Type.F16), ("F16",)),
        (every_matrix(Type.Q6_K), ("Q6_K",)),
    ],
    ids=["Q4_K_M", "Q8_0", "F16", "Q6_K"],
)
def test_the_first_bytes_of_a_gguf_file_tell_nearly_what_its_headers_tell(
    types: Callable[[str], Type], names: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "model.gguf"
    write_gguf_model(file, types=types, **BIG)
    here = inspect_model(file)
    size = sum(kind.file_bytes for kind in here.kinds)
    shape = shape_in_gguf(file.read_bytes()[:4096], file.name, file.stat().st_size)
    sizes = sizes_here(shape, StoredWeights(size, names, here.parameters))
    assert sizes.kv_bytes_per_token == here.kv_bytes_per_token
    assert (sizes.context_length, shape.family) == (here.context_length, "llama")
    assert sizes.weight_bytes == pytest.approx(here.weight_bytes, rel=0.05)


def test_where_the_bytes_end_does_not_matter_once_the_shape_is_in_them(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    write_gguf_model(file, **WIDE)
    raw = file.read_bytes()
    whole = shape_in_gguf(raw, file.name, len(raw))
    ends = range(0, 2048, 7)
    told = [_told(raw[:end], len(raw)) for end in ends]
    first = told.index(whole)
    assert ends[first] > 500
    assert told[:first] == [None] * first
    assert set(told[first:]) == {whole}


def _told(begin: bytes, size: int) -> ModelShape | None:
    try:
        return shape_in_gguf(begin, "model.gguf", size)
    except ModelError:
        return None


def test_damage_is_no_end(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    write_gguf_model(file, **WIDE)
    raw = bytearray(file.read_bytes())
    raw[24:32] = (1 << 40).to_bytes(8, "little")  # the first key's length
    with pytest.raises(ModelError, match="metadata key 0"):
        shape_in_gguf(bytes(raw), file.name, len(raw))
    with pytest.raises(ModelError, match="no GGUF file"):
        shape_in_gguf(b"<html>" * 20, "model.gguf", 120)


def test_what_is_not_run_is_said(tmp_path: Path) -> None:
    for config in (b"", b"[]", b"{", b"[" * 100_000, b'{"model_type": "bert"}'):
        with pytest.raises(ModelError, match=r"config\.json"):
            shape_in_config(config)
    file = tmp_path / "model.gguf"
    write_gguf_model(file, metadata=lambda writer: writer.add_expert_count(8), **WIDE)
    with pytest.raises(ModelError, match="expert_count"):
        shape_in_gguf(file.read_bytes(), file.name, file.stat().st_size)
    writer = gguf.GGUFWriter(file, "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(ModelError, match="mamba"):
        shape_in_gguf(file.read_bytes(), file.name, file.stat().st_size)


def test_without_counts_the_files_bytes_stand_for_the_weights() -> None:
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    shape = shape_in_config(json.dumps({**config, "intermediate_size": 64, "vocab_size": 8}).encode())
    assert sizes_here(shape, StoredWeights(1000)).weight_bytes == 1000
