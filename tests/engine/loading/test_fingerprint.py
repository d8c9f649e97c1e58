"""Models by a sample of their bytes: the same for the same model anywhere, and another for most others."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from engine.errors import ModelError
from engine.loading.fingerprint import SAMPLE, ModelContent, sampled_fingerprint, tensor_digest
from engine.loading.safetensors_file import StoredTensor
from tests.fakes.random_model import write_random_model


def fingerprint(folder: Path) -> str:
    config = json.loads((folder / "config.json").read_text())
    return sampled(config, *sorted(folder.glob("*.safetensors")))


def sampled(config: dict[str, object], *files: Path) -> str:
    return sampled_fingerprint(ModelContent.of_safetensors(config, files))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("model"))


def copy(model: Path, to: Path) -> Path:
    shutil.copytree(model, to)
    return to


def test_it_is_32_digits_and_always_the_same(model: Path) -> None:
    assert len(bytes.fromhex(fingerprint(model))) == 16
    assert fingerprint(model) == fingerprint(model)


def test_a_model_that_moved_is_the_same(model: Path, tmp_path: Path) -> None:
    assert fingerprint(copy(model, tmp_path / "elsewhere")) == fingerprint(model)


def test_how_tensors_are_spread_over_files_does_not_matter(model: Path, tmp_path: Path) -> None:
    assert fingerprint(write_random_model(tmp_path, shards=3)) == fingerprint(model)


def change_config(folder: Path, **entries: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(reversed([*(config | entries).items()]))))


def test_entries_that_change_no_key_or_value_do_not_matter(model: Path, tmp_path: Path) -> None:
    moved = copy(model, tmp_path / "moved")
    change_config(moved, _name_or_path="/somewhere", transformers_version="9.9", eos_token_id=[1, 2])
    assert fingerprint(moved) == fingerprint(model)


@pytest.mark.parametrize(
    "entries",
    [{"rope_theta": 5e5}, {"num_key_value_heads": 1}, {"quantization": {"bits": 4}}, {"unknown": 1}],
)
def test_every_other_entry_of_the_config_matters(
    model: Path, tmp_path: Path, entries: dict[str, object]
) -> None:
    changed = copy(model, tmp_path / "changed")
    change_config(changed, **entries)
    assert fingerprint(changed) != fingerprint(model)


def changed_tensor(tensors: dict[str, Any], how: str) -> None:
    name = "model.layers.1.self_attn.k_proj.weight"
    tensor = tensors[name]
    if how == "renamed":
        tensors["other"] = tensors.pop(name)
    elif how == "missing":
        del tensors[name]
    elif how == "dtype":
        tensors[name] = tensor.view(np.int32)
    elif how == "shape":
        tensors[name] = np.ascontiguousarray(tensor.reshape(tensor.shape[::-1]))
    else:
        flat = tensor.reshape(-1)
        flat[0 if how == "first number" else -1] += np.float32(1e-4)


@pytest.mark.parametrize("how", ["renamed", "missing", "dtype", "shape", "first number", "last number"])
def test_every_tensor_matters(model: Path, tmp_path: Path, how: str) -> None:
    tuned = copy(model, tmp_path / "tuned")
    file = next(tuned.glob("*.safetensors"))
    tensors = load_file(file)
    changed_tensor(tensors, how)
    save_file(tensors, file)
    assert fingerprint(tuned) != fingerprint(model)


@pytest.mark.parametrize("bytes_", [SAMPLE - 1, 2 * SAMPLE, 2 * SAMPLE + 1, 5 * SAMPLE])
def test_both_ends_of_a_tensor_are_read(tmp_path: Path, bytes_: int) -> None:
    seen: set[str] = set()
    for changed in (None, 0, bytes_ // 2 if bytes_ <= 2 * SAMPLE else SAMPLE - 1, bytes_ - 1):
        tensor = np.zeros(bytes_, np.uint8)
        if changed is not None:
            tensor[changed] = 1
        save_file({"before": np.ones(77, np.uint8), "tensor": tensor}, tmp_path / "m.safetensors")
        seen.add(sampled({}, tmp_path / "m.safetensors"))
    assert len(seen) == 4


@pytest.mark.parametrize("bytes_", [0, 1, 999, 1000, 1001, 12_345])
def test_all_data_of_a_tensor_and_nothing_else_is_digested(
    tmp_path: Path, bytes_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.loading.fingerprint.PIECE", 1000)
    data, file = np.random.default_rng(0).bytes(bytes_), tmp_path / "weights"
    file.write_bytes(b"before" + data + b"behind")
    tensor = StoredTensor("t", "U8", (bytes_,), file, 6, 6 + bytes_)
    assert tensor_digest(tensor) == hashlib.sha256(data).digest()


def test_a_file_that_became_shorter_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"12345")
    with pytest.raises(ModelError, match="weights became shorter"):
        tensor_digest(StoredTensor("t", "U8", (9,), tmp_path / "weights", 0, 9))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"gone\.safetensors cannot be read"):
        sampled({}, tmp_path / "gone.safetensors")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(header=st.binary(max_size=60), length=st.none() | st.integers(0, (1 << 64) - 1))
def test_a_file_that_is_none_of_safetensors_is_said_to_be_damaged(
    tmp_path: Path, header: bytes, length: int | None
) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes((len(header) if length is None else length).to_bytes(8, "little") + header)
    try:
        json.loads(header)
    except ValueError:
        with pytest.raises(ModelError, match="damaged or no safetensors file"):
            sampled({}, path)


@pytest.mark.parametrize(
    "header",
    [
        "[]",
        "7",
        '{"a": 7}',
        '{"a": {"dtype": "F32", "shape": [1]}}',
        '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}',
        '{"a": {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]}}',
        '{"a": {"dtype": "F32", "shape": [1], "data_offsets": ["x", 4]}}',
        '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}',
        '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [-99, 4]}}',
        "[" * 100_000,
        '{"' + "a" * 10_000 + '": {"dtype": "F32", "shape": [1], "data_offsets": [0, 99]}}',
    ],
)
def test_a_header_that_makes_no_sense_is_damage(tmp_path: Path, header: str) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode())
    with pytest.raises(ModelError, match="damaged or no safetensors file"):
        sampled({}, path)
