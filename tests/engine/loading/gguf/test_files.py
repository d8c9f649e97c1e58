"""GGUF models on disk: their parts, the folders they lie in, what is told of them, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter

from engine import EngineSettings, ModelError, inspect_model
from engine.loading.fingerprint import sampled_fingerprint
from engine.loading.fingerprinting import Fingerprinting
from engine.loading.gguf.parts import read_parts
from engine.loading.model import load_model, open_model
from tests.engine.loading.gguf.writer import WIDE, every_matrix, q4_k_m, write_gguf_model
from tests.fakes.random_model import write_random_model


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """A model in three parts."""
    write_gguf_model(tmp_path / "model.gguf", parts=3)
    return sorted(tmp_path.glob("model-*.gguf"))


@pytest.mark.parametrize("kind", [Type.F32, Type.F16, Type.Q8_0, Type.Q3_K, Type.MXFP4, None])
def test_headers_tell_what_loading_measures(kind: Type | None, tmp_path: Path) -> None:
    file = tmp_path / "Small-Q4.gguf"
    types = every_matrix(kind) if kind else q4_k_m
    tensors = write_gguf_model(
        file, "qwen2", types=types, rope_factors=np.ones(16), tie_word_embeddings=kind is None, **WIDE
    )
    summary, told = inspect_model(file), list[tuple[int, int]]()
    info = load_model(file, EngineSettings(), lambda done, total: told.append((done, total))).info
    assert summary.parameters == info.parameters == sum(tensor.size for tensor in tensors.values())
    assert summary.weight_bytes == info.weight_bytes
    assert (summary.name, summary.family) == (info.name, info.family) == ("Small-Q4", "qwen2")
    stored = sum(one.n_bytes for one in gguf.GGUFReader(file).tensors if one.name != "rope_freqs.weight")
    assert told[-1] == (stored, stored)
    assert sum(one.file_bytes for one in summary.kinds) == stored
    assert sum(one.tensors for one in summary.kinds) == len(tensors)


def test_any_part_opens_the_whole(parts: list[Path]) -> None:
    whole = inspect_model(parts[0])
    assert len(parts) == 3
    assert whole.name == "model"
    assert {(inspect_model(part).parameters, inspect_model(part).name) for part in parts} == {
        (whole.parameters, "model")
    }
    load_model(parts[2], EngineSettings(), lambda done, total: None)


def test_a_missing_part_is_named(parts: list[Path]) -> None:
    parts[1].unlink()
    with pytest.raises(ModelError, match=r"model-00002-of-00003\.gguf is missing; put all 3 parts"):
        open_model(parts[2])


def test_parts_of_other_models_are_told(parts: list[Path], tmp_path: Path) -> None:
    shutil.copy(parts[2], parts[1])
    with pytest.raises(ModelError, match=r"00002-of-00003\.gguf: split\.no is 2, and its name says 1"):
        open_model(parts[0])
    alone = tmp_path / "alone.gguf"
    shutil.copy(parts[0], alone)
    with pytest.raises(ModelError, match=r"alone\.gguf: split\.count is 3, and its name says 1"):
        open_model(alone)


def test_a_part_with_fewer_tensors_is_told(parts: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_gguf_model(other / "model.gguf", parts=3, num_hidden_layers=2)
    shutil.copy(other / parts[2].name, parts[2])
    with pytest.raises(ModelError, match=r"split\.tensors\.count is 30|is in .* too"):
        open_model(parts[0])


@pytest.mark.parametrize("name", ["x-00000-of-00003.gguf", "x-00004-of-00003.gguf", "x-00001-of-00000.gguf"])
def test_impossible_part_numbers_are_told(name: str, tmp_path: Path) -> None:
    write_gguf_model(tmp_path / "x.gguf")
    (tmp_path / "x.gguf").rename(tmp_path / name)
    with pytest.raises(ModelError, match="there is no part"):
        read_parts(tmp_path / name)


def test_a_name_of_many_parts_is_refused_at_the_first_that_is_not_there(tmp_path: Path) -> None:
    write_gguf_model(tmp_path / "x.gguf")
    file = (tmp_path / "x.gguf").rename(tmp_path / "x-00001-of-99999.gguf")
    with pytest.raises(ModelError, match=r"x-00002-of-99999\.gguf is missing"):
        open_model(file)


def test_a_folder_with_one_gguf_model_is_that_model(parts: list[Path], tmp_path: Path) -> None:
    assert open_model(tmp_path).path == parts[0]
    write_gguf_model(tmp_path / "another.gguf")
    with pytest.raises(ModelError, match=r"holds 2 GGUF models \(another.gguf, model-00001"):
        open_model(tmp_path)


def test_a_folder_with_safetensors_is_a_model_of_that_form(tmp_path: Path) -> None:
    write_random_model(tmp_path / "m")
    write_gguf_model(tmp_path / "m" / "also.gguf")
    assert open_model(tmp_path / "m").path == tmp_path / "m"


@pytest.mark.parametrize("ending", ["", ".gguf"])
def test_what_the_system_does_not_let_us_look_at_is_one_line(ending: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be read \(File name too long\)"):
        open_model(tmp_path / ("a" * 300 + ending))


def test_the_fingerprint_is_of_the_model_not_of_its_place(tmp_path: Path) -> None:
    def fingerprint(name: str, **changes: object) -> tuple[str, str]:
        (tmp_path / name).mkdir()
        file = tmp_path / name / f"{name}.gguf"
        write_gguf_model(file, **changes)  # type: ignore[arg-type]
        content = open_model(next(file.parent.iterdir())).weights.content()
        with Fingerprinting(content, tmp_path / "cache") as fingerprinting:
            whole = fingerprinting.result()
        return sampled_fingerprint(content), whole

    one = fingerprint("one")
    assert [len(each) for each in one] == [32, 32]
    assert fingerprint("copy") == one
    assert fingerprint("split", parts=2) == one
    others = [
        fingerprint("seed", seed=1),
        fingerprint("theta", rope_theta=5e5),
        fingerprint("types", types=every_matrix(Type.Q4_0)),
        fingerprint("rope", rope_factors=np.ones(4) * 2),
    ]
    for each in zip(one, *others, strict=True):
        assert len(set(each)) == 5


def entry(add: Callable[[GGUFWriter], None]) -> dict[str, object]:
    return {"metadata": add}


BAD: dict[str, tuple[dict[str, object], str]] = {
    "experts": (entry(lambda w: w.add_expert_count(8)), "llama.expert_count is 8"),
    "softcap": (entry(lambda w: w.add_final_logit_softcapping(30.0)), "llama.final_logit_softcapping is 30"),
    "encoder": (entry(lambda w: w.add_causal_attention(False)), "llama.attention.causal is False"),
    "rope kind": (
        entry(lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)),
        "llama.rope.scaling.type is 'longrope'",
    ),
    "no factor": (
        entry(lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.YARN)),
        "llama.rope.scale_linear is missing",
    ),
    "factors' shape": ({"rope_factors": np.ones(5)}, "rope_freqs.weight has shape (5,)"),
    "factors of 0": ({"rope_factors": np.zeros(4)}, "rope_freqs.weight must hold numbers above 0"),
    "rope base": ({"rope_theta": 1.0}, "llama.rope.freq_base is 1.0"),
    "layers": ({"num_hidden_layers": 0}, "llama.block_count is 0"),
    "heads": ({"num_key_value_heads": 3, "head_dim": 8}, "llama.attention.head_count_kv is 3"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_run_is_one_line_with_file_and_field(name: str, tmp_path: Path) -> None:
    changes, says = BAD[name]
    file = tmp_path / "bad.gguf"
    write_gguf_model(file, **changes)  # type: ignore[arg-type]
    with pytest.raises(ModelError) as raised:
        open_model(file)
    message = str(raised.value)
    assert says in message
    assert str(file) in message
    assert "\n" not in message


def test_windows_and_scalings_are_read_from_the_metadata(tmp_path: Path) -> None:
    def more(writer: GGUFWriter) -> None:
        writer.add_sliding_window(24)
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(256)
        writer.add_rope_scaling_attn_factors(0.5)
        writer.add_rope_scaling_yarn_beta_fast(16.0)
        writer.add_rope_scaling_yarn_attn_factor(3.0)  # for nothing, as in llama.cpp

    write_gguf_model(tmp_path / "m.gguf", metadata=more)
    config = open_model(tmp_path / "m.gguf").config
    assert config.windows == (24,) * 3
    assert (config.rope.kind, config.rope.factor, config.rope.original_context) == ("yarn", 4.0, 256)
    assert (config.rope.beta_fast, config.rope.beta_slow) == (16.0, 1.0)
    # llama.cpp: attn_factor · (1 + 0.1 ln factor)
    assert config.rope.attention_factor == pytest.approx(0.5 * (1 + 0.1 * np.log(4)))


def test_another_architecture_is_named_with_those_that_are_run(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "m.gguf", "gemma3")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(
        ModelError, match=r"general.architecture is 'gemma3'; supported are llama, qwen2, qwen3"
    ):
        open_model(tmp_path / "m.gguf")


def test_a_vector_in_blocks_is_refused(tmp_path: Path) -> None:
    def types(name: str) -> Type:
        return Type.Q8_0 if name == "output_norm.weight" else Type.F16

    write_gguf_model(tmp_path / "m.gguf", types=types)
    with pytest.raises(ModelError, match=r"m\.gguf: output_norm\.weight is stored as Q8_0"):
        load_model(tmp_path / "m.gguf", EngineSettings(), lambda done, total: None)


def test_a_tensor_too_many_and_one_missing_are_told_by_the_names_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    write_gguf_model(
        file, metadata=lambda writer: writer.add_tensor("blk.0.extra.weight", np.ones(4, np.float32))
    )
    with pytest.raises(ModelError, match=r"first: blk\.0\.extra\.weight"):
        load_model(file, EngineSettings(), lambda done, total: None)
    raw = file.read_bytes()
    file.write_bytes(raw.replace(b"blk.1.ffn_up.weight", b"blk.1.ffn_xp.weight"))
    with pytest.raises(ModelError, match=r"m\.gguf: tensor blk\.1\.ffn_up\.weight is missing"):
        load_model(file, EngineSettings(), lambda done, total: None)


def test_a_file_that_shrinks_while_it_is_loaded_is_told(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    write_gguf_model(file)

    def cut(done: int, total: int) -> None:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])

    with pytest.raises(ModelError, match=r"m\.gguf became shorter while .* was read"):
        load_model(file, EngineSettings(), cut)
