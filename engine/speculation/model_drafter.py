"""Drafts from a small model of the same vocabulary, which goes along with the answer on pages of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import mlx.core as mx

from engine.errors import ModelError
from engine.kv.pager import PageTable
from engine.loading.model import LoadedModel
from engine.runner import Runner
from engine.speculation.draft import Draft

_CHUNK = 512


class DraftModel:
    """A loaded model that guesses for another one."""

    def __init__(self, model: LoadedModel, target: LoadedModel) -> None:
        """Raises ModelError when `model` does not have the vocabulary of `target`."""
        _check_vocabulary(model, target)
        self.model = model
        self.runner = Runner(model)


class ModelDrafter:
    """A drafter for one sequence: the draft model's likeliest tokens."""

    def __init__(self, draft_model: DraftModel) -> None:
        self._model, self._runner = draft_model.model, draft_model.runner
        self._table = PageTable()
        self._tokens: list[int] = []
        self._guessed: tuple[int, ...] = ()

    def add(self, tokens: Sequence[int]) -> None:
        """See Drafter. What was guessed right is in pages already."""
        right = 0
        while right < min(len(tokens), len(self._guessed)) and tokens[right] == self._guessed[right]:
            right += 1
        self._table.length = min(self._table.length, len(self._tokens) + right)
        self._tokens += tokens
        self._guessed = ()

    def draft(self, most: int) -> Draft:
        """See Drafter. Raises OutOfPages when the draft model's KV memory is full."""
        while len(self._tokens) - self._table.length > _CHUNK:
            begin = self._table.length
            self._runner.prefill(self._table, self._tokens[begin : begin + _CHUNK])
        pending, guessed = self._tokens[self._table.length :], list[int]()
        for _ in range(most):
            logits = self._runner.next_logits(self._table, pending)
            token, _ = self._runner.pick(logits[None])
            mx.eval(token, self._runner.results)
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
