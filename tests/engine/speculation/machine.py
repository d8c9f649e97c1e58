"""A simulated machine that decodes a known text, as the engine's thread and its device share the work."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from typing import Any, cast

from engine.commands import Generate
from engine.requests.request import Clock, Request, Sequence
from engine.speculation.draft import Draft
from engine.speculation.speculating import Speculations
from engine.speculation.verify import Verdict, settled

_CHUNK = 512  # tokens of the prompt that are read at once


@dataclass(frozen=True)
class Machine:
    """What a step takes, in milliseconds.

    Attributes:
        build: the host, to build and send one.
        tell: the host, for each token that was read.
        device: the device, by the step's tokens.
        looks_ahead: whether a step is sent before the one before it was read.
    """

    build: float
    tell: float
    device: Callable[[int], float]
    looks_ahead: bool = True


@dataclass
class Decoded:
    """What decoding a text took, and its steps."""

    seconds: float = 0.0
    plain: int = 0
    held: int = 0  # plain, and read before the next was sent
    drafts: list[int] = field(default_factory=list[int])  # their lengths
    accepted: int = 0

    def add(self, drafted: int, accepted: int, *, is_held: bool) -> None:
        """A step was read."""
        self.plain += drafted == 0
        self.held += is_held
        self.accepted += accepted
        if drafted:
            self.drafts.append(drafted)


@dataclass
class _Flying:
    done: float
    draft: Draft | None


def answering(prompt: Many[int], most: int, *, speculation: bool = True) -> Sequence:
    """A sequence without pages, whose answer has `most` tokens at most."""
    request = Request(
        Generate("a", speculation=speculation),
        tuple(prompt),
        array("I", prompt),
        most,
        Clock(0.0, 0.0),
        rank=0.0,
        most_resident=len(prompt) + most,
    )
    none = cast(Any, None)
    return Sequence(request, 0, none, none, none)


class SimulatedEngine:
    """Decodes texts as `engine.serving` and `engine.batcher` do for an answer that is alone.

    Attributes:
        now: on its clock, in milliseconds.
        looks: how often a step's token was looked at for guesses.
    """

    def __init__(
        self, machine: Machine, *, guesses: bool = True, warm: Collection[int] = (1, 2, 4, 8)
    ) -> None:
        """`warm`: tokens of steps that are compiled."""
        self._machine = machine
        self.now = self._device_free = 0.0
        self.looks = 0
        self._speculations = Speculations(
            is_on=guesses, is_warm=lambda tokens, length: tokens in warm, clock=self._clock
        )

    def _clock(self) -> float:
        """In seconds; it is asked at each look."""
        self.looks += 1
        return self.now / 1000

    def decode(self, prompt: Many[int], answer: Many[int]) -> Decoded:
        """Come to `answer` behind `prompt`, whose computing takes no time."""
        sequence = answering(prompt, len(answer))
        for _ in range(0, len(prompt), _CHUNK):
            self._speculations.guess([sequence])
        sequence.generated.append(answer[0])
        self._speculations.guess([sequence])
        began, decoded, flying = self.now, Decoded(), None
        while len(sequence.generated) < len(answer):
            before, flying = flying, None
            if before is None or self._may_send_ahead(sequence, before):
                flying = self._send(sequence)
            if before is not None:
                self._read(sequence, before, flying, answer, decoded)
        self._speculations.ended(sequence)
        decoded.seconds = self.now - began
        return decoded

    def _may_send_ahead(self, sequence: Sequence, before: _Flying) -> bool:
        is_last = len(sequence.generated) + 1 >= sequence.request.most_tokens
        is_read_first = before.draft is not None or sequence.wants_draft or is_last
        return self._machine.looks_ahead and not is_read_first

    def _send(self, sequence: Sequence) -> _Flying:
        draft, sequence.draft = sequence.draft, None
        self.now += self._machine.build
        tokens = 1 + (len(draft.tokens) if draft else 0)
        self._device_free = max(self.now, self._device_free) + self._machine.device(tokens)
        sequence.is_in_flight = True
        return _Flying(self._device_free, draft)

    def _read(
        self,
        sequence: Sequence,
        step: _Flying,
        following: _Flying | None,
        answer: Many[int],
        decoded: Decoded,
    ) -> None:
        draft, here = step.draft, len(sequence.generated)
        self.now = max(self.now, step.done)
        drafted = draft.tokens if draft else ()
        came = settled(drafted, answer[here : here + 1 + len(drafted)])
        decoded.add(len(drafted), len(came) - 1, is_held=draft is None and sequence.wants_draft)
        if draft is not None:
            self._speculations.checked(sequence, draft, Verdict(came, is_finite=True))
        sequence.generated += came
        sequence.is_in_flight = following is not None
        self.now += self._machine.tell * len(came)
        self._speculations.guess([sequence])
