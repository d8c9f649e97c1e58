"""Models as mlx-lm quantises them, in every form it has: loaded here, they give its logits and tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.convert import mixed_quant_predicate_builder
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model as load_peer
from mlx_lm.utils import quantize_model, save_config, save_model
from safetensors.numpy import load_file, save_file

from engine.errors import ModelError
from engine.kernels.report import kernel_table
from engine.loading.model import LoadedModel, load_model, open_model
from engine.settings import EngineSettings
from metal.block_types import Q4_0
from tests.engine.parity import assert_close, our_greedy, our_logits, prompt
from tests.fakes.random_model import write_random_model, write_tokenizer

TOKENS = prompt()[:40]
CHUNK = 17
WIDE = {"hidden_size": 128, "intermediate_size": 256, "head_dim": 16}
"""Every matrix divides into groups of 128."""

Predicate = Callable[[str, object], bool | dict[str, object]]


def write_quantised(
    plain: Path,
    to: Path,
    group: int,
    bits: int,
    mode: str = "affine",
    predicate: Predicate | str | None = None,
    dtype: mx.Dtype | None = None,
) -> Path:
    """The model in `plain` as mlx-lm quantises it, by a predicate or the recipe of that name, in `to`."""
    model, config = load_peer(plain)
    if dtype is not None:
        model.set_dtype(dtype)
    if isinstance(predicate, str):
        predicate = mixed_quant_predicate_builder(predicate, model, group)
    model, config = quantize_model(model, config, group, bits, mode=mode, quant_predicate=predicate)
    save_model(to, model)
    save_config(config, to / "config.json")
    write_tokenizer(to)
    return to


def open_ours(folder: Path) -> LoadedModel:
    return load_model(folder, EngineSettings(), lambda done, total: None)


def assert_parity(folder: Path) -> None:
    """Ours against mlx-lm's, both computing in float32."""
    peer, _ = load_peer(folder)
    peer.set_dtype(mx.float32)
    cache = make_prompt_cache(peer)
    theirs = peer(mx.array(TOKENS)[None], cache=cache)[0]
    greedy, last = list[int](), theirs[-1]
    for _ in range(16):
        greedy.append(int(mx.argmax(last).item()))
        last = peer(mx.array([[greedy[-1]]]), cache=cache)[0, -1]
    ours = open_ours(folder)
    ends = [min(begin + CHUNK, len(TOKENS)) - 1 for begin in range(0, len(TOKENS), CHUNK)]
    assert_close(our_logits(ours, TOKENS, CHUNK), theirs[mx.array(ends)])
    assert our_greedy(ours, TOKENS, CHUNK, 16) == greedy


GRID = [(bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
QUICK = [(2, 128), (3, 32), (3, 64), (4, 128), (5, 64), (6, 32), (8, 128)]


@pytest.mark.parametrize(
    ("bits", "group"),
    [*QUICK, *(pytest.param(*each, marks=pytest.mark.long) for each in GRID if each not in QUICK)],
)
def test_every_width_of_affine_weights(bits: int, group: int, tmp_path: Path) -> None:
    plain = write_random_model(tmp_path / "plain", "llama", **WIDE)
    assert_parity(write_quantised(plain, tmp_path / "packed", group, bits))


@pytest.mark.parametrize(("mode", "group", "bits"), [("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)])
@pytest.mark.parametrize("tied", [True, False])
def test_small_floats(mode: str, group: int, bits: int, tied: bool, tmp_path: Path) -> None:
    plain = write_random_model(tmp_path / "plain", "qwen3", **WIDE, tie_word_embeddings=tied)
    assert_parity(write_quantised(plain, tmp_path / "packed", group, bits, mode))


@pytest.mark.parametrize("recipe", ["mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6"])
def test_recipes_give_some_layers_more_bits(recipe: str, tmp_path: Path) -> None:
    plain = write_random_model(tmp_path / "plain", "llama", **WIDE, num_hidden_layers=4)
    packed = write_quantised(plain, tmp_path / "packed", 64, 4, predicate=recipe)
    settings = json.loads((packed / "config.json").read_text())["quantization"]
    assert len({settings[name]["bits"] for name in settings if name.startswith("model.")}) == 2
    assert_parity(packed)


MIXED: dict[str, dict[str, bool | dict[str, object]]] = {
    "q, k and v differ": {
        "model.layers.0.self_attn.q_proj": {"group_size": 32, "bits": 8, "mode": "affine"},
        "model.layers.1.self_attn.k_proj": {"group_size": 32, "bits": 4, "mode": "mxfp4"},
        "model.layers.2.self_attn.v_proj": False,
    },
    "gate and up differ": {
        "model.layers.0.mlp.gate_proj": False,
        "model.layers.1.mlp.up_proj": {"group_size": 16, "bits": 4, "mode": "nvfp4"},
    },
    "what is left out is plain": {
        "model.embed_tokens": False,
        "model.layers.0.mlp.down_proj": False,
        "model.layers.1.self_attn.o_proj": False,
        "lm_head": False,
    },
    "embedding and output differ": {
        "model.embed_tokens": {"group_size": 32, "bits": 3, "mode": "affine"},
        "lm_head": {"group_size": 128, "bits": 6, "mode": "affine"},
    },
    "settings in part": {"model.layers.0.mlp.down_proj": {"bits": 8}, "lm_head": {"mode": "mxfp8"}},
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_layers_with_settings_of_their_own(family: str, name: str, tmp_path: Path) -> None:
    def predicate(path: str, module: object) -> bool | dict[str, object]:
        return MIXED[name].get(path, True)

    plain = write_random_model(tmp_path / "plain", family, **WIDE)
    assert_parity(write_quantised(plain, tmp_path / "packed", 64, 4, predicate=predicate))


@pytest.mark.parametrize("settings", [{"group_size": 32, "bits": 5, "mode": "affine"}, False])
def test_a_tied_embedding_with_settings_of_its_own(
    settings: bool | dict[str, object], tmp_path: Path
) -> None:
    plain = write_random_model(tmp_path / "plain", "qwen2", **WIDE, tie_word_embeddings=True)
    packed = write_quantised(
        plain, tmp_path / "packed", 64, 4, predicate=lambda path, _: settings if "embed" in path else True
    )
    assert_parity(packed)


def test_matrices_that_do_not_divide_into_groups_stay_plain(tmp_path: Path) -> None:
    plain = write_random_model(tmp_path / "plain")  # its down projections are 96 wide
    packed = write_quantised(plain, tmp_path / "packed", 64, 4)
    assert "down_proj" not in (packed / "config.json").read_text()
    assert_parity(packed)


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16])
@pytest.mark.parametrize(("mode", "group", "bits"), [("affine", 64, 5), ("mxfp4", 32, 4)])
def test_scales_in_half_precision(mode: str, group: int, bits: int, dtype: mx.Dtype, tmp_path: Path) -> None:
    plain = write_random_model(tmp_path / "plain", "qwen2", **WIDE)
    assert_parity(write_quantised(plain, tmp_path / "packed", group, bits, mode, dtype=dtype))


def edit(folder: Path, change: Callable[[dict[str, object]], object]) -> Path:
    """Change config.json's quantization."""
    config = json.loads((folder / "config.json").read_text())
    change(config["quantization"])
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_what_the_settings_do_not_name_is_told_by_its_shapes(tmp_path: Path) -> None:
    """mlx-lm reads files so that were quantised in two goes, whose default holds for a part only."""

    def predicate(path: str, module: object) -> bool | dict[str, object]:
        return {"group_size": 32, "bits": 8, "mode": "affine"} if "mlp" in path else True

    plain = write_random_model(tmp_path / "plain", **WIDE)
    packed = write_quantised(plain, tmp_path / "packed", 64, 4, predicate=predicate)

    def forget(settings: dict[str, object]) -> None:
        for name in [name for name in settings if "mlp" in name]:
            del settings[name]

    assert_parity(edit(packed, forget))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (False, "quantization.lm_head is false, but the weights hold lm_head.scales"),
        ({"mode": ["mxfp4"]}, "quantization.lm_head.mode is ['mxfp4']"),
        ({"bits": 7}, "quantization.lm_head.bits is 7; affine runs with"),
        (
            {"bits": 3, "group_size": 64},
            "quantization.lm_head is 3-bit, groups of 64 (affine), but the weights are 4-bit",
        ),
    ],
)
def test_settings_that_contradict_the_weights_are_named(entry: object, message: str, tmp_path: Path) -> None:
    plain = write_random_model(tmp_path / "plain", **WIDE)
    packed = write_quantised(plain, tmp_path / "packed", 64, 4)
    edit(packed, lambda settings: settings.update({"lm_head": entry}))
    with pytest.raises(ModelError) as raised:
        open_ours(packed)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lm_head.biases", "tensor lm_head.biases is missing"),
        ("model.layers.1.mlp.up_proj.scales", "tensor model.layers.1.mlp.up_proj.weight has shape"),
    ],
)
def test_a_missing_part_of_a_packed_matrix_is_named(name: str, message: str, tmp_path: Path) -> None:
    plain = write_random_model(tmp_path / "plain", **WIDE)
    packed = write_quantised(plain, tmp_path / "packed", 64, 4)
    tensors = load_file(packed / "model.safetensors")
    del tensors[name]
    save_file(tensors, packed / "model.safetensors")
    with pytest.raises(ModelError, match=re.escape(message)):
        open_ours(packed)


def test_a_packing_that_fits_no_width_is_named(tmp_path: Path) -> None:
    plain = write_random_model(tmp_path / "plain", **WIDE)
    packed = write_quantised(plain, tmp_path / "packed", 64, 4)
    config = json.loads((packed / "config.json").read_text())
    (packed / "config.json").write_text(json.dumps({**config, "hidden_size": 120}))
    with pytest.raises(ModelError, match=r"model.embed_tokens.weight has 16 words and 2 scales in a row"):
        open_ours(packed)


def test_how_each_packing_runs_is_told(tmp_path: Path) -> None:
    def predicate(path: str, module: object) -> bool | dict[str, object]:
        return {"group_size": 64, "bits": 6, "mode": "affine"} if "down" in path else path != "lm_head"

    plain = write_random_model(tmp_path / "plain", **WIDE)
    files = open_model(write_quantised(plain, tmp_path / "packed", 64, 4, predicate=predicate))
    on_kernels = {kind.name: kind for kind in files.weights.kinds(mx.float16, [Q4_0])}
    assert on_kernels["4-bit, groups of 64 (affine)"].runs == "as in the file: kernels read it"
    assert on_kernels["6-bit, groups of 64 (affine)"].runs.endswith(
        "no kernel reads it, so MLX's own operations run"
    )
    assert on_kernels["6-bit, groups of 64 (affine)"].parameters == 3 * 128 * 256
    assert on_kernels["F32"].runs == ""
    assert not any(kind.runs for kind in files.weights.kinds(mx.float16, []))


@pytest.mark.parametrize(
    ("mode", "group", "bits", "note"),
    [
        ("affine", 64, 6, "matvec: 6 bits in groups of 64 are not supported; 4 and 8 in groups of 32, 64"),
        ("mxfp4", 32, 4, "matvec: mxfp4 weights are not supported; affine ones are"),
    ],
)
def test_what_no_kernel_takes_is_noted_and_runs_on_mlx(
    mode: str, group: int, bits: int, note: str, executor_name: str, tmp_path: Path
) -> None:
    plain = write_random_model(tmp_path / "plain", **WIDE)
    packed = write_quantised(plain, tmp_path / "packed", group, bits, mode)
    settings = EngineSettings(executor=executor_name, cache=tmp_path / "kernels")
    model = load_model(packed, settings, lambda done, total: None)
    assert any(line.startswith(note) for line in model.info.kernel_notes)
    assert our_greedy(model, TOKENS, CHUNK, 12) == our_greedy(open_ours(packed), TOKENS, CHUNK, 12)


@pytest.mark.long
@pytest.mark.timeout(600)  # the emulator compiles each kernel
def test_layers_that_kernels_take_run_on_them_beside_others(executor_name: str, tmp_path: Path) -> None:
    plain = write_random_model(tmp_path / "plain", **WIDE, num_hidden_layers=4)
    packed = write_quantised(plain, tmp_path / "packed", 64, 4, predicate="mixed_4_6")
    settings = EngineSettings(executor=executor_name, cache=tmp_path / "kernels")
    model = load_model(packed, settings, lambda done, total: None)
    assert our_greedy(model, TOKENS, CHUNK, 12) == our_greedy(open_ours(packed), TOKENS, CHUNK, 12)
    assert model.kernels is not None
    assert model.kernels.launches["matvec_affine"] > 0
    (note,) = model.info.kernel_notes
    assert "6 bits in groups of 64 are not supported" in note


def test_a_table_of_kernels_says_once_that_there_are_none_for_a_packing(
    executor_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLXR_EXECUTOR", executor_name)
    plain = write_random_model(tmp_path / "plain", **{**WIDE, "head_dim": 64})
    packed = write_quantised(plain, tmp_path / "packed", 64, 6)
    table = kernel_table(tmp_path / "kernels", packed, measures=False)
    assert table.problem == (
        "weights of 6 bits (affine): there are no kernels for these, so MLX's built-in operations run"
    )
