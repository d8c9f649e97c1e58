"""mlx-lm's conversion of the same model: what ours is compared with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import mlx.core as mx
from mlx_lm.convert import convert
from safetensors import safe_open

from engine.convert.settings import ConvertSettings
from tests.fakes.random_model import random_config, random_tensors, write_tokenizer


def peer_converts(source: Path, target: Path, settings: ConvertSettings) -> Path:
    spec = settings.spec
    convert(
        str(source),
        str(target),
        quantize=spec is not None,
        q_group_size=spec.group_size if spec else None,
        q_bits=spec.bits if spec else None,
        q_mode=spec.mode if spec else "affine",
        dtype=settings.dtype,
    )
    return target


def tensors_in(folder: Path) -> dict[str, mx.array]:
    """All tensors of a folder, through the index where each is looked for."""
    weight_map = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    files = {file: mx.load(str(folder / file)) for file in set(weight_map.values())}
    return {name: files[file][name] for name, file in weight_map.items()}  # type: ignore[index]


def assert_same_tensors(ours: Path, theirs: Path) -> None:
    """The same names, dtypes and bits."""
    mine, other = tensors_in(ours), tensors_in(theirs)
    assert set(mine) == set(other)
    for name, tensor in other.items():
        assert mine[name].dtype == tensor.dtype, name
        assert mine[name].shape == tensor.shape, name
        assert mx.array_equal(_bits(mine[name]), _bits(tensor)).item(), name


def _bits(tensor: mx.array) -> mx.array:
    return tensor.reshape(-1).view(mx.uint8)


def write_half_model(
    folder: Path, stored: mx.Dtype, family: str = "llama", *, shards: int = 2, **changes: object
) -> Path:
    """A random model stored in `stored`, in several files, with the files that lie beside weights."""
    folder.mkdir(parents=True)
    name = str(stored).removeprefix("mlx.core.")
    config = random_config(family, **{"torch_dtype": name, **changes})
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 5]}))
    tensors = {key: mx.array(value).astype(stored) for key, value in random_tensors(config).items()}
    write_shards(folder, tensors, shards)
    write_tokenizer(folder)
    return folder


def write_shards(folder: Path, tensors: Mapping[str, mx.array], shards: int) -> None:
    names = sorted(tensors)
    for shard in range(shards):
        part = {name: tensors[name] for name in names[shard::shards]}
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        mx.save_safetensors(str(folder / file), part, metadata={"format": "pt"})


def headers_in(file: Path) -> dict[str, tuple[str, list[int]]]:
    """Dtype and shape of each tensor, as the safetensors library reads them."""
    with safe_open(str(file), framework="numpy") as opened:
        parts = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118 — not a mapping
        return {name: (part.get_dtype(), part.get_shape()) for name, part in parts.items()}
