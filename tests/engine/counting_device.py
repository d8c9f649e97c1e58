"""A GPU that counts what it compiles, and a model served on it, or two."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine import EngineSettings, Event, Finished, Generate, SamplingParams, Stats
from engine.kv.ssd.settings import SsdSettings
from engine.loading.model import LoadedModel, load_model
from engine.requests.accepting import accept_command
from engine.rest.warming import PAUSE_S
from engine.serving import Serving
from engine.speculation.model_drafter import DraftModel
from tests.engine.first_launches import FirstLaunches
from tests.fakes.random_model import write_random_model

TEXT = tuple(range(3, 23)) * 2
"""What comes out is token 0 again and again, which is soon known."""
SHAPE = {
    "head_dim": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 2048,
}


class Device:
    """A model, or two, served on a GPU that counts what it compiles; without the engine's thread."""

    def __init__(
        self,
        folder: Path,
        *,
        speculation: bool = True,
        draft: bool = False,
        kv_bits: int | None = None,
        shape: Mapping[str, Any] = SHAPE,
        ssd: SsdSettings | None = None,
    ) -> None:
        self.gpu, self.events = FirstLaunches(), list[Event]()
        settings = EngineSettings(
            executor="emulated",
            cache=folder / "cache",
            ssd=ssd,
            speculation=speculation,
            kv_bits=kv_bits,
            kv_pages=4096,
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("engine.loading.executor.open_executor", self._gpu_for)
            self.model = _load(folder / "model", settings, shape)
            draft_model = DraftModel(_load(folder / "draft", settings, shape), self.model) if draft else None
        self.serving = Serving(self.model, settings, self.events.append, draft_model)

    def ask(self, tokens: tuple[int, ...] = TEXT, answer: int = 60, temperature: float = 0) -> int:
        """Generate; returns how many tokens were guessed for it."""
        before, name = self.guessed, self._send(tokens, answer, temperature)
        while self.serving.busy:
            self.serving.work()
        (end,) = (event for event in self.events if isinstance(event, Finished) and event.id == name)
        assert len(end.tokens) == answer
        return self.guessed - before

    def ask_beside(self, tokens: tuple[int, ...]) -> None:
        """Generate a token behind `tokens` beside an answer that is being written."""
        self._send(TEXT, 500, 0)
        for _ in range(5):
            self.serving.work()
        name = self._send(tokens, 1, 0)
        while not any(isinstance(event, Finished) and event.id == name for event in self.events):
            self.serving.work()
        self.serving.cancel_all()

    def ask_at_once(self, answers: Sequence[int]) -> None:
        """Generate answers of these lengths beside each other."""
        for number, answer in enumerate(answers):
            self._send(TEXT[number % 7 :], answer, 0)
        while self.serving.busy:
            self.serving.work()

    def _send(self, tokens: tuple[int, ...], answer: int, temperature: float) -> str:
        name = str(len(self.events))
        sampling = SamplingParams(
            temperature=temperature, seed=1, logit_bias=((0, 50.0),) if temperature else ()
        )
        command = Generate(name, tokens=tokens, max_tokens=answer, sampling=sampling, ignore_eos=True)
        accepted = accept_command(
            command, self.model, lambda prompt: self.serving.chats.capacity(), time.perf_counter()
        )
        self.serving.add(accepted)
        return name

    def _gpu_for(self, *_: object) -> FirstLaunches:
        return self.gpu

    @property
    def guessed(self) -> int:
        stats = [event for event in self.events if isinstance(event, Stats)]
        return stats[-1].cache.drafted_tokens if stats else 0

    def rest(self) -> int:
        """Until there is nothing to compile; returns how many times something was."""
        steps = 0
        while (due := self.serving.next_tidying) is not None and due == PAUSE_S:
            self.serving.tidy(PAUSE_S)
            steps += 1
        return steps


def _load(folder: Path, settings: EngineSettings, shape: Mapping[str, Any]) -> LoadedModel:
    write_random_model(folder, **shape)
    return load_model(folder, settings, lambda done, total: None)
