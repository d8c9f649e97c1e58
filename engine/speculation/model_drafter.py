"""Drafts from a small model of the same vocabulary, which goes along with the answer on pages of its own."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import cast

import mlx.core as mx

from engine.errors import ModelError
from engine.kv.page_table import PageTable
from engine.live_runner import LiveRunner
from engine.loading.files import ModelFiles
from engine.loading.model import LoadedModel
from engine.speculation.draft import MOST_DRAFTED, Draft

_SLICES = (32, 512)
"""Tokens that are read at once, at least and at most: powers of two, as a GPU prepares for a number."""

_RATES_KEPT = 3

_FEW = 9
"""Tokens that are taken in with a draft; of more some are read before."""

_STEPS = (1, 2)
"""Tokens of its other steps: few numbers, since a GPU compiles its kernels for each."""


class DraftModel:
    """A loaded model that guesses for another one.

    Both have one vocabulary, but one may have more rows behind it, which nobody is trained to choose.

    Attributes:
        live: its runner.
        rows: token ids that both have.
        rates: the tokens a second that it read lately.
    """

    def __init__(self, model: LoadedModel, target: LoadedModel) -> None:
        """Both have passed `check_vocabulary`."""
        self.model, self.rows = model, min(model.config.vocab_size, target.config.vocab_size)
        self.live = LiveRunner(model, lambda event: None, _STEPS)
        self.rates = deque[float](maxlen=_RATES_KEPT)

    def slice(self, seconds: float) -> int:
        """Tokens that are read in about so long, a power of two; the fewest before any rate was measured."""
        least, most = _SLICES
        tokens = min(max(int(seconds * max(self.rates, default=0.0)), least), most)
        return 1 << (tokens.bit_length() - 1)


class ModelDrafter:
    """A drafter for one sequence: the draft model's likeliest tokens.

    The text before them it reads a slice at a time, and keeps what it has read for the chat's next turn.

    Attributes:
        knows_all: whether its model has all tokens of the sequence; else there is no draft any more.
    """

    def __init__(self, draft_model: DraftModel) -> None:
        self._of, self._model, self._live = draft_model, draft_model.model, draft_model.live
        self.knows_all = True
        self._table = PageTable()
        self._tokens: list[int] = []
        self._guessed: tuple[int, ...] = ()

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read than is taken in with a draft."""
        return len(self._tokens) - self._table.length > _FEW

    def is_warm(self, length: int) -> bool:
        """Whether a draft compiles nothing, where it comes behind a sequence of `length` tokens."""
        return all(self._live.is_warm(tokens, length + MOST_DRAFTED) for tokens in _STEPS)

    def add(self, tokens: Sequence[int], chat: str | None) -> None:
        """The sequence, of `chat`, grew by `tokens`, guessed or not. What was guessed right is in pages."""
        self.knows_all &= max(tokens, default=0) < self._of.rows
        right = 0
        while right < min(len(tokens), len(self._guessed)) and tokens[right] == self._guessed[right]:
            right += 1
        self._table.length = min(self._table.length, len(self._tokens) + right)
        if tokens and not self._tokens:
            self._table = self._model.memory.begin(tokens, chat)
        self._tokens += tokens
        # The last one's logits are what is asked for: it is computed again where nothing came behind it.
        self._table.length = max(0, min(self._table.length, len(self._tokens) - 1))
        self._model.memory.trim(self._table)
        self._guessed = ()

    def read(self, seconds: float) -> None:
        """Read some of the text, in about `seconds`. Raises OutOfPages when its model's KV memory is full."""
        begin = self._table.length
        count = min(self._of.slice(seconds), len(self._tokens) - 1 - begin)
        began = time.perf_counter()
        self._live.runner.prefill(self._table, self._tokens[begin : begin + count])
        if count >= min(_SLICES):
            self._of.rates.append(count / (time.perf_counter() - began))

    def draft(self, most: int) -> Draft:
        """`most` tokens that may follow what it is not behind. Raises OutOfPages as `read` does.

        A device goes from each to the next without waiting for the host to read it.
        """
        runner = self._live.runner
        while len(self._tokens) - self._table.length > max(_STEPS):
            begin = self._table.length
            runner.prefill(self._table, self._tokens[begin : begin + max(_STEPS)])
        logits = runner.next_logits(self._table, self._tokens[self._table.length :])[None]
        chosen = list[mx.array]()
        while True:
            token, _ = runner.pick(logits[:, : self._of.rows])
            chosen.append(token)
            if len(chosen) == most:
                break
            (mx.async_eval if runner.looks_ahead else mx.eval)(token, runner.results)
            logits = runner.decode([self._table], token)
        mx.eval(chosen, runner.results)
        self._guessed = tuple(cast("int", token.item()) for token in chosen)
        return Draft(self._guessed, 0)

    def close(self, chat: str | None, most: int) -> None:
        """Give its pages back; of what is known to be text `most` tokens stay cached for `chat`.

        Nothing does where that is None.
        """
        self._table.length = min(self._table.length, len(self._tokens), most)
        if chat is not None:
            self._model.memory.keep(self._table, self._tokens, chat, whole=True)
        self._model.memory.free(self._table)


def check_vocabulary(model: ModelFiles, target: ModelFiles) -> None:
    """Raises ModelError when `model` does not have the vocabulary of `target`."""
    ours, theirs = model.tokenizer, target.tokenizer
    same = ours.vocab_size == theirs.vocab_size and ours.eos_ids == theirs.eos_ids
    if not same or any(ours.decode([token]) != theirs.decode([token]) for token in range(ours.vocab_size)):
        raise ModelError(
            f"{model.name} cannot guess for {target.name}: their vocabularies differ; "
            "choose a smaller model of the same family"
        )
