"""Every error the engine raises on purpose, drawn as one tree.

    EngineError
    ├── ModelError            a model cannot be loaded: what is wrong with which file
    │   └── TokenizerError    its tokenizer or chat template cannot be used
    ├── ConversionError       a model cannot be converted as asked, or its result cannot be written
    ├── InvalidRequest        a request asks for something impossible; the caller can mend it
    │   ├── PromptTooLong     prompt and answer do not fit the model's context
    │   ├── Refused           KV memory cannot hold it: the numbers, and ways out
    │   └── NoModel           nothing is loaded
    │       └── NoRoom        one that rests has no room beside others' answers, or pinned chats
    ├── NonFiniteLogits       the model produced NaN or infinity
    ├── NotAwaited            a model is loaded for a request that was cancelled
    └── EngineClosed          the engine was shut down before it was done, or asked

Messages are one line for people: what, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.events.cache import Refusal, WayOut


class EngineError(Exception):
    """Base of all deliberate engine errors; its text is one line fit to show to a person."""


class ModelError(EngineError):
    """A model's files cannot be loaded."""

    def __init__(self, line: str) -> None:
        """`line` may quote what a stranger's file holds: what cannot be printed is shown escaped."""
        super().__init__("".join(char if char.isprintable() else ascii(char)[1:-1] for char in line))


class TokenizerError(ModelError):
    """A tokenizer or chat template is missing, broken or does not match the model."""


class ConversionError(EngineError):
    """A model cannot be converted as asked, or the result cannot be written."""


class InvalidRequest(EngineError):
    """A request that cannot be served as asked."""


class PromptTooLong(InvalidRequest):
    """The prompt does not fit the model's context."""

    def __init__(self, line: str, ways_out: tuple[WayOut, ...] = ()) -> None:
        """`ways_out`: what would help, for a program; `line` names it too."""
        super().__init__(line)
        self.ways_out = ways_out


class Refused(InvalidRequest):
    """KV memory cannot hold the request, whatever else is given up for it."""

    def __init__(self, refusal: Refusal) -> None:
        """`refusal`: the numbers, and what would help."""
        beside = " beside those of pinned chats" if refusal.pinned_pages else ""
        super().__init__(
            f"this request needs {_counted(refusal.needed_pages, 'page')} and KV memory has "
            f"{refusal.available_pages:,}{beside}; {words(refusal.ways_out)}"
        )
        self.refusal = refusal


def words(ways_out: Sequence[WayOut]) -> str:
    """What would help, for people: "a, b and c or d", where b and c help together only."""
    phrases, group = list[str](), list[str]()
    for way in ways_out:
        group.append(_phrase(way))
        if not way.needs_next:
            phrases.append(" and ".join(group))
            group.clear()
    phrases = phrases or ["use a smaller model"]
    return " or ".join(filter(None, (", ".join(phrases[:-1]), phrases[-1])))


def _phrase(way: WayOut) -> str:
    match way.kind:
        case "shorten":
            return f"shorten it by {_counted(way.amount, 'token')}"
        case "fewer answers":
            return f"ask for at most {way.amount} answers" if way.amount > 1 else "ask for one answer"
        case "evict":
            return f"unpin chat {way.chat} ({_counted(way.amount, 'page')})"
        case "quantise":
            return f"keep the KV cache in {way.amount} bits"
        case "larger context":
            return f"allow more in its settings (up to {way.amount:,})"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class NoModel(InvalidRequest):
    """A request came while no model was loaded."""


class NoRoom(NoModel):
    """A model that rests is not loaded: answers would have to end for it, or pinned chats to leave memory."""

    def __init__(self, name: str, beside: str) -> None:
        """`name`: of the model; `beside`: what it has no room beside, as in a sentence."""
        super().__init__(f"{name} rests: there is no room for it beside {beside}")
        self.name, self.beside = name, beside


class NonFiniteLogits(EngineError):
    """The model produced NaN or infinite logits."""


class NotAwaited(EngineError):
    """Nobody waits any more for the model that is loaded."""


class EngineClosed(EngineError):
    """The engine was shut down before it was done, or before it was asked."""
