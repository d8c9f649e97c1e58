"""What every part of `mlxr bench --cache` is given: the model, how much is measured, and what is promised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from app.cli.targets import Targets
from app.measure.pairs import prompt_tokens
from engine import EngineSettings, Generate, Peer

REST_S = 60.0
"""Seconds that an engine may have for compiling before, as it has while somebody reads or writes."""
ROOM = 128
"""Tokens that a model's context must hold beside the chat: answers, and what is asked behind it."""


@dataclass(frozen=True, slots=True)
class CachePlan:
    """How much to measure.

    Attributes:
        context: tokens of the chat.
        long_prompt: tokens of the prompt that is computed beside a running chat.
        pairs: measurements of each side, taken in turns after one that does not count.
        decoded: tokens generated where a speed is measured.
        batches: numbers of sequences decoded at once.
        requests: of which the first token's time is predicted.
        only: names of the parts to measure; empty is all.
    """

    context: int
    long_prompt: int
    pairs: int
    decoded: int
    batches: tuple[int, ...]
    requests: int
    only: tuple[str, ...]

    @property
    def longest(self) -> int:
        """Most tokens that one sequence should hold."""
        return max(self.context, self.long_prompt) + ROOM

    def within(self, context_length: int) -> CachePlan:
        """The same for a model of that context: prompts as long as it allows."""
        most = context_length - ROOM
        return replace(self, context=min(self.context, most), long_prompt=min(self.long_prompt, most))


@dataclass(frozen=True, slots=True)
class Scene:
    """What is measured, and with what.

    Attributes:
        model: the model's folder.
        text_model: one with real weights, whose answers may repeat their prompt.
        settings: of every engine, but for what a part changes; nothing guesses ahead, nothing is on SSD.
        device: "Metal", "CUDA" or "CPU".
        scratch: an empty folder for SSD caches.
        say: hears what is going on.
    """

    model: Path
    text_model: Path
    settings: EngineSettings
    device: str
    scratch: Path
    plan: CachePlan
    targets: Targets
    peer: Peer | None
    say: Callable[[str], None]


def warm_up_length(length: int) -> int:
    """Tokens that stand for `length` in the pair that does not count."""
    return max(length // 4, min(length, ROOM))


def request(tokens: tuple[int, ...], count: int = 1, chat: str = "bench") -> Generate:
    """Continue `tokens` greedily by exactly `count`."""
    return Generate("", tokens=tokens, max_tokens=count, ignore_eos=True, chat=chat)


def new_tokens(count: int, *seed: int) -> tuple[int, ...]:
    """Tokens that no other prompt of a run goes on with."""
    return prompt_tokens(count, 9, *seed)
