"""The exact token ids along a conversation's path: each message keeps only those it adds."""

from __future__ import annotations

from collections.abc import Iterable

from app.store.records import ChatMessage


def tokens_along(path: Iterable[ChatMessage]) -> tuple[int, ...]:
    """The tokens that the messages of `path` stand for; one whose tokens were never told adds none."""
    chain: tuple[int, ...] = ()
    for message in path:
        if message.tokens is not None:
            kept = len(chain) if message.kept_tokens is None else message.kept_tokens
            chain = chain[:kept] + message.tokens
    return chain


def added_tokens(before: tuple[int, ...], prompt: tuple[int, ...]) -> tuple[int | None, tuple[int, ...]]:
    """What a user's message adds to the tokens `before` it, so that together they are exactly `prompt`.

    Returns how many of `before` are kept (None for all of them, the usual case) and the tokens that follow.
    """
    if prompt[: len(before)] == before:
        return None, prompt[len(before) :]
    kept = next(i for i, (a, b) in enumerate(zip(before, (*prompt, None), strict=False)) if a != b)
    return kept, prompt[kept:]
