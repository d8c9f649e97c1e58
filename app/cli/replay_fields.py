"""The fields of a line of `mlxr replay`: which there are, what each holds, what is said of a wrong one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, cast

from engine import MOST_ANSWERS, InvalidRequest, Message, SamplingParams

EXPECTED = ("stop", "length", "cancelled", "failed")
"""How a request can end, as `expect` names it."""
PRIORITIES = ("window", "api")
ROLES = ("system", "user", "assistant")
PROMPTS = ("tokens", "prompt", "messages")
SAMPLING = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
)
TIMING = ("id", "at", "after")
"""Fields that every line may have."""
_LATEST = 7 * 24 * 3600
"""Seconds from the start that a line may begin at: a week; later ones are a slip, and would wait for ever."""


class BadField(Exception):
    """What is wrong with a line, for people: what, and what to do; the line's number is not in it."""


def checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `fields` as the engine takes them. Raises BadField for an unknown or a wrong one."""
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in _READERS:
            raise BadField(f'there is no field "{name}"; {_instead_of(name)}')
        reader, holds = _READERS[name]
        try:
            values[name] = reader(value)
        except (TypeError, ValueError, OverflowError, UnicodeEncodeError):
            raise BadField(f'"{name}" must be {holds}') from None
    return values


def _instead_of(name: str) -> str:
    near = get_close_matches(name, _READERS, n=1)
    return f'write "{near[0]}"' if near else f"the fields are {', '.join(_READERS)}"


def sampling_of(values: Mapping[str, Any]) -> SamplingParams:
    """What the line says of drawing tokens. Raises BadField for a value outside its range."""
    try:
        return SamplingParams(**{name: values[name] for name in SAMPLING if name in values})
    except InvalidRequest as error:
        raise BadField(str(error)) from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # half a surrogate pair is no text
    return value


def _name(value: object) -> str:
    text = _text(value)
    if not text.strip() or not text.isprintable():
        raise ValueError
    return text


def _whole(least: int, most: float = math.inf) -> Callable[[object], int]:
    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError
        return value

    return read


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError
    return value


def _seconds(value: object) -> float:
    if not 0 <= _number(value) <= _LATEST:
        raise ValueError
    return _number(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _choice(choices: tuple[str, ...]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in choices:
            raise ValueError
        return cast(str, value)

    return read


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return cast("list[Any]", value)


def _ids(value: object) -> tuple[int, ...]:
    return tuple(map(_whole(0), _list(value)))


def _stops(value: object) -> tuple[str, ...]:
    stops = [value] if isinstance(value, str) else _list(value)
    if "" in stops:
        raise ValueError
    return tuple(map(_text, stops))


def _messages(value: object) -> tuple[Message, ...]:
    messages = tuple(map(_message, _list(value)))
    if not messages:
        raise ValueError
    return messages


def _message(value: object) -> Message:
    if not isinstance(value, dict) or set(cast("dict[str, Any]", value)) != {"role", "content"}:
        raise ValueError
    message = cast("dict[str, Any]", value)
    return Message(_choice(ROLES)(message["role"]), _text(message["content"]))


def _bias(value: object) -> tuple[tuple[int, float], ...]:
    if not isinstance(value, dict):
        raise TypeError
    pairs = cast("dict[str, Any]", value).items()
    return tuple((_whole(0)(int(token)), _number(bias)) for token, bias in pairs)


_TEXT, _YES_NO = "text in quotes, of whole characters", "true or false"
_READERS: Mapping[str, tuple[Callable[[object], object], str]] = {
    "id": (_name, "a name in quotes, on one line"),
    "at": (_seconds, f"seconds from the start, 0 to {_LATEST:,} (a week)"),
    "after": (_name, "the id of another line, in quotes"),
    "tokens": (_ids, "a list of token ids such as [1, 2, 3]"),
    "prompt": (_text, _TEXT),
    "messages": (
        _messages,
        'a list of {"role": …, "content": …}, at least one; a role is system, user or assistant',
    ),
    "raw": (_flag, _YES_NO),
    "continue": (_flag, _YES_NO),
    "max_tokens": (_whole(1), "a whole number of at least 1"),
    "temperature": (_number, "a number"),
    "top_k": (_whole(0), "a whole number, 0 or more"),
    "top_p": (_number, "a number"),
    "min_p": (_number, "a number"),
    "seed": (_whole(0), "a whole number, 0 or more"),
    "repetition_penalty": (_number, "a number"),
    "presence_penalty": (_number, "a number"),
    "frequency_penalty": (_number, "a number"),
    "logit_bias": (_bias, 'biases by token id, such as {"42": -1.5}'),
    "stop": (_stops, "a text to stop at, or a list of them, none empty"),
    "n": (_whole(1, MOST_ANSWERS), f"a whole number from 1 to {MOST_ANSWERS}"),
    "logprobs": (_whole(0), "a whole number, 0 or more"),
    "ignore_eos": (_flag, _YES_NO),
    "priority": (_choice(PRIORITIES), 'one of "window" and "api"'),
    "chat": (_name, "a chat's name in quotes"),
    "predict": (_flag, _YES_NO),
    "cancel_after_tokens": (_whole(0), "a whole number, 0 or more"),
    "expect": (_choice(EXPECTED), f"one of {', '.join(EXPECTED)}, in quotes"),
    "forget": (_name, "a chat's name in quotes"),
    "pin": (_name, "a chat's name in quotes"),
    "unpin": (_name, "a chat's name in quotes"),
}
