"""The exact token ids along a conversation's path: each message keeps only those it adds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from app.store.records import ChatMessage


def tokens_along(path: Iterable[ChatMessage]) -> tuple[int, ...]:
    """The tokens that the messages of `path` stand for; one whose tokens were never told adds none."""
    chain: list[int] = []
    for message in path:
        if message.tokens is not None:
            if message.kept_tokens is not None:
                del chain[message.kept_tokens :]
            chain += message.tokens
    return tuple(chain)


def count_along(path: Sequence[ChatMessage], model: str) -> int | None:
    """How many tokens those of `path` are for the model in folder `model`; None where it has not told them.

    The last answer with words stands for all above it: its question's tokens make up for what was not told.
    """
    worded = [message for message in path if message.role == "assistant" and message.text]
    if worded and (worded[-1].tokens is None or worded[-1].model != model):
        return None
    count = 0
    for message in path:
        if message.tokens is not None:
            count = len(message.tokens) + (count if message.kept_tokens is None else message.kept_tokens)
    return count


def added_tokens(before: tuple[int, ...], prompt: tuple[int, ...]) -> tuple[int | None, tuple[int, ...]]:
    """What a user's message adds to the tokens `before` it, so that together they are exactly `prompt`.

    Returns how many of `before` are kept (None for all of them, the usual case) and the tokens that follow.
    """
    if prompt[: len(before)] == before:
        return None, prompt[len(before) :]
    kept = next(i for i, (a, b) in enumerate(zip(before, (*prompt, None), strict=False)) if a != b)
    return kept, prompt[kept:]


def with_tokens(
    line: Sequence[ChatMessage], prompt: tuple[int, ...], is_only_answer: bool
) -> tuple[ChatMessage, ChatMessage]:
    """The last question and answer of `line` with their tokens: along it they are `prompt` and the answer's.

    Until now the answer's tokens are those generated. A question with other answers keeps its tokens, or its
    lack of them: those answers, and all that follows them, stand on it. Where this prompt differs from what
    is above the answer, the answer's own tokens begin there.
    """
    *above, question, answer = line
    if is_only_answer:
        kept, tokens = added_tokens(tokens_along(above), prompt)
        return replace(question, tokens=tokens, kept_tokens=kept), answer
    kept, tokens = added_tokens(tokens_along((*above, question)), prompt)
    return question, replace(answer, tokens=tokens + (answer.tokens or ()), kept_tokens=kept)
