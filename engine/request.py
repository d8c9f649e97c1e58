"""One request in flight: its tokens, its pages, its text so far, and the clock."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import mlx.core as mx

from engine.commands import Generate
from engine.errors import InvalidRequest, PromptTooLong
from engine.events import Finished, FinishReason, Timing, TokenLogprobs
from engine.kv.pager import PageTable
from engine.loading.model import LoadedModel
from engine.sampling import Sampler
from engine.stopping import StopStrings
from engine.tokenizer import Detokenizer


@dataclass(slots=True)
class Clock:
    """Moments of a request, in seconds of time.perf_counter; 0 where not yet reached."""

    arrived: float
    prefill_began: float = 0.0
    first_token: float = 0.0
    last_token: float = 0.0


@dataclass(frozen=True, slots=True)
class Draw:
    """A token that was drawn on the device and not read yet.

    Attributes:
        token: a scalar, uint32.
        mass: log of the sum of exp(logits); not finite exactly when the logits make no distribution.
        logits: (vocab,), what it was drawn from.
    """

    token: mx.array
    mass: mx.array
    logits: mx.array


@dataclass(slots=True)
class Request:
    """A Generate that was accepted.

    `table.length` tokens of prompt + generated are in pages; the last generated one is not until the next
    step. `ahead` is the draw of a step that was sent to the device before its input was read; that input, the
    next token, then is in pages too. `launched_before` counts launches until its prefill began.
    """

    command: Generate
    prompt: tuple[int, ...]
    most_tokens: int
    table: PageTable
    sampler: Sampler
    detokenizer: Detokenizer
    stops: StopStrings
    clock: Clock
    generated: list[int] = field(default_factory=list[int])
    logprobs: list[TokenLogprobs] = field(default_factory=list[TokenLogprobs])
    text: list[str] = field(default_factory=list[str])
    ahead: Draw | None = None
    launched_before: Counter[str] | None = None

    @property
    def id(self) -> str:
        """The caller's name for it."""
        return self.command.id

    @property
    def unfilled(self) -> int:
        """Prompt tokens not yet in pages."""
        return max(0, len(self.prompt) - self.table.length)

    def accept(self, token: int, is_end: bool) -> tuple[str, FinishReason | None]:
        """Take the next token. Returns text that may now be shown, and why the answer ends here, or None."""
        self.clock.last_token = time.perf_counter()
        if not self.generated:
            self.clock.first_token = self.clock.last_token
        self.generated.append(token)
        shown, stopped = ("", False) if is_end else self.stops.add(self.detokenizer.add(token))
        self.text.append(shown)
        if is_end or stopped:
            return shown, "stop"
        return shown, "length" if len(self.generated) >= self.most_tokens else None

    def drain(self) -> str:
        """The text still held back when an answer ends without a stop string."""
        rest, stopped = self.stops.add(self.detokenizer.finish())
        if not stopped:
            rest += self.stops.finish()
        self.text.append(rest)
        return rest

    def finished(self, reason: FinishReason, launches: Mapping[str, int]) -> Finished:
        """The event that ends it; `launches` of decode steps since it began."""
        return Finished(
            id=self.id,
            reason=reason,
            text="".join(self.text),
            tokens=tuple(self.generated),
            prompt_tokens=self.prompt,
            logprobs=None if self.command.logprobs is None else tuple(self.logprobs),
            timing=self.timing(),
            launches=dict(launches),
        )

    def timing(self) -> Timing:
        """Durations and rates so far."""
        clock, prefilled = self.clock, min(self.table.length, len(self.prompt))
        prefill_end = clock.first_token or time.perf_counter()
        prefill = prefill_end - clock.prefill_began if clock.prefill_began else 0.0
        decode = clock.last_token - clock.first_token
        return Timing(
            ttft_ms=1000 * (clock.first_token - clock.arrived) if clock.first_token else 0.0,
            prefill_tokens=prefilled,
            cached_tokens=0,
            prefill_tps=prefilled / prefill if prefill > 0 else 0.0,
            decode_tps=(len(self.generated) - 1) / decode if decode > 0 else 0.0,
        )


def accept_command(command: Generate, model: LoadedModel, arrived: float) -> Request:
    """Check and tokenise `command` for `model`.

    Raises InvalidRequest for a request that cannot be served, PromptTooLong when its prompt leaves no room
    for an answer within the context.
    """
    prompt = tuple(_prompt_ids(command, model))
    context = model.info.context_length
    if len(prompt) >= context:
        raise PromptTooLong(
            f"the prompt has {len(prompt):,} tokens and this model's context holds {context:,}, "
            "answer included; shorten it or start a new chat"
        )
    room = context - len(prompt)
    return Request(
        command=command,
        prompt=prompt,
        most_tokens=room if command.max_tokens is None else min(room, command.max_tokens),
        table=PageTable(),
        sampler=Sampler(command.sampling, model.config.vocab_size),
        detokenizer=model.tokenizer.detokenizer(),
        stops=StopStrings(command.stop),
        clock=Clock(arrived),
    )


def _prompt_ids(command: Generate, model: LoadedModel) -> list[int]:
    given = [command.messages is not None, command.prompt is not None, command.tokens is not None]
    if sum(given) != 1:
        raise InvalidRequest("give exactly one of messages, prompt and tokens")
    if command.max_tokens is not None and command.max_tokens < 1:
        raise InvalidRequest(f"max_tokens is {command.max_tokens}; it must be at least 1")
    if command.logprobs is not None and command.logprobs < 0:
        raise InvalidRequest(f"logprobs is {command.logprobs}; it must be 0 or more")
    if command.messages is not None:
        if not command.messages:
            raise InvalidRequest("messages is empty; give at least one")
        if model.tokenizer.chat_template is None:
            raise InvalidRequest(f"{model.info.name} has no chat template; give it a plain prompt instead")
        ids = model.tokenizer.encode_chat(command.messages)
    elif command.prompt is not None:
        ids = model.tokenizer.encode(command.prompt, special=True)
    else:
        ids = list(command.tokens or ())
    if not ids:
        raise InvalidRequest("the prompt is empty; type something")
    vocab = model.config.vocab_size
    outside = [token for token in ids if not 0 <= token < vocab]
    if outside:
        raise InvalidRequest(f"token id {outside[0]} is outside the model's vocabulary of {vocab:,}")
    return ids
