"""A text with far more tokens than a model can read is refused by its beginning; any other is cut as ever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.commands import Message
from engine.errors import PromptTooLong
from engine.tokenizer import Tokenizer, load_tokenizer

GUIDE = Path(__file__).parents[3] / "resources/guide/model"
LONGEST = 100
WORDS = "A page of memory holds sixteen tokens. "
TURN = (Message("user", "hello"), Message("assistant", "I am here."))

Encode = Callable[[Tokenizer, str], Sequence[int] | None]
WAYS: dict[str, Encode] = {
    "text": lambda tokenizer, text: tokenizer.encode(text),
    "prompt": lambda tokenizer, text: tokenizer.encode(text, special=True),
    "chat": lambda tokenizer, text: tokenizer.encode_chat([Message("user", text)]),
    "control tokens": lambda tokenizer, text: tokenizer.encode_chat([Message("user", f"</s>{text}")]),
    "next turn": lambda tokenizer, text: tokenizer.encode_after([*TURN, Message("user", text)], 1, 2),
}


@pytest.fixture(scope="module")
def limited() -> Tokenizer:
    tokenizer = load_tokenizer(GUIDE, vocab_size=3072)
    tokenizer.longest = LONGEST
    return tokenizer


@pytest.fixture(scope="module")
def unlimited() -> Tokenizer:
    return load_tokenizer(GUIDE, vocab_size=3072)


@pytest.mark.parametrize("way", WAYS)
def test_of_a_text_that_is_far_too_long_only_the_beginning_is_cut(
    way: str, limited: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = list[int]()
    for name in ("_encode_text", "_encode_marked"):
        whole = getattr(limited, name)

        def note(text: str, *args: str, whole: Callable[..., list[int]] = whole) -> list[int]:
            cut.append(len(text))
            return whole(text, *args)

        monkeypatch.setattr(limited, name, note)
    with pytest.raises(
        PromptTooLong, match="more than 200 tokens and this model's context holds 100 at most"
    ):
        WAYS[way](limited, WORDS * 50_000)
    assert 0 < sum(cut) < 50 * LONGEST


@given(
    st.lists(
        st.sampled_from([WORDS, " ", "\n" * 500, " " * 3000, "</s>", "<user>", "é😀", "=" * 900]), max_size=40
    ),
    st.sampled_from(sorted(WAYS)),
)
@settings(deadline=None)
def test_no_other_text_is_refused_or_cut_otherwise(
    limited: Tokenizer, unlimited: Tokenizer, parts: list[str], way: str
) -> None:
    text = "".join(parts)
    expected = WAYS[way](unlimited, text)
    try:
        assert WAYS[way](limited, text) == expected
    except PromptTooLong:
        assert expected is not None
        assert len(expected) > LONGEST
