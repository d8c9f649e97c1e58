"""The tokens along a path add up to exactly the prompts that the engine computed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.chat.token_path import added_tokens, tokens_along
from app.store.records import ChatMessage

tokens = st.lists(st.integers(0, 3), max_size=12).map(tuple)


def message(tokens: tuple[int, ...] | None, kept: int | None = None) -> ChatMessage:
    return ChatMessage("c", "user", tokens=tokens, kept_tokens=kept)


@given(before=tokens, prompt=tokens)
def test_any_prompt_is_rebuilt(before: tuple[int, ...], prompt: tuple[int, ...]) -> None:
    kept, added = added_tokens(before, prompt)
    assert tokens_along([message(before), message(added, kept)]) == prompt


@given(before=tokens, more=tokens)
def test_a_prompt_that_only_grows_is_stored_as_its_growth(
    before: tuple[int, ...], more: tuple[int, ...]
) -> None:
    assert added_tokens(before, before + more) == (None, more)


@given(turns=st.lists(st.tuples(tokens, tokens), max_size=5))
def test_conversations_are_rebuilt_turn_by_turn(turns: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    path: list[ChatMessage] = []
    for prompt, answer in turns:
        kept, added = added_tokens(tokens_along(path), prompt)
        path.append(message(added, kept))
        assert tokens_along(path) == prompt
        path.append(message(answer))
        assert tokens_along(path) == prompt + answer


def test_messages_without_tokens_add_none() -> None:
    assert tokens_along([message((1,)), message(None), message((2,))]) == (1, 2)
