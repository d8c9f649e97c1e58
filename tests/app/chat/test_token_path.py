"""The tokens along a path add up to exactly the prompts that the engine computed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.chat.token_path import added_tokens, count_along, tokens_along, with_tokens
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
        assert count_along(path, "") == len(prompt + answer)


def answer(tokens: tuple[int, ...] | None, model: str = "m", text: str = "Yes.") -> ChatMessage:
    return ChatMessage("c", "assistant", text, tokens=tokens, model=model)


def test_the_last_answer_with_words_says_whether_the_path_can_be_counted() -> None:
    question = message((1, 2))
    assert count_along([], "m") == 0
    assert count_along([question, answer((3,))], "m") == 3
    assert count_along([question, answer((3,))], "other") is None
    assert count_along([question, answer(None)], "m") is None
    assert count_along([question, answer(None), message((4, 5, 6)), answer((7,))], "m") == 6
    assert count_along([question, answer((3,)), message(None), answer(None, text="")], "m") == 3, "refused"


def test_messages_without_tokens_add_none() -> None:
    assert tokens_along([message((1,)), message(None), message((2,))]) == (1, 2)


@given(above=tokens, prompts=st.lists(st.tuples(tokens, tokens), min_size=1, max_size=4))
def test_every_answer_to_a_question_stands_on_its_own_exact_prompt(
    above: tuple[int, ...], prompts: list[tuple[tuple[int, ...], tuple[int, ...]]]
) -> None:
    first, question = message(above), message(None)
    answers: list[tuple[ChatMessage, tuple[int, ...]]] = []
    for prompt, generated in prompts:
        line = [first, question, message(generated)]
        question, answer = with_tokens(line, prompt, is_only_answer=not answers)
        answers.append((answer, prompt + generated))
        for answered, expected in answers:
            assert tokens_along([first, question, answered]) == expected


def test_what_follows_an_answer_stands_on_it_whatever_other_answers_come() -> None:
    question, none_told = message(None), message(())
    line = [question, none_told, message(None), message((9,))]
    below = with_tokens(line, (1, 2), is_only_answer=True)
    other_line = [question, message((8,))]
    asked_again, other = with_tokens(other_line, (3, 4), is_only_answer=False)
    assert tokens_along([asked_again, none_told, *below]) == (1, 2, 9)
    assert tokens_along([asked_again, other]) == (3, 4, 8)
