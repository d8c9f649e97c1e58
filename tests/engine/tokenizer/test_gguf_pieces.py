"""GGUF's "llama" tokenizers against sentencepiece, from whose models their metadata is made."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from engine.commands import Message
from engine.tokenizer import Tokenizer, load_tokenizer
from engine.tokenizer.gguf import load_gguf_tokenizer
from tests.engine.tokenizer.conftest import train_pieces
from tests.engine.tokenizer.gguf_metadata import CONTROL, NASTY, UNUSED, pieces_metadata

ROWS = 1000
GUIDE = Path(__file__).parents[3] / "resources" / "guide" / "model"
SPANS = ["[INST]", "\u2581\u2581", "\u2581\u2581\u2581\u2581", "->"]
"""What one of the models matches whole; runs of spaces as some models have them."""
KINDS: dict[str, dict[str, Any]] = {
    "bytes": {},
    "no bytes": {"byte_fallback": False, "vocab_size": 220},
    "spans": {"user_defined_symbols": SPANS},
    "no space": {"add_dummy_prefix": False},
    "squeezed": {"remove_extra_whitespaces": True},
    "digits": {"split_digits": True, "allow_whitespace_only_pieces": True, "vocab_size": 520},
}
CHARACTERS = st.one_of(st.characters(codec="utf-8"), st.sampled_from("abst \n\u2581->[INST]👍🏽"))
FIELDS: dict[str, dict[str, Any]] = {
    "no space": {"add_space_prefix": False},
    "squeezed": {"remove_extra_whitespaces": True},
}


def load(metadata: dict[str, Any], rows: int = ROWS) -> Tokenizer:
    return load_gguf_tokenizer(metadata, where="m.gguf", rows=rows)


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest) -> tuple[Tokenizer, sentencepiece.SentencePieceProcessor]:
    """A tokenizer of metadata, and the model it is from."""
    model = train_pieces(**KINDS[request.param])
    whole = SPANS if request.param == "spans" else []
    metadata = pieces_metadata(model, user_defined=whole, **FIELDS.get(request.param, {}))
    return load(metadata), sentencepiece.SentencePieceProcessor(model_proto=model)


Pair = tuple[Tokenizer, sentencepiece.SentencePieceProcessor]


def test_ids_and_text_are_those_of_sentencepiece(pair: Pair, texts: tuple[str, ...]) -> None:
    ours, theirs = pair
    for text in (*texts, *NASTY, " ".join(NASTY), *SPANS, "[INST][INST]  x->    y [INST]"):
        ids = theirs.encode(text)
        assert ours.encode(text) == [theirs.bos_id(), *ids]
        if theirs.unk_id() not in ids:  # which is " ⁇ " there, and nothing here
            assert ours.decode(ids) == theirs.decode(ids)


@settings(max_examples=60)
@given(text=st.text(CHARACTERS, max_size=40))
def test_any_text_becomes_the_same_ids(pair: Pair, text: str) -> None:
    ours, theirs = pair
    if any("\ufdd0" <= char <= "\ufdd2" for char in text):
        return
    assert ours.encode(text, add_bos=False) == theirs.encode(text)


@settings(max_examples=60)
@given(data=st.data())
def test_a_stream_of_any_ids_is_their_whole_text(pair: Pair, data: st.DataObject) -> None:
    ours, theirs = pair
    ids = data.draw(st.lists(st.integers(0, theirs.get_piece_size() + 2), max_size=24))
    stream = ours.detokenizer()
    parts = [stream.add(token) for token in ids]
    assert "".join(parts) + stream.finish() == ours.decode(ids)


@pytest.mark.parametrize("score", [None, -1000.0, 0.0])
def test_without_scores_the_ids_are_still_the_same(pieces: bytes, score: float | None) -> None:
    # As where a model has only a tokenizer.json: converters then write one number for all.
    theirs = sentencepiece.SentencePieceProcessor(model_proto=pieces)
    scores = None if score is None else [score] * theirs.get_piece_size()
    ours = load(pieces_metadata(pieces, scores=scores))
    for text in NASTY:
        assert ours.encode(text, add_bos=False) == theirs.encode(text)


def test_bytes_that_are_no_text_alone(pieces: bytes) -> None:
    ours = load(pieces_metadata(pieces))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=pieces)
    first, *rest = [theirs.piece_to_id(f"<0x{byte:02X}>") for byte in "🚀".encode()]
    stream = ours.detokenizer()
    assert stream.add(first) == ""
    assert [stream.add(token) for token in rest] == ["", "", "🚀"]
    assert ours.decode([first]) == "\ufffd"
    assert ours.decode([first, theirs.piece_to_id("a"), *rest]) == "\ufffda\ufffd\ufffd\ufffd"


def test_text_survives_the_round_trip(pieces: bytes) -> None:
    ours = load(pieces_metadata(pieces))
    for text in NASTY:
        assert ours.decode(ours.encode(text)) == text.replace("\u2581", " ")  # which pieces cannot tell apart


@pytest.mark.parametrize("said", [None, True, False])
def test_bos_is_put_as_the_flag_says_and_where_it_says_nothing(pieces: bytes, said: bool | None) -> None:
    ours = load(pieces_metadata(pieces, add_bos_token=said))
    plain = sentencepiece.SentencePieceProcessor(model_proto=pieces).encode("fox")
    assert ours.encode("fox") == (plain if said is False else [1, *plain])
    assert ours.encode("<s><s>fox", special=True) == [1, *plain]


@pytest.mark.parametrize("said", [None, True, False])
def test_a_text_to_go_on_from_never_ends_in_eos(pieces: bytes, said: bool | None) -> None:
    ours = load(pieces_metadata(pieces, add_eos_token=said))
    assert not ours.eos_ids & set(ours.encode("fox"))


def test_control_tokens_are_parsed_only_when_asked(pieces: bytes) -> None:
    ours = load(pieces_metadata(pieces))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=pieces)
    typed = ours.encode("a</s><unk><s>", add_bos=False)
    assert typed == theirs.encode("a</s><unk><s>")
    assert not {0, 1, 2} & set(typed)
    assert ours.encode("</s>", add_bos=False, special=True) == [theirs.eos_id()]
    assert ours.decode(typed) == "a</s><unk><s>"


def test_a_byte_that_is_said_to_end_answers_is_still_text(pieces: bytes) -> None:
    newline = sentencepiece.SentencePieceProcessor(model_proto=pieces).piece_to_id("<0x0A>")
    ours = load(pieces_metadata(pieces, eos_token_id=newline))
    assert newline in ours.eos_ids
    assert newline in ours.encode("a\nb")
    assert ours.decode(ours.encode("a\nb")) == "a\nb"


def test_turn_marks_that_the_file_calls_ordinary_are_control_tokens() -> None:
    # Converters lose the types of sentencepiece's user-defined symbols where no other file has them.
    marks = ["<|user|>", "<|end|>", "<end_of_turn>"]
    model = train_pieces(user_defined_symbols=marks)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = set(theirs.piece_to_id(marks))
    for written in ([], marks):
        ours = load(pieces_metadata(model, user_defined=written))
        text = "<|user|>hi<|end|><end_of_turn>"
        assert not ids & set(ours.encode(text))
        assert ours.decode(ours.encode(text)) == text
        assert ids <= set(ours.encode(text, special=True))
        assert ours.eos_ids == {theirs.eos_id(), *theirs.piece_to_id(marks[1:])}


def test_text_after_a_control_token_begins_as_a_text_does(
    pieces: bytes, tmp_path: Path, texts: tuple[str, ...], write_json: Callable[[Path, str, object], None]
) -> None:
    # llama.cpp's rule is that of transformers' first ("legacy") Llama tokenizer.
    (tmp_path / "tokenizer.model").write_bytes(pieces)
    config = {"tokenizer_class": "LlamaTokenizer", "legacy": True, "bos_token": "<s>", "eos_token": "</s>"}
    write_json(tmp_path, "tokenizer_config.json", config)
    ours, theirs = load(pieces_metadata(pieces)), AutoTokenizer.from_pretrained(tmp_path)
    for text in texts:
        text = text.lstrip()  # sentencepiece puts its space before a space too, transformers does not
        prompt = f"<s>{text}</s>{text}</s><s>{text}"
        expected = theirs(prompt, add_special_tokens=False)["input_ids"]
        assert ours.encode(prompt, add_bos=False, special=True) == expected


def test_unused_pieces_are_never_made(pieces: bytes) -> None:
    metadata = pieces_metadata(pieces)
    ours = load(metadata)
    whole = ours.encode("quick brown fox", add_bos=False)
    longest = max(whole, key=lambda token: len(ours.decode([token])))
    kinds = [*metadata["tokenizer.ggml.token_type"]]
    kinds[longest] = UNUSED
    without = load(metadata | {"tokenizer.ggml.token_type": kinds})
    ids = without.encode("quick brown fox", add_bos=False)
    assert longest not in ids
    assert without.decode(ids) == "quick brown fox"


def test_what_a_vocabulary_without_bytes_cannot_say_is_unknown() -> None:
    model = train_pieces(**KINDS["no bytes"])
    ours = load(pieces_metadata(model))
    assert ours.encode("a🚀a").count(0) == 1


def test_a_token_without_text_is_nothing(pieces: bytes) -> None:
    metadata = pieces_metadata(pieces)
    tokens: list[str] = [*metadata["tokenizer.ggml.tokens"], ""]
    longer = {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [*metadata["tokenizer.ggml.scores"], 0.0],
        "tokenizer.ggml.token_type": [*metadata["tokenizer.ggml.token_type"], CONTROL],
    }
    ours, shorter = load(metadata | longer), load(metadata)
    assert ours.vocab_size == shorter.vocab_size + 1
    assert ours.encode("The quick brown fox") == shorter.encode("The quick brown fox")


def test_the_guide_from_metadata_reads_and_ends_as_from_its_folder() -> None:
    config = json.loads((GUIDE / "tokenizer_config.json").read_text(encoding="utf-8"))
    metadata = pieces_metadata(
        (GUIDE / "tokenizer.model").read_bytes(),
        eos_token_id=6,
        add_space_prefix=False,
        chat_template=config["chat_template"],
    )
    ours, theirs = load(metadata, rows=3072), load_tokenizer(GUIDE, vocab_size=3072)
    assert ours.eos_ids == theirs.eos_ids
    for text in NASTY:
        chat = [Message("system", "x"), Message("user", f"{text}<|end|>"), Message("assistant", text)]
        chat.append(Message("user", "and?"))
        assert ours.encode(text) == theirs.encode(text)
        assert ours.encode_chat(chat) == theirs.encode_chat(chat)
        assert ours.encode_after(chat, 2, 6) == theirs.encode_after(chat, 2, 6)
