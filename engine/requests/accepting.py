"""A command becomes a request, or is refused in words: its prompt as ids, and room for it."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import replace

import numpy as np

from engine.commands import Generate
from engine.errors import InvalidRequest, PromptTooLong, words
from engine.events.cache import WayOut
from engine.events.events import Limit
from engine.loading.model import LoadedModel
from engine.requests.admission import Capacity, check_capacity
from engine.requests.request import Clock, Request, Sequence
from engine.requests.stopping import StopStrings
from engine.sampling.device import Sampler
from engine.scheduler import MAX_RUNNING, rank_of
from engine.tokenizer.history import ChatPrompt, chat_prompt, prompt_of


def check_command(command: Generate) -> None:
    """Raises InvalidRequest for what no model can be asked."""
    given = [command.messages is not None, command.prompt is not None, command.tokens is not None]
    if sum(given) != 1:
        raise InvalidRequest("give exactly one of messages, prompt and tokens")
    if command.max_tokens is not None and command.max_tokens < 1:
        raise InvalidRequest(f"max_tokens is {command.max_tokens}; it must be at least 1")
    if not 1 <= command.n <= MAX_RUNNING:
        raise InvalidRequest(f"n is {command.n}; it must be from 1 to {MAX_RUNNING}")
    if command.logprobs is not None and command.logprobs < 0:
        raise InvalidRequest(f"logprobs is {command.logprobs}; it must be 0 or more")
    if command.messages is not None and not command.messages:
        raise InvalidRequest("messages is empty; give at least one")
    StopStrings(command.stop)


def accept_command(
    command: Generate,
    model: LoadedModel,
    capacity_for: Callable[[Many[int]], Capacity],
    arrived: float,
) -> Request:
    """Check and tokenise `command` for `model`; `capacity_for` says what KV memory has for a prompt.

    Raises InvalidRequest for a request that cannot be served: PromptTooLong when its prompt leaves no
    room for an answer within the model's context, Refused when KV memory has too few pages for it.
    """
    taken_up = time.perf_counter()
    check_command(command)
    chat = _prompt_of(command, model)
    prompt, ids = chat.ids, _checked(chat, model.config.vocab_size)
    _check_context(command, len(prompt), model)
    capacity = capacity_for(ids)
    resident = min(len(prompt), model.most_resident - 1)  # with the next token
    check_capacity(resident, command.n, capacity, len(prompt) - resident)
    most_tokens, limit = _room(command, len(prompt), model, capacity)
    request = Request(
        command=command,
        prompt=prompt,
        ids=ids,
        most_tokens=most_tokens,
        clock=Clock(arrived, taken_up),
        rank=rank_of(command.lane, arrived),
        most_resident=model.most_resident,
        missed=chat.reason,
        affected=chat.affected,
        history=chat.kept,
    )
    request.sequences += [_sequence(request, index, model, limit) for index in range(command.n)]
    return request


def _check_context(command: Generate, prompt: int, model: LoadedModel) -> None:
    """Raises PromptTooLong where so many tokens leave no room for an answer."""
    context, whole = model.config.context_length, model.whole_context
    if prompt < context:
        return
    goes_on = any(message.role == "assistant" for message in command.messages or ())
    also, shorten = (", ", "shorten it or start a new chat") if goes_on else (" or ", "shorten it")
    if prompt < whole:
        ways_out = (WayOut("larger context", whole),)
        raise PromptTooLong(
            f"the prompt has {prompt:,} tokens and this model's context is set to {context:,}, answer "
            f"included; {words(ways_out)}{also}{shorten}",
            ways_out,
        )
    raise PromptTooLong(
        f"the prompt has {prompt:,} tokens and this model's context holds {whole:,} at most, "
        f"answer included; {shorten}"
    )


def _room(command: Generate, prompt: int, model: LoadedModel, capacity: Capacity) -> tuple[int, Limit]:
    """Most tokens of an answer behind `prompt` tokens, beside pinned chats, and what allows no more."""
    context, fitting = model.info.context_length, capacity.available * capacity.page_size
    if fitting < context and model.config.largest_window is None:  # or pages are given back meanwhile
        context = fitting
    if command.max_tokens is not None and command.max_tokens <= context - prompt:
        return command.max_tokens, "max_tokens"
    if context < model.config.context_length:
        return context - prompt, "memory"
    return context - prompt, "setting" if context < model.whole_context else "context"


def _sequence(request: Request, index: int, model: LoadedModel, limit: Limit) -> Sequence:
    sampling = request.command.sampling
    if index and sampling.seed is not None:
        sampling = replace(sampling, seed=sampling.seed + index)
    return Sequence(
        request=request,
        index=index,
        sampler=Sampler(sampling, model.config.vocab_size),
        detokenizer=model.tokenizer.detokenizer(),
        stops=StopStrings(request.command.stop),
        limit=limit,
    )


def _checked(chat: ChatPrompt, vocab: int) -> array[int]:
    """The ids of a prompt, once all are known to be 0 … vocab-1; in less time than `min` and `max` take."""
    if not chat.ids:
        raise InvalidRequest("the prompt is empty; type something")
    ids = chat.packed
    if ids is not None and int(np.frombuffer(ids, np.uintc).max()) < vocab:
        return ids
    outside = next(token for token in chat.ids if not 0 <= token < vocab)
    raise InvalidRequest(f"token id {outside} is outside the model's vocabulary of {vocab:,}")


def _prompt_of(command: Generate, model: LoadedModel) -> ChatPrompt:
    """Its ids, and how far they are those that its chat was computed as."""
    if command.messages is not None:
        if model.tokenizer.chat_template is None:
            raise InvalidRequest(f"{model.info.name} has no chat template; give it a plain prompt instead")
        return chat_prompt(model.tokenizer, command.messages, command.history, model.info.path)
    if command.prompt is not None:
        return prompt_of(tuple(model.tokenizer.encode(command.prompt, special=True)))
    return ChatPrompt(command.tokens or (), command.packed)
