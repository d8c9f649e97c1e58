"""The stream of text: whole characters, never a change of what was shown, linear cost."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tokenizer import Tokenizer, load_tokenizer
from engine.tokenizer.detokenizer import Pieces, StreamDetokenizer, decode_all

# Tokens are single bytes, so that Python's own decoder is the oracle.
BYTES = Pieces(lambda token: bytes([token]))


def stream(tokenizer_pieces: Pieces, ids: Sequence[int]) -> list[str]:
    detokenizer = StreamDetokenizer(tokenizer_pieces)
    return [*(detokenizer.add(token) for token in ids), detokenizer.finish()]


@given(st.binary(max_size=40))
def test_any_bytes_give_what_python_decodes(data: bytes) -> None:
    assert "".join(stream(BYTES, list(data))) == data.decode("utf-8", "replace")


@given(st.text(max_size=30))
def test_characters_come_whole_and_as_soon_as_they_are(text: str) -> None:
    data = text.encode("utf-8", "ignore")
    detokenizer, shown = StreamDetokenizer(BYTES), ""
    for index, token in enumerate(data):
        shown += detokenizer.add(token)
        assert shown == data[: index + 1].decode("utf-8", "ignore")
    assert detokenizer.finish() == ""


def test_an_incomplete_character_waits_and_shows_as_replacement_only_at_the_end() -> None:
    euro = "€".encode()
    assert stream(BYTES, list(euro)) == ["", "", "€", ""]
    assert stream(BYTES, list(euro[:2])) == ["", "", "\ufffd"]
    assert stream(BYTES, [*euro[:2], ord("a")]) == ["", "", "\ufffda", ""]


@pytest.fixture(scope="module", params=["llama3", "qwen", "llama2", "tinyllama", "unigram"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return load_tokenizer(request.getfixturevalue(request.param), vocab_size=1000)


@given(data=st.data())
def test_pieces_of_any_answer_join_to_its_decoding(tokenizer: Tokenizer, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=40))
    detokenizer = tokenizer.detokenizer()
    parts = [*(detokenizer.add(token) for token in ids), detokenizer.finish()]
    assert "".join(parts) == tokenizer.decode(ids)


def test_emoji_of_many_tokens_are_never_shown_broken(llama3: Path, texts: tuple[str, ...]) -> None:
    tokenizer = load_tokenizer(llama3, vocab_size=1000)
    for text in texts:
        detokenizer, shown = tokenizer.detokenizer(), ""
        for token in tokenizer.encode(text):
            shown += detokenizer.add(token)
            assert text.startswith(shown)
        assert shown + detokenizer.finish() == text


def test_each_token_is_read_once() -> None:
    read: list[int] = []

    def token_bytes(token: int) -> bytes:
        read.append(token)
        return b"x"

    ids = list(range(500))
    assert decode_all(Pieces(token_bytes), ids) == "x" * 500
    assert read == ids


@pytest.mark.parametrize(
    ("pieces", "ids", "expected"),
    [
        (Pieces(lambda t: [b" ", b" a", None][t], leading_spaces=1), [2, 1, 1], "a a"),
        (Pieces(lambda t: [b" ", b" a", None][t], leading_spaces=1), [0, 1], " a"),
        (Pieces(lambda t: [b" ", b" a", None][t], leading_spaces=9), [0, 0, 1, 0], "a "),
        (Pieces(lambda t: [b"   a"][t], leading_spaces=2), [0, 0], " a   a"),
        (Pieces(lambda t: [b" ", b"  a b", None][t], strip_first=True), [2, 1, 1], "ab  a b"),
        (Pieces(lambda t: [b" ", b"a", None][t], separator=b"-"), [2, 1, 2, 1, 2], "a-a"),
        (Pieces(lambda t: [b" ", b"a", None][t]), [2, 2], ""),
    ],
)
def test_spaces_of_the_encoding_are_taken_back(pieces: Pieces, ids: list[int], expected: str) -> None:
    assert "".join(stream(pieces, ids)) == expected
