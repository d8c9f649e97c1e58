"""A served model without the engine's thread: tests say when it works and when it rests."""

from __future__ import annotations

import time
from pathlib import Path

from engine.commands import Generate
from engine.events.cache import CacheReport
from engine.events.events import Event, Finished
from engine.kv.ssd.settings import SsdSettings
from engine.loading.model import load_model
from engine.requests.accepting import accept_command
from engine.requests.request import Request
from engine.rest.warming import Warming
from engine.sampling.params import SamplingParams
from engine.serving import Serving
from engine.settings import EngineSettings
from engine.speculation.model_drafter import DraftModel
from tests.fakes.random_model import write_random_model

PROMPT = tuple(3 + (7 * place) % 290 for place in range(200))


class Model:
    """A random model, its `events`, and its pages on SSD in the folder `ssd`; it may guess for itself."""

    def __init__(
        self,
        folder: Path,
        ssd: Path | None,
        pages: int | None = None,
        check_share: float = 0.0,
        family: str = "llama",
        cap: int = 64 << 20,
        has_draft: bool = False,
        kv_bits: int | None = None,
        **changes: object,
    ) -> None:
        stored = None
        if ssd is not None:
            stored = SsdSettings(ssd, cap_bytes=cap, floor_bytes=0, check_share=check_share)
        # Kernels have an arena of their own size at load: what is tested is when it grows.
        settings = EngineSettings(
            executor="reference", ssd=stored, cache=folder / "cache", kv_pages=pages, kv_bits=kv_bits
        )
        written = write_random_model(folder / "model", family, **changes)
        self.model = load_model(written, settings, lambda done, total: None)
        self.events: list[Event] = []
        guesses = EngineSettings(kv_pages=pages)
        self.draft = load_model(written, guesses, lambda done, total: None) if has_draft else None
        draft = DraftModel(self.draft, self.model) if self.draft else None
        self.serving = Serving(self.model, settings, self.events.append, draft)
        self.serving._tidying._is_short = lambda more: False  # whatever else runs on this machine
        self.serving._warming = Warming(())  # what a GPU compiles at rest is test_warming.py's

    def ask(
        self, name: str, tokens: tuple[int, ...] = PROMPT, answer: int = 6, chat: str = ""
    ) -> tuple[Finished, CacheReport]:
        self.serving.add(self.request(name, tokens, answer, chat))
        while self.serving.busy:
            self.serving.work()
        (end,) = (event for event in self.events if isinstance(event, Finished) and event.id == name)
        (report,) = (event for event in self.events if isinstance(event, CacheReport) and event.id == name)
        return end, report

    def request(self, name: str, tokens: tuple[int, ...], answer: int = 6, chat: str = "") -> Request:
        greedy = SamplingParams(temperature=0)
        command = Generate(
            name, tokens=tokens, max_tokens=answer, sampling=greedy, ignore_eos=True, chat=chat
        )
        return accept_command(
            command, self.model, lambda prompt: self.serving.chats.capacity(chat, prompt), time.perf_counter()
        )

    def rest(self, seconds: float) -> None:
        """Tidy until it has nothing more to do now."""
        self.serving.tidy(seconds)
        while (due := self.serving.next_tidying) is not None and due < 1:
            self.serving.tidy(seconds)


def long_prompt(number: int, pages: int) -> tuple[int, ...]:
    """Of so many pages but for half of one; those of other numbers begin otherwise."""
    return tuple(3 + (7 * place + place // 290 + number) % 290 for place in range(16 * pages - 8))
