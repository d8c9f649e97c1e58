"""Conversions equal mlx-lm's bit for bit, load in both engines, and say the same."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.utils import load_model as load_peer

from engine.convert import convert as convert_module
from engine.convert.convert import convert_model
from engine.convert.settings import CONVERT_QUANTS, ConvertSettings
from engine.errors import ConversionError, ModelError
from engine.loading.model import load_model
from engine.settings import EngineSettings
from tests.engine.convert.peer import (
    assert_same_tensors,
    headers_in,
    peer_converts,
    tensors_in,
    write_half_model,
    write_shards,
)
from tests.engine.loading.gguf.writer import write_gguf_model
from tests.engine.parity import our_greedy, prompt
from tests.fakes.random_model import random_config, write_random_model

WIDE = {"hidden_size": 128, "intermediate_size": 256}


@pytest.mark.parametrize("quant", CONVERT_QUANTS)
def test_tensors_equal_mlx_lm_s(quant: str, tmp_path: Path) -> None:
    source = write_half_model(tmp_path / "source", mx.bfloat16, **WIDE)
    settings = ConvertSettings(quant)
    convert_model(source, tmp_path / "ours", settings)
    assert_same_tensors(tmp_path / "ours", peer_converts(source, tmp_path / "theirs", settings))


@pytest.mark.parametrize(
    ("settings", "dtype", "family", "changes"),
    [
        (ConvertSettings("q4", 32), mx.float16, "qwen2", {}),
        (
            ConvertSettings("q8", 128),
            mx.float32,
            "qwen3",
            {**WIDE, "head_dim": 16, "tie_word_embeddings": True},
        ),
        (ConvertSettings("q4", 64), mx.bfloat16, "mistral", {}),  # a width of 96 stays plain
        (ConvertSettings("q3", 32, "float16"), mx.float32, "llama", {}),
        (ConvertSettings("q5", 64, "bfloat16"), mx.float16, "llama", WIDE),
        (ConvertSettings("none", None, "float16"), mx.bfloat16, "llama", {}),
        (ConvertSettings("mxfp4", None, "float32"), mx.bfloat16, "llama", {}),
    ],
)
def test_groups_dtypes_and_families(
    settings: ConvertSettings, dtype: mx.Dtype, family: str, changes: dict[str, object], tmp_path: Path
) -> None:
    source = write_half_model(tmp_path / "source", dtype, family, **changes)
    convert_model(source, tmp_path / "ours", settings)
    theirs = peer_converts(source, tmp_path / "theirs", settings)
    assert_same_tensors(tmp_path / "ours", theirs)
    tokens = prompt()[:24]
    said = [
        our_greedy(load_model(folder, EngineSettings(), lambda done, total: None), tokens, 24, 12)
        for folder in (tmp_path / "ours", theirs)
    ]
    assert said[0] == said[1]
    peers = [load_peer(folder)[0] for folder in (tmp_path / "ours", theirs)]
    logits = [peer(mx.array(tokens)[None]) for peer in peers]
    assert mx.array_equal(*logits).item()


def test_without_torch_dtype_each_tensor_keeps_its_own(tmp_path: Path) -> None:
    """As transformers 5 writes it, with norms in single precision."""
    source = write_half_model(tmp_path / "source", mx.bfloat16, shards=1, torch_dtype=None, dtype="bfloat16")
    file = source / "model-00001-of-00001.safetensors"
    tensors = {
        name: tensor.astype(mx.float32) if "norm" in name else tensor + 0
        for name, tensor in _source_tensors(source).items()
    }
    mx.eval(tensors)
    mx.save_safetensors(str(file), tensors)
    settings = ConvertSettings("q4", 32)
    convert_model(source, tmp_path / "ours", settings)
    assert_same_tensors(tmp_path / "ours", peer_converts(source, tmp_path / "theirs", settings))
    assert tensors_in(tmp_path / "ours")["model.norm.weight"].dtype == mx.float32
    assert tensors_in(tmp_path / "ours")["lm_head.scales"].dtype == mx.bfloat16


def test_many_runs_and_many_files_give_the_same_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_half_model(tmp_path / "source", mx.float16, "qwen2", shards=3)
    settings = ConvertSettings("q4", 32)
    convert_model(source, tmp_path / "one", settings)
    monkeypatch.setattr(convert_module, "RUN_BYTES", 700)  # five rows of a narrow matrix
    seen: list[tuple[int, int]] = []
    convert_model(
        source, tmp_path / "many", settings, lambda done, all_: seen.append((done, all_)), shard_bytes=20_000
    )
    assert_same_tensors(tmp_path / "one", tmp_path / "many")
    files = sorted(file.name for file in (tmp_path / "many").glob("*.safetensors"))
    assert len(files) > 2
    assert files == [f"model-{n:05d}-of-{len(files):05d}.safetensors" for n in range(1, len(files) + 1)]
    source_bytes = sum(tensor.nbytes for tensor in _source_tensors(source).values())
    assert seen[0] == (0, source_bytes)
    assert seen[-1] == (source_bytes, source_bytes)
    assert seen == sorted(seen)
    assert len(seen) > 300


def _source_tensors(folder: Path) -> dict[str, mx.array]:
    return {
        name: tensor
        for file in folder.glob("*.safetensors")
        for name, tensor in mx.load(str(file)).items()  # type: ignore[union-attr]
    }


def test_the_result_has_all_a_model_needs(tmp_path: Path) -> None:
    source = write_half_model(
        tmp_path / "source", mx.bfloat16, shards=1, _name_or_path="x/y", rope_scaling=None
    )
    for name in ("modeling.py", "pytorch_model.bin", "LICENSE", "chat_template.jinja"):
        (source / name).write_text(name)
    done = convert_model(source, tmp_path / "q4", ConvertSettings("q4", 32, "float16"))
    names = {file.name for file in (tmp_path / "q4").iterdir()}
    assert names >= {"tokenizer.model", "tokenizer_config.json", "generation_config.json", "LICENSE"}
    assert (tmp_path / "q4" / "chat_template.jinja").read_text() == "chat_template.jinja"
    assert not names & {"modeling.py", "pytorch_model.bin"}
    entry = {"group_size": 32, "bits": 4, "mode": "affine"}
    kept = random_config(torch_dtype="float16", quantization=entry, quantization_config=entry)
    assert json.loads((tmp_path / "q4" / "config.json").read_text()) == kept
    assert done.result_bytes == sum(file.stat().st_size for file in (tmp_path / "q4").iterdir())
    headers = headers_in(tmp_path / "q4" / "model.safetensors")
    assert headers["lm_head.weight"] == ("U32", [320, 8])
    assert headers["model.norm.weight"] == ("F16", [64])
    assert {name for name, tensor in tensors_in(tmp_path / "q4").items() if tensor.dtype == mx.float16} == {
        name for name, (dtype, _) in headers.items() if dtype == "F16"
    }


def test_derived_buffers_and_the_output_of_a_tied_model_are_left_out(tmp_path: Path) -> None:
    source = write_half_model(tmp_path / "source", mx.float16, tie_word_embeddings=True)
    extra = {
        "lm_head.weight": mx.zeros((320, 64), mx.float16),
        "model.layers.0.self_attn.rotary_emb.inv_freq": mx.zeros((4,)),
    }
    (source / "more").mkdir()
    write_shards(source / "more", extra, 1)
    (source / "more" / "model-00001-of-00001.safetensors").rename(source / "model-extra.safetensors")
    settings = ConvertSettings("q4", 32)
    convert_model(source, tmp_path / "ours", settings)
    assert_same_tensors(tmp_path / "ours", peer_converts(source, tmp_path / "theirs", settings))


def test_matrices_that_do_not_divide_are_named(tmp_path: Path) -> None:
    source = write_random_model(tmp_path / "source")
    done = convert_model(source, tmp_path / "q4", ConvertSettings("q4", 64))
    assert done.left == tuple(f"model.layers.{layer}.mlp.down_proj.weight" for layer in range(3))
    assert done.packed == 3 * 6 + 2
    with pytest.raises(ConversionError, match=r"no matrix of .* divides into groups of 128; try a smaller"):
        convert_model(source, tmp_path / "other", ConvertSettings("q4", 128))


@pytest.mark.parametrize(
    ("quant", "group", "message"),
    [
        ("q7", None, "quant is 'q7'; it must be one of none, q2, q3, q4, q5, q6, q8, mxfp4"),
        ("q4", 48, "group size 48 is not for q4, which takes 32, 64, 128"),
        ("mxfp4", 64, "group size 64 is not for mxfp4, which takes 32"),
        ("none", 64, "group size 64 is not for none"),
    ],
)
def test_settings_that_make_no_sense(quant: str, group: int | None, message: str) -> None:
    with pytest.raises(ConversionError) as raised:
        ConvertSettings(quant, group)
    assert message in str(raised.value)


def refused(source: Path, target: Path) -> str:
    """The line with which a conversion to 4 bits is refused; nothing of it is left."""
    with pytest.raises((ConversionError, ModelError)) as raised:
        convert_model(source, target, ConvertSettings("q4", 32))
    assert not target.exists()
    assert not list(target.parent.glob(".*"))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_sources_that_cannot_be_converted(tmp_path: Path) -> None:
    source = write_random_model(tmp_path / "source")
    convert_model(source, tmp_path / "q8", ConvertSettings("q8", 32))
    target = tmp_path / "target"
    assert "q8 is quantised already (8-bit, groups of 32 (affine))" in refused(tmp_path / "q8", target)
    assert "there is no model folder" in refused(tmp_path / "nowhere", target)
    other = write_random_model(tmp_path / "other")
    (other / "config.json").write_text(json.dumps({**random_config(), "model_type": "mamba"}))
    assert "model_type is 'mamba'" in refused(other, target)
    write_gguf_model(tmp_path / "model.gguf")
    assert "model.gguf is a GGUF file; convert from" in refused(tmp_path / "model.gguf", target)
    (source / "model.safetensors").rename(source / "pytorch_model.bin")
    assert "has only pickled weights (pytorch_model.bin)" in refused(source, target)


def test_a_dtype_that_is_no_weight_s_is_named(tmp_path: Path) -> None:
    source = write_half_model(tmp_path / "source", mx.float16, shards=1)
    file = source / "model-00001-of-00001.safetensors"
    tensors = dict(mx.load(str(file)))  # type: ignore[arg-type]
    tensors["lm_head.weight"] = mx.zeros((320, 64), mx.int8)
    mx.eval(tensors)
    mx.save_safetensors(str(file), tensors)
    assert "tensor lm_head.weight is I8; F32, F16 and BF16 can be converted" in refused(
        source, tmp_path / "t"
    )


def test_a_source_cut_short_meanwhile_is_named(tmp_path: Path) -> None:
    source = write_half_model(tmp_path / "source", mx.float16)
    file = source / "model-00002-of-00002.safetensors"

    def cut(done: int, total: int) -> None:
        if done == 0:
            with file.open("r+b") as opened:
                opened.truncate(file.stat().st_size - 1000)

    with pytest.raises(ModelError, match=r"model-00002-of-00002.safetensors ends within tensor"):
        convert_model(source, tmp_path / "target", ConvertSettings("q4", 32), cut)
    assert not (tmp_path / "target").exists()


def test_values_that_are_not_finite_pass_as_mlx_packs_them(tmp_path: Path) -> None:
    source = write_random_model(tmp_path / "source")
    tensors = {name: np.array(tensor) for name, tensor in _source_tensors(source).items()}
    tensors["lm_head.weight"][3, 7] = np.nan
    tensors["model.norm.weight"][1] = -0.0
    mx.save_safetensors(
        str(source / "model.safetensors"), {name: mx.array(value) for name, value in tensors.items()}
    )
    settings = ConvertSettings("q4", 32)
    convert_model(source, tmp_path / "ours", settings)
    assert_same_tensors(tmp_path / "ours", peer_converts(source, tmp_path / "theirs", settings))
