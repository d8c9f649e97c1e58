"""Models written for measuring: both engines load them, and agree on what they say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest
from gguf import GGUFReader
from sentencepiece import SentencePieceProcessor

from engine import SHAPES, Generate, Peer, Quant, SamplingParams, TextChunk, write_shape
from engine.bench.tokenizer import whole_vocabulary
from tests.fakes.listener import running_engine

GUIDE = Path(__file__).parents[3] / "resources" / "guide" / "model"
PROMPT = (1, 40, 50, 60, 70)


def written(folder: Path, name: str = "tiny", quant: Quant = "none", seed: int = 0) -> Path:
    folder.mkdir()
    write_shape(folder, SHAPES[name], quant, 700, GUIDE, seed)
    return folder


@pytest.mark.parametrize("quant", ["none", "q4", "q8"])
def test_both_engines_write_the_same_tokens(tmp_path: Path, quant: Quant) -> None:
    model = written(tmp_path / "model", quant=quant)
    with running_engine() as listener:
        info = listener.load(model).model
        listener.submit(Generate("one", tokens=PROMPT, max_tokens=10, ignore_eos=True))
        ours = listener.finished("one").tokens
    assert info.context_length == 700
    assert info.parameters > SHAPES["tiny"].matrix_weights
    assert Peer(model, info.dtype).run(PROMPT, 10).tokens == ours
    assert len(set(ours)) > 1


@pytest.mark.parametrize("quant", ["none", "q4", "q8"])
def test_the_size_is_known_before_it_is_written(tmp_path: Path, quant: Quant) -> None:
    model = written(tmp_path / "model", quant=quant)
    there = sum(file.stat().st_size for file in model.glob("*.safetensors"))
    assert there == pytest.approx(SHAPES["tiny"].file_bytes(quant), rel=0.03)


@pytest.mark.parametrize("quant", ["none", "q4"])
def test_the_lowest_layers_alone_say_what_a_model_says_in_which_only_they_speak(
    tmp_path: Path, quant: Quant
) -> None:
    def says(name: str, layers: int, seed: int = 0, speaking: int | None = None) -> tuple[int, ...]:
        folder = tmp_path / name
        folder.mkdir()
        write_shape(folder, replace(SHAPES["tiny"], layers=layers), quant, 700, GUIDE, seed, speaking)
        with running_engine() as listener:
            listener.load(folder)
            listener.submit(Generate("one", tokens=PROMPT, max_tokens=10, ignore_eos=True))
            return listener.finished("one").tokens

    alone = says("alone", 2)
    assert says("some speak", 5, speaking=2) == alone
    assert says("all speak", 5) != alone
    assert says("other weights", 2, seed=1) != alone


def test_in_blocks_every_layer_speaks(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="every layer"):
        write_shape(tmp_path, SHAPES["guide-like"], "q4_k", 700, GUIDE, speaking=2)


@pytest.mark.parametrize("quant", ["q4_k", "q6_k", "q8_0"])
def test_a_shape_in_blocks_is_a_gguf_file_that_runs(tmp_path: Path, quant: Quant) -> None:
    file = write_shape(tmp_path, SHAPES["guide-like"], quant, 5000, GUIDE)
    with running_engine() as listener:
        info = listener.load(file).model
        listener.submit(Generate("one", tokens=PROMPT, max_tokens=10, ignore_eos=True))
        tokens = listener.finished("one").tokens
    assert info.context_length == 5000
    assert len(set(tokens)) > 1
    assert file.stat().st_size == pytest.approx(SHAPES["guide-like"].file_bytes(quant), rel=0.05)
    formats = {str(tensor.tensor_type.name) for tensor in GGUFReader(file).tensors}  # pyright: ignore[reportUnknownMemberType]
    assert formats == {quant.upper(), "F32"}


@pytest.mark.parametrize("quant", ["none", "q8_0"])
def test_every_token_has_a_text_and_texts_are_cut_as_before(tmp_path: Path, quant: Quant) -> None:
    small = replace(SHAPES["guide-like"], layers=1, vocab=5000)
    model = write_shape(tmp_path, small, quant, 700, GUIDE)
    bias = tuple((token, 100.0) for token in (3072, 4000, 4999))
    with running_engine() as listener:
        listener.load(model)
        listener.submit(
            Generate("new", tokens=PROMPT, max_tokens=20, sampling=SamplingParams(logit_bias=bias))
        )
        told = listener.finished("new")
    assert told.text.split() == [f"w{token}" for token in told.tokens]
    chunks = [event for event in listener.events if isinstance(event, TextChunk)]
    assert [chunk.generated_tokens for chunk in chunks] == list(range(1, 21))
    text = (Path(__file__).parents[3] / "README.md").read_text()
    plain, whole = (
        SentencePieceProcessor(model_proto=proto)
        for proto in ((GUIDE / "tokenizer.model").read_bytes(), whole_vocabulary(GUIDE, small.vocab))
    )
    assert whole.get_piece_size() == 5000
    assert whole.encode(text) == plain.encode(text)


def test_rows_that_no_block_fits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rows of 128 weights cannot be Q4_K"):
        write_shape(tmp_path, SHAPES["tiny"], "q4_k", 100, GUIDE)


def test_a_seed_gives_the_same_weights_again(tmp_path: Path) -> None:
    def weights(name: str, seed: int) -> mx.array:
        file = written(tmp_path / name, seed=seed) / "model-00002-of-00003.safetensors"
        return mx.load(str(file))["model.layers.0.self_attn.q_proj.weight"]

    first = weights("first", 3)
    assert mx.array_equal(first, weights("second", 3))
    assert not mx.array_equal(first, weights("third", 4))


def test_a_family_with_biases_and_tied_embeddings_loads(tmp_path: Path) -> None:
    small = replace(SHAPES["qwen2.5-0.5b"], layers=2, hidden=128, inner=256, heads=2, kv_heads=1, vocab=3072)
    folder = tmp_path / "model"
    folder.mkdir()
    write_shape(folder, small, "q4", 100, GUIDE)
    with running_engine() as listener:
        info = listener.load(folder).model
        listener.submit(Generate("one", tokens=PROMPT, max_tokens=6, ignore_eos=True))
        ours = listener.finished("one").tokens
    assert info.family == "qwen2"
    assert Peer(folder, info.dtype).run(PROMPT, 6).tokens == ours


@pytest.mark.parametrize(
    ("name", "billions"), [("tinyllama-1.1b", 1.100), ("llama-3.2-1b", 1.236), ("qwen2.5-0.5b", 0.494)]
)
def test_shapes_have_the_size_of_their_models(name: str, billions: float) -> None:
    assert SHAPES[name].matrix_weights / 1e9 == pytest.approx(billions, abs=0.001)


def test_a_longer_context_of_its_own_stays() -> None:
    assert SHAPES["tiny"].config("none", 100)["max_position_embeddings"] == 512
    assert json.dumps(SHAPES["tiny"].config("q8", 100))
