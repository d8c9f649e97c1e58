"""Chats in random orders with a draft model: what either model keeps of a chat is wanted of it."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from engine.commands import Generate, Keep
from engine.events.events import Failed, Finished
from engine.kv.memory import KVMemory
from engine.requests.accepting import accept_command
from engine.requests.admission import Capacity
from engine.requests.request import Request
from engine.sampling.params import SamplingParams
from tests.engine.served_model import Model
from tests.engine.watched import guess_always, warm_always

CHATS = ("x", "y", "z")
Text = tuple[int, ...]


class Chats:
    """What was asked of a served model, and which texts of each chat somebody may go on with."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.model = Model(folder, None, 40, has_draft=True)
        self.serving, self._rng = self.model.serving, Random(seed)
        self._asked = list[Request]()
        self._shared = list[tuple[str, Text]]()
        self._unwanted = set[tuple[Request, int]]()
        self._forgotten = set[Request]()

    def act(self) -> None:
        """One thing that may happen between two steps, or a few steps."""
        rng = self._rng
        chance, chat = rng.random(), rng.choice(CHATS)
        ended = [request for request in self._asked if request.is_over]
        if chance < 0.15 and len(self._asked) - len(ended) < 4:
            self._ask(chat)
        elif chance < 0.2 and self._asked:
            self._cancel(rng.choice(self._asked[-3:]), rng.choice((None, 0, 1)))
        elif chance < 0.23:
            self._forget(chat)
        elif chance < 0.3 and ended:
            self._keep(rng.choice(ended[-3:]))
        elif chance < 0.33 and ended:
            text = rng.choice(_texts(rng.choice(ended[-3:])))
            self._shared.append((chat, text))
            self.serving.chats.share(chat, text)
        else:
            self._work(rng.choice((1, 3, 12)))

    def end(self) -> None:
        """All that was asked ends, and all chats are forgotten."""
        while self.serving.busy:
            self._work(1)
        for chat in CHATS:
            self._forget(chat)

    def check(self) -> None:
        """The books of both models are right, and a chat's pages are of the beginning of a wanted text."""
        own, draft = self.model.model.memory, self.model.draft
        assert draft is not None
        guesses = (speculation._model for speculation in self.serving._speculations._of.values())
        own.check([sequence.table for sequence in self.serving._batcher])
        draft.memory.check([each._drafter._table for each in guesses if each])
        for memory in (own, draft.memory):
            for chat, text in _kept(memory):
                assert any(wanted[: len(text)] == text for wanted in self._wanted(chat)), (chat, len(text))

    def _ask(self, chat: str) -> None:
        rng, said = self._rng, [text for request in self._asked[-4:] for text in _texts(request)]
        begin = rng.choice([*said, ()])[:200] or tuple(range(3, 3 + rng.choice((10, 50))))
        prompt = (*begin, *(rng.randrange(3, 300) for _ in range(rng.choice((0, 1, 20)))))
        command = Generate(
            str(len(self._asked)),
            tokens=prompt,
            max_tokens=rng.choice((4, 20, 50)),
            ignore_eos=True,
            chat=chat,
            n=rng.choice((1, 2, 2)),
            sampling=SamplingParams(temperature=rng.choice((0.0, 1.0)), seed=len(self._asked)),
        )
        request = accept_command(command, self.model.model, self._capacity, time.perf_counter())
        self._asked.append(request)
        self.serving.add(request)

    def _cancel(self, request: Request, sample: int | None) -> None:
        for sequence in request.sequences:
            if sequence.index == sample and sequence.reason is None:
                self._unwanted.add((request, sample))
        self.serving.cancel(request.id, sample)

    def _forget(self, chat: str) -> None:
        self._forgotten |= {request for request in self._asked if request.command.chat == chat}
        self._shared = [(other, text) for other, text in self._shared if other != chat]
        self.serving.forget(chat)

    def _keep(self, request: Request) -> None:
        kept = self._rng.randrange(len(request.sequences))
        texts = _texts(request)
        others = tuple(text for index, text in enumerate(texts) if index != kept)
        for index, text in enumerate(texts):
            (self._unwanted.discard if text == texts[kept] else self._unwanted.add)((request, index))
        for _ in range(2):
            free = self._free_pages
            self.serving.chats.keep(Keep(request.command.chat, texts[kept], others))
        assert self._free_pages == free  # the first time everything went that could

    def _work(self, steps: int) -> None:
        for _ in range(steps):
            if self.serving.busy:
                self.serving.work()

    def _capacity(self, prompt: Text) -> Capacity:
        return self.serving.chats.capacity("", prompt)

    @property
    def _free_pages(self) -> int:
        assert self.model.draft is not None
        return self.model.model.pager.free_pages + self.model.draft.pager.free_pages

    def _wanted(self, chat: str) -> list[Text]:
        wanted = [text for other, text in self._shared if other == chat]
        for request in self._asked:
            if request.command.chat == chat and request not in self._forgotten:
                texts = enumerate(_texts(request))
                wanted += [request.prompt]
                wanted += [text for index, text in texts if (request, index) not in self._unwanted]
        return wanted


def _texts(request: Request) -> list[Text]:
    """Its prompt with each of its answers, as far as they are."""
    return [sequence.tokens(0, sequence.length) for sequence in request.sequences]


def _kept(memory: KVMemory) -> list[tuple[str, Text]]:
    """Whose each page of the prefix tree is, and all tokens up to its end."""
    kept, waiting = list[tuple[str, Text]](), [(memory.tree.root, tuple[int, ...]())]
    while waiting:
        node, before = waiting.pop()
        for child in node.children.values():
            text = (*before, *child.tokens)
            kept += [(owner, text) for owner in child.owners]
            waiting.append((child, text))
    return kept


@pytest.mark.parametrize("seed", [0, 5, 15, 24])
def test_nothing_is_kept_of_a_chat_that_nobody_wants(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guess_always(monkeypatch)
    warm_always(monkeypatch)
    chats = Chats(tmp_path, seed)
    for _ in range(150):
        chats.act()
        chats.check()
    chats.end()
    chats.check()
    ends = [event for event in chats.model.events if isinstance(event, Finished | Failed)]
    assert all(isinstance(end, Finished) for end in ends)
    assert len({end.id for end in ends}) == len(ends) == len(chats._asked)
    assert sum(end.drafted_tokens for end in ends if isinstance(end, Finished)) > 20
