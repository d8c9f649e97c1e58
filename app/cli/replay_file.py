"""The file that `mlxr replay` plays: read and checked as a whole, refused in a line before anything runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from app.cli.inputs import STANDARD_INPUT, read_text_file
from app.cli.replay_fields import PROMPTS, TIMING, BadField, checked, sampling_of
from app.errors import AppError
from engine import Forget, Generate, Message, Pin

Expectation = Literal["stop", "length", "cancelled", "failed"]
_CHATS = ("forget", "pin", "unpin")


@dataclass(frozen=True, slots=True)
class Ask:
    """A request as its line has it.

    Attributes:
        request: what to generate, with this line's own prompt.
        raw: the prompt goes without the chat template.
        continues: the prompt follows the tokens of the request that this one waits for.
        cancel_after: cancel once so many tokens came; 0 is at once.
        predicts: ask for a prediction before.
        expected: how it should end; None is in any way but failed.
    """

    request: Generate
    raw: bool = False
    continues: bool = False
    cancel_after: int | None = None
    predicts: bool = False
    expected: Expectation | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One line: what to do, and when: `at` seconds from the start, or when the step `after` has ended."""

    id: str
    line: int
    action: Ask | Forget | Pin
    at: float = 0.0
    after: str | None = None


def read_steps(name: str) -> tuple[Step, ...]:
    """The steps of file `name`, or of standard input for "-". Raises AppError, naming the line."""
    shown = "standard input" if name == STANDARD_INPUT else name
    return parse_steps(read_text_file(name), shown)


def parse_steps(text: str, name: str) -> tuple[Step, ...]:
    """The steps in `text`; blank lines and those that begin with # are skipped. Raises AppError."""
    steps: dict[str, Step] = {}
    # Not splitlines: JSON strings may hold what else ends a line in Unicode.
    for number, line in enumerate(text.split("\n"), 1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        try:
            step = _step(_fields(content), number)
            if step.id in steps:
                raise BadField(f'the id "{step.id}" is that of line {steps[step.id].line} too; change one')
        except BadField as error:
            raise _at(name, number, str(error)) from None
        steps[step.id] = step
    if not steps:
        raise AppError(f"{name} has no requests; write one JSON object a line")
    _check_order(steps, name)
    return tuple(steps.values())


def _at(name: str, line: int, what: str) -> AppError:
    return AppError(f"{name}:{line}: {what}")


def _fields(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line, object_pairs_hook=_without_repeats, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise BadField(f"this is not JSON ({error.msg}, column {error.colno}); mend it") from None
    except (ValueError, RecursionError):
        raise BadField("this JSON is nested too deep or has a number too long; mend it") from None
    if not isinstance(value, dict):
        raise BadField('a line must be one JSON object, such as {"prompt": "hello"}')
    return value


def _without_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadField(f'"{twice}" is given twice; leave one out')
    return fields


def _no_constant(name: str) -> NoReturn:
    raise BadField(f"{name} is no number in JSON; write a finite one")


def _step(fields: Mapping[str, Any], line: int) -> Step:
    values = checked(fields)
    if "at" in values and "after" in values:
        raise BadField('"at" and "after" are both given; give one of them')
    name: str = values.get("id", str(line))
    named = [one for one in _CHATS if one in values]
    action = _chat_action(named, values) if named else _ask(values, name)
    return Step(name, line, action, values.get("at", 0.0), values.get("after"))


def _chat_action(named: Sequence[str], values: Mapping[str, Any]) -> Forget | Pin:
    others = [one for one in values if one not in (named[0], *TIMING)]
    if others:
        raise BadField(f'"{named[0]}" stands on a line of its own; take "{others[0]}" out')
    chat = values[named[0]]
    return Forget(chat) if named[0] == "forget" else Pin(chat, named[0] == "pin")


def _ask(values: Mapping[str, Any], name: str) -> Ask:
    given = [one for one in PROMPTS if one in values]
    if len(given) != 1:
        both = " and ".join(f'"{one}"' for one in given)
        raise BadField(
            f"{both} are given; give one of them"
            if given
            else 'there is no prompt; give "tokens", "prompt" or "messages"'
        )
    continues = values.get("continue", False)
    if continues and "after" not in values:
        raise BadField('"continue" needs "after": the id of the request to go on from')
    if values.get("tokens") == () and not continues:
        raise BadField('"tokens" is empty; give at least one')
    raw = values.get("raw", False)
    if raw and given != ["prompt"]:
        raise BadField('"raw" is for a "prompt"; take it out')
    if raw and continues:
        raise BadField('"continue" goes on with tokens or a chat, not with a raw prompt; take "raw" out')
    request = Generate(
        id=name,
        messages=values.get("messages"),
        prompt=values.get("prompt"),
        tokens=values.get("tokens"),
        sampling=sampling_of(values),
        max_tokens=values.get("max_tokens"),
        stop=values.get("stop", ()),
        logprobs=values.get("logprobs"),
        ignore_eos=values.get("ignore_eos", False),
        chat=values.get("chat", ""),
        lane=values.get("priority", "api"),
        n=values.get("n", 1),
    )
    cancel_after, predicts = values.get("cancel_after_tokens"), values.get("predict", False)
    return Ask(request, raw, continues, cancel_after, predicts, values.get("expect"))


def _check_order(steps: Mapping[str, Step], name: str) -> None:
    """Raises AppError when a step waits for one that is not there, or for itself in the end."""
    for step in steps.values():
        if step.after is None:
            continue
        before = steps.get(step.after)
        if before is None:
            raise _at(name, step.line, f'"after" names "{step.after}", and no line has that id; mend it')
        if isinstance(step.action, Ask) and step.action.continues:
            _check_continuation(step.action, before, name, step.line)
    _check_circles(steps, name)


def _check_circles(steps: Mapping[str, Step], name: str) -> None:
    settled: set[str] = set()
    for step in steps.values():
        chain: dict[str, None] = {}
        at: Step | None = step
        while at is not None and at.id not in settled:
            if at.id in chain:
                circle = " → ".join([*list(chain)[list(chain).index(at.id) :], at.id])
                raise _at(
                    name, at.line, f'"after" goes in a circle ({circle}); let one of them start by "at"'
                )
            chain[at.id] = None
            at = steps[at.after] if at.after is not None else None
        settled.update(chain)


def _check_continuation(ask: Ask, before: Step, name: str, line: int) -> None:
    if not isinstance(before.action, Ask):
        raise _at(
            name, line, f'"continue" needs a request, and line {before.line} is none; name one in "after"'
        )
    if ask.request.tokens is None and not is_chat(before.action):
        raise _at(
            name,
            line,
            f'"continue" with text needs a chat before it, and line {before.line} has '
            'tokens or a raw prompt; give "tokens"',
        )


def is_chat(ask: Ask) -> bool:
    """Whether the request is messages, or a prompt that becomes one."""
    return ask.request.tokens is None and not ask.raw


def chat_messages(ask: Ask) -> tuple[Message, ...]:
    """The line's own messages, of a chat."""
    return ask.request.messages or (Message("user", ask.request.prompt or ""),)
