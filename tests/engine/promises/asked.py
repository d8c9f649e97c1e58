"""A chat with an engine, whose answers an oracle checks."""

from __future__ import annotations

from pathlib import Path

from engine import CacheReport, EngineSettings, Finished, Generate, SamplingParams, SsdSettings, Stats
from tests.engine.mix import samples
from tests.engine.oracle import Checked
from tests.fakes.listener import Listener

GREEDY = SamplingParams(temperature=0)
PAGE = 4
PROMPT = tuple(3 + 7 * number % 290 for number in range(50))
NEW = (17, 28, 39, 40, 51)


class Chat:
    """Asks one engine, and checks every answer against the oracle."""

    def __init__(self, listener: Listener, model: Checked, suffix: str = "") -> None:
        self.listener, self.model, self._suffix = listener, model, suffix
        self.asked: dict[str, Generate] = {}

    def submit(self, tokens: tuple[int, ...], count: int = 9, chat: str = "chat") -> str:
        name = f"r{len(self.asked)}" + self._suffix
        self.asked[name] = Generate(
            name,
            tokens=tokens,
            max_tokens=count,
            sampling=GREEDY,
            logprobs=0,
            ignore_eos=True,
            chat=chat,
        )
        self.listener.submit(self.asked[name])
        return name

    def end(self, name: str) -> tuple[Finished, CacheReport]:
        end = self.listener.finished(name)
        (report,) = (e for e in self.listener.events if isinstance(e, CacheReport) and e.id == name)
        for sample in samples(end):
            assert len(sample.tokens) == self.asked[name].max_tokens
            wrong = self.model.oracle.complaint(self.asked[name], end.prompt_tokens, sample)
            assert not wrong, wrong
        reused = report.cached_tokens + report.restored_tokens
        assert end.timing.cached_tokens == reused
        assert end.timing.prefill_tokens == len(end.prompt_tokens) - reused
        return end, report

    def say(
        self, tokens: tuple[int, ...], count: int = 9, chat: str = "chat"
    ) -> tuple[tuple[int, ...], CacheReport]:
        """The whole conversation after an answer, and what was cached for it."""
        end, report = self.end(self.submit(tokens, count, chat))
        return (*end.prompt_tokens, *end.tokens), report

    def idle(self) -> Stats:
        """The engine's pulse when nothing is left to do."""
        self.end(self.submit((5,), 1, ""))
        stats = self.listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
        assert isinstance(stats, Stats)
        return stats


def settings(pages: int = 128, folder: Path | None = None) -> EngineSettings:
    ssd = None if folder is None else SsdSettings(folder, 1 << 30, 0)
    return EngineSettings(page_size=PAGE, kv_pages=pages, prefill_chunk=16, ssd=ssd)
