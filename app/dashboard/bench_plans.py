"""What can be benchmarked from the window, and how `mlxr bench` is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

Kind = Literal["decode", "prompts", "batches", "cache"]
Length = Literal["short", "long"]

KINDS: Mapping[Kind, str] = MappingProxyType(
    {"decode": "Decode", "prompts": "Prompts", "batches": "Batches", "cache": "Cache"}
)
LENGTHS: Mapping[Length, str] = MappingProxyType({"short": "Short", "long": "Long"})
ABOUT: Mapping[Kind, str] = MappingProxyType(
    {
        "decode": "How fast answers are written behind {contexts} tokens.",
        "prompts": "How soon the first token comes behind a prompt of {contexts} tokens.",
        "batches": "How fast {batches} answers are written at once.",
        "cache": "What the next turn of a chat of {context} tokens, and the first after a restart, wait for.",
    }
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured.

    Attributes:
        contexts: tokens of the prompts.
        batches: answers written at once, behind the shortest of the prompts.
        chat: tokens of the chat whose cache is measured.
        pairs: measurements of each quantity after one that does not count.
        decoded: tokens of an answer.
    """

    contexts: tuple[int, ...]
    batches: tuple[int, ...]
    chat: int
    pairs: int
    decoded: int

    def within(self, context_length: int) -> Sizes:
        """The same for a model of that context: prompts that leave room for an answer."""
        most = max(1, context_length - self.decoded)
        return replace(self, contexts=tuple(sorted({min(context, most) for context in self.contexts})))


SIZES: Mapping[Length, Sizes] = MappingProxyType(
    {
        "short": Sizes((200,), (1, 4), 512, 3, 32),
        "long": Sizes((200, 4000), (1, 4, 16), 2048, 7, 64),
    }
)


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """One benchmark of the model at `model`, a folder or GGUF file."""

    kind: Kind
    length: Length
    model: str

    def about(self, sizes: Sizes) -> str:
        """What is measured, in a line."""
        words = ABOUT[self.kind].format(
            contexts=_listed(sizes.contexts), batches=_listed(sizes.batches), context=f"{sizes.chat:,}"
        )
        return f"{words} Each is measured {sizes.pairs} times."

    def quantities(self, sizes: Sizes) -> int:
        """How many `mlxr bench` measures, each in pairs: those that it tells of."""
        if self.kind == "cache":
            return 2  # a chat's turns, and a restart
        if self.kind == "batches":
            return 2 + len(sizes.batches)  # one answer alone before them, and the host's time behind them
        return len(sizes.contexts)

    def arguments(self, sizes: Sizes) -> tuple[str, ...]:
        """Those of `mlxr bench`."""
        common = ("--model", self.model, "--pairs", str(sizes.pairs), "--vs", "none", "--json", "--progress")
        contexts, decoded = _numbers(sizes.contexts), ("--decode", str(sizes.decoded))
        match self.kind:
            case "decode":
                own = ("--no-window", "--contexts", contexts, "--prompts", "none", *decoded)
            case "prompts":
                own = ("--no-window", "--contexts", "none", "--prompts", contexts)
            case "batches":
                first = str(min(sizes.contexts))
                batches = _numbers(sizes.batches)
                own = (
                    "--no-window",
                    "--contexts",
                    first,
                    "--prompts",
                    "none",
                    "--batches",
                    batches,
                    *decoded,
                )
            case "cache":
                own = ("--cache", "--context", str(sizes.chat), "--only", "turns,restart", *decoded)
        return ("bench", *common, *own)


def _numbers(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))


def _listed(values: tuple[int, ...]) -> str:
    *first, last = (f"{value:,}" for value in values)
    return f"{', '.join(first)} and {last}" if first else last
