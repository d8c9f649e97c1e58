"""Drafts from a small model of the same vocabulary, which goes along with the answer on pages of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import mlx.core as mx

from engine.errors import ModelError
from engine.kv.page_table import PageTable
from engine.live_runner import LiveRunner
from engine.loading.model import LoadedModel
from engine.speculation.draft import MOST_DRAFTED, Draft

_CHUNK = 512
_FEWEST = 9
"""Tokens that are taken in as part of a prompt is, however many they are."""

_STEPS = (1, 2)
"""Tokens of its other steps: few numbers, since a GPU compiles its kernels for each."""


class DraftModel:
    """A loaded model that guesses for another one.

    Both have one vocabulary, but one may have more rows behind it, which nobody is trained to choose.

    Attributes:
        live: its runner.
        rows: token ids that both have.
    """

    def __init__(self, model: LoadedModel, target: LoadedModel) -> None:
        """Raises ModelError when `model` does not have the vocabulary of `target`."""
        _check_vocabulary(model, target)
        self.model, self.rows = model, min(model.config.vocab_size, target.config.vocab_size)
        self.live = LiveRunner(model, lambda event: None, _STEPS)


class ModelDrafter:
    """A drafter for one sequence: the draft model's likeliest tokens.

    Attributes:
        knows_all: whether its model has all tokens of the sequence; else there is no draft any more.
    """

    def __init__(self, draft_model: DraftModel) -> None:
        self._model, self._live, self._rows = draft_model.model, draft_model.live, draft_model.rows
        self.knows_all = True
        self._table = PageTable()
        self._tokens: list[int] = []
        self._guessed: tuple[int, ...] = ()

    def is_warm(self, length: int) -> bool:
        """Whether a draft compiles nothing, where it comes behind a sequence of `length` tokens."""
        return all(self._live.is_warm(tokens, length + MOST_DRAFTED) for tokens in _STEPS)

    def add(self, tokens: Sequence[int]) -> None:
        """The sequence grew by `tokens`, guessed or not. What was guessed right is in pages already."""
        self.knows_all &= max(tokens, default=0) < self._rows
        right = 0
        while right < min(len(tokens), len(self._guessed)) and tokens[right] == self._guessed[right]:
            right += 1
        self._table.length = min(self._table.length, len(self._tokens) + right)
        self._tokens += tokens
        # The last one's logits are what is asked for: it is computed again where nothing came behind it.
        self._table.length = max(0, min(self._table.length, len(self._tokens) - 1))
        self._guessed = ()

    def draft(self, most: int) -> Draft:
        """At most `most` tokens that may follow. Raises OutOfPages when its model's KV memory is full."""
        runner = self._live.runner
        while (missing := len(self._tokens) - self._table.length) > max(_STEPS):
            begin = self._table.length
            count = min(missing - 1, _CHUNK) if missing > _FEWEST else max(_STEPS)
            runner.prefill(self._table, self._tokens[begin : begin + count])
        pending, guessed = self._tokens[self._table.length :], list[int]()
        for _ in range(most):
            logits = runner.next_logits(self._table, pending)
            token, _ = runner.pick(logits[None, : self._rows])
            mx.eval(token, runner.results)
            pending = cast("list[int]", token.tolist())
            guessed += pending
        self._guessed = tuple(guessed)
        return Draft(self._guessed, 0)

    def close(self) -> None:
        """Give its pages back."""
        self._model.memory.free(self._table)


def _check_vocabulary(model: LoadedModel, target: LoadedModel) -> None:
    ours, theirs = model.tokenizer, target.tokenizer
    same = ours.vocab_size == theirs.vocab_size and ours.eos_ids == theirs.eos_ids
    if not same or any(ours.decode([token]) != theirs.decode([token]) for token in range(ours.vocab_size)):
        raise ModelError(
            f"{model.info.name} cannot guess for {target.info.name}: their vocabularies differ; "
            "choose a smaller model of the same family"
        )
