"""A served model whose requests arrive when a test says so, on the test's own thread."""

from __future__ import annotations

import time
from pathlib import Path

from engine.commands import Generate, Lane, LoadModel
from engine.events.events import Event, Failed, Finished
from engine.loading.thread import at_once
from engine.requests.accepting import accept_command
from engine.requests.request import Request
from engine.residents.opened import open_both
from engine.residents.opening import open_model
from engine.sampling.params import SamplingParams
from engine.serving import Serving
from engine.settings import EngineSettings
from tests.engine.mix import samples
from tests.engine.oracle import Checked, Oracle
from tests.fakes.random_model import write_random_model


def ids(count: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(3 + (seed * 37 + place * 7 + place * place) % 290 for place in range(count))


class Queue:
    """A served model whose requests arrive when they are told to."""

    def __init__(
        self,
        folder: Path,
        pages: int,
        draft: bool = False,
        model: Checked | None = None,
        **settings: object,
    ) -> None:
        self.model = model
        self.path = (
            model.folder if model else write_random_model(folder / "model", max_position_embeddings=1024)
        )
        guesses = str(write_random_model(folder / "draft", max_position_embeddings=1024)) if draft else ""
        made = EngineSettings(kv_pages=pages, cache=folder / "cache", **settings)  # type: ignore[arg-type]
        opened = open_both(LoadModel("load", str(self.path), draft_model=guesses), made, at_once)
        self.events: list[Event] = []
        self.serving: Serving = open_model("load", opened, self.events.append, lambda: None)
        self.asked: dict[str, Request] = {}

    def request(
        self,
        name: str,
        tokens: tuple[int, ...],
        answer: int,
        lane: Lane = "api",
        chat: str = "",
        age: float = 0.0,
        n: int = 1,
        sampling: SamplingParams = SamplingParams(temperature=0),  # noqa: B008 — frozen
    ) -> Request:
        """One to be queued, that has waited for `age` seconds, or to be asked about."""
        command = Generate(
            name,
            tokens=tokens,
            max_tokens=answer,
            ignore_eos=True,
            sampling=sampling,
            lane=lane,
            chat=chat,
            n=n,
        )
        chats, arrived = self.serving.chats, time.perf_counter() - age
        return accept_command(
            command, self.serving.model, lambda prompt: chats.capacity(chat, prompt), arrived
        )

    def add(self, request: Request) -> None:
        """It comes now."""
        self.asked[request.id] = request
        self.serving.add(request)

    def work(self, steps: int | None = None) -> None:
        while self.serving.busy and steps != 0:
            self.serving.work()
            steps = None if steps is None else steps - 1
        failed = [event for event in self.events if isinstance(event, Failed)]
        assert not failed, failed[0].detail

    def work_until_all_write(self) -> None:
        """Each that was asked has its first token."""
        while not all(sequence.generated for sequence in self.serving._batcher):
            self.work(1)

    @property
    def ends(self) -> list[Finished]:
        return [event for event in self.events if isinstance(event, Finished)]

    @property
    def running(self) -> set[str]:
        return {sequence.request.id for sequence in self.serving._batcher.running}

    @property
    def preemptions(self) -> int:
        return self.serving._batcher.giving_way.count

    def close(self) -> None:
        """Every answer is what it is alone, and nothing is left."""
        oracle = self.model.oracle if self.model else Oracle(self.path)
        for end in self.ends:
            asked = self.asked[end.id]
            for sample in samples(end):
                wrong = oracle.complaint(asked.command, asked.prompt, sample)
                assert not wrong, f"{end.id}: {wrong}"
        assert self.serving.model.pager.pages_used == 0
        self.serving.model.memory.check([])
        guessing = self.serving._speculations._model
        assert guessing is None or guessing.model.pager.pages_used == 0
        self.serving.close()
