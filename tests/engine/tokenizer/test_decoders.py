"""Decoder sections against the `tokenizers` package's own decoders, token text by token text."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import decoders

from engine.errors import TokenizerError
from engine.tokenizer.decoders import BYTE_ALPHABET, read_decoder
from engine.tokenizer.detokenizer import Pieces, decode_all

LLAMA = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
DECODERS = {
    "byte level": decoders.ByteLevel(),
    "llama": decoders.Sequence([*LLAMA, decoders.Strip(content=" ", left=1)]),
    "gemma": decoders.Sequence(LLAMA),
    "three spaces": decoders.Sequence([*LLAMA, decoders.Strip(content=" ", left=3)]),
    "metaspace": decoders.Metaspace(),
    "metaspace that puts none": decoders.Metaspace(prepend_scheme="never"),
    "bytes and metaspace": decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]),
    "replace": decoders.Replace("▁", "_"),
}
VALID_BYTES = ["<0x41>", "<0x0A>", "<0x20>"]
TOKENS = st.lists(
    st.one_of(
        st.sampled_from(["▁", "▁▁", "▁a", "a▁b", " ", "x", "Ġthe", "Ċ", "日", "â", "Ĥ", "¬", "<0xG1>"]),
        st.sampled_from(VALID_BYTES),
        st.text(st.sampled_from([*BYTE_ALPHABET, " ", "▁", "日"]), min_size=1, max_size=4),
    ),
    max_size=8,
)


@pytest.mark.parametrize("name", DECODERS)
@given(tokens=TOKENS)
def test_text_is_that_of_the_package(name: str, tokens: list[str]) -> None:
    decoder = DECODERS[name]
    reader = read_decoder(json.loads(decoder.__getstate__()), "tokenizer.json")
    # A bare space first, which no encoding makes, is taken here for the one that encoding puts.
    assume(not (reader.strip_first and tokens and (" " in tokens[0] or tokens[0] == "<0x20>")))
    pieces = Pieces(
        lambda token: reader.token_bytes(tokens[token]),
        reader.leading_spaces,
        reader.strip_first,
        reader.separator,
    )
    assert decode_all(pieces, range(len(tokens))) == decoder.decode(tokens)


def test_without_a_decoder_tokens_stand_apart() -> None:
    assert read_decoder(None, "tokenizer.json").separator == b" "


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
        {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        {
            "type": "Sequence",
            "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "_", "start": 1, "stop": 0}],
        },
        {
            "type": "Sequence",
            "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 0, "stop": 1}],
        },
        {"type": "CTC"},
    ],
)
def test_what_cannot_be_streamed_is_refused(spec: dict[str, object]) -> None:
    with pytest.raises(TokenizerError, match=r"^model/tokenizer\.json: its decoder"):
        read_decoder(spec, "model/tokenizer.json")
