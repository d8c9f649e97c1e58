"""A random mix of requests on one engine, as chats and programs make them, and what must hold of it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from engine import (
    CacheCounts,
    CacheReport,
    Cancel,
    ChatsCached,
    EngineSettings,
    Event,
    Failed,
    Finished,
    Forget,
    Generate,
    ModelReady,
    ModelUnloaded,
    Pin,
    PrefillProgress,
    Sample,
    SamplingParams,
    Stats,
    TextChunk,
    UnloadModel,
)
from tests.engine.oracle import Checked
from tests.engine.watched import Watch
from tests.fakes.listener import running_engine

CHATS = ("", "ada", "bo", "cy")
HOT = SamplingParams(temperature=0.9, seed=7)
GREEDY = SamplingParams(temperature=0)


@dataclass
class Asked:
    """A request of the mix: when to cancel it, what it said, and whether chats were pinned meanwhile."""

    command: Generate
    cancel_after: int | None
    saw_pins: bool
    text: dict[int, str] = field(default_factory=lambda: defaultdict(str))
    ends: list[Finished | Failed] = field(default_factory=list[Finished | Failed])
    reports: list[CacheReport] = field(default_factory=list[CacheReport])


@dataclass(frozen=True)
class Chances:
    """How often each thing happens beside the next request."""

    cancel: float = 0.15
    several: float = 0.2
    pin: float = 0.04
    forget: float = 0.04
    reload: float = 0.0
    breaks: bool = False
    """Whether steps break: then requests may fail as "Internal"."""


class Mix:
    """Plays one random mix; the same seed asks the same, though answers may come in another order."""

    def __init__(
        self,
        model: Checked,
        settings: EngineSettings,
        watch: Watch,
        seed: int,
        chances: Chances | None = None,
        draft: object = "",
    ) -> None:
        self.model, self.settings, self.watch, self._draft = model, settings, watch, draft
        self.seen = Counter[str]()
        self.counts = CacheCounts()
        self.asked: dict[str, Asked] = {}
        self._rng = random.Random(seed)
        self._chances = chances or Chances()
        self._running: set[str] = set()
        self._histories: list[tuple[int, ...]] = []
        self._pinned: set[str] = set()
        self._stats: Stats | None = None
        self._ready = 0

    def play(self, requests: int, at_once: int = 6) -> Mix:
        """Ask `requests` times, at most `at_once` at a time; then check everything that came."""
        with running_engine(self.settings) as self._listener:
            self._load()
            together = min(at_once, requests // 2)
            with self._listener.held():  # these meet, however the machine's time is shared out
                for number in range(together):
                    self._ask(f"r{number}", self._prompt())
            if self._chances.reload:
                self._pump(lambda: not self._running)
                self._unload()
                self._load()
                self._ask("back", max(self._histories, key=len)[: self.context - 2])
            for number in range(together, requests):
                self._meddle()
                self._ask(f"r{number}", self._prompt())
                most = self._rng.randrange(at_once)
                self._pump(lambda most=most: len(self._running) <= most)
            self._pump(lambda: not self._running)
            self._settle()
            self._unload()
        self._check()
        return self

    @property
    def ends(self) -> list[Finished | Failed]:
        """How the requests ended."""
        return [end for asked in self.asked.values() for end in asked.ends]

    def _load(self) -> None:
        self._ready += 1
        ready = self._listener.load(self.model.folder, f"load {self._ready}", self._draft)
        self.context = ready.model.context_length
        self._served = self.watch.models[-2 if self._draft else -1]
        self._resident = self._served.most_resident - 1  # with the next token

    def _unload(self) -> None:
        """What runs is cancelled; counts of the engine begin anew."""
        self._listener.submit(UnloadModel())
        self._note(self._listener.wait(lambda event: self._note(event) or isinstance(event, ModelUnloaded)))
        if self._stats is not None:
            self._add_up(self._stats.cache)
        assert not self._running, self._running
        self._pinned.clear()

    def _add_up(self, cache: CacheCounts) -> None:
        self.seen["spilled_pages"] += cache.spilled_pages + cache.waiting_pages  # the end writes what waits
        for name in ("evicted_pages", "restored_pages", "copied_pages", "preemptions"):
            self.seen[name] += getattr(cache, name)
        for name in (
            "computed_tokens",
            "cached_tokens",
            "restored_tokens",
            "drafted_tokens",
            "quarantined_files",
        ):
            self.seen[name] += getattr(cache, name)

    def _settle(self) -> None:
        """Wait for the Stats of an idle engine: nobody holds a page."""
        for chat in self._pinned:
            self._listener.submit(Pin(chat, False))
        self._listener.submit(Generate("settle", tokens=(5,), max_tokens=1, ignore_eos=True))
        self._listener.wait(lambda event: self._note(event) or is_end(event, "settle"))
        idle = self._listener.wait(lambda event: self._note(event) or isinstance(event, Stats))
        assert isinstance(idle, Stats)
        assert (idle.active_id, idle.queued, idle.running, idle.pages_used) == ("", 0, 0, 0)

    def _meddle(self) -> None:
        """Now and then: pin, unpin, forget, or unload and load again."""
        rng, chances = self._rng, self._chances
        chat = rng.choice(CHATS[1:])
        if rng.random() < chances.pin:
            self._pinned.add(chat)
            self._listener.submit(Pin(chat, True))
            for name in self._running:
                self.asked[name].saw_pins = True
        elif self._pinned and rng.random() < 0.3:
            chat = sorted(self._pinned)[0]
            self._pinned.discard(chat)
            self._listener.submit(Pin(chat, False))
        if rng.random() < chances.forget:
            self._pinned.discard(chat)
            self._listener.submit(Forget(chat))
        if rng.random() < chances.reload:
            if rng.random() < 0.5:
                self._pump(lambda: not self._running)
            self._unload()
            self._load()

    def _ask(self, name: str, prompt: tuple[int, ...]) -> None:
        rng = self._rng
        command = Generate(
            name,
            tokens=prompt,
            max_tokens=rng.randint(1, max(1, min(24, self.context // 3))),
            sampling=HOT if rng.random() < 0.2 else GREEDY,
            logprobs=0 if rng.random() < 0.6 else None,
            ignore_eos=True,
            chat=rng.choice(CHATS),
            lane=rng.choice(("window", "api")),
            n=rng.randint(2, 4) if rng.random() < self._chances.several else 1,
        )
        cancel = rng.randrange(12) if rng.random() < self._chances.cancel else None
        self.asked[name] = Asked(command, cancel, saw_pins=bool(self._pinned))
        self._running.add(name)
        self._histories.append(prompt)
        self._listener.submit(command)
        if cancel == 0:
            self._listener.submit(Cancel(name))

    def _prompt(self) -> tuple[int, ...]:
        """A new one, a next turn, an edit inside any page, or one that was asked before."""
        rng, longest = self._rng, self.context - 2
        kind = rng.choice(("new", "turn", "turn", "edit", "edit", "again")) if self._histories else "new"
        more = tuple(rng.randrange(3, 300) for _ in range(rng.randint(1, max(1, longest // 2))))
        before = rng.choice(self._histories[-12:]) if self._histories else ()
        if kind == "new":
            prompt = more
        elif kind == "turn":
            prompt = (*before, *more[:20])
        elif kind == "edit":
            prompt = (*before[: rng.randrange(len(before))], *more[:20])
        else:
            prompt = before
        self.seen[kind] += 1
        return prompt[:longest] or (5,)

    def _pump(self, until: object) -> None:
        assert callable(until)
        while not until():
            self._listener.wait(lambda event: self._note(event) or True)

    def _note(self, event: Event) -> bool:
        """Take an event into account. Always False, so that it fits into conditions."""
        if isinstance(event, Stats):
            self._stats = event
            assert event.pages_used + event.cached_pages <= event.total_pages
            return False
        if (
            isinstance(event, ModelReady | ModelUnloaded | ChatsCached)
            or getattr(event, "id", "") == "settle"
        ):
            return False
        asked = self.asked.get(getattr(event, "id", ""))
        if asked is None:
            return False
        assert not asked.ends, f"{event} came after the end"
        if isinstance(event, TextChunk):
            asked.text[event.sample] += event.text
            self._cancel_at(asked, event.generated_tokens)
        elif isinstance(event, CacheReport):
            asked.reports.append(event)
        elif isinstance(event, PrefillProgress):
            assert asked.reports
            self._cancel_at(asked, 0)
        elif isinstance(event, Finished | Failed):
            asked.ends.append(event)
            self._running.discard(event.id)
            if isinstance(event, Finished):
                self._histories += [
                    (*event.prompt_tokens, *sample.tokens) for sample in samples(event) if sample.tokens
                ]
        return False

    def _cancel_at(self, asked: Asked, tokens: int) -> None:
        if asked.cancel_after is not None and tokens >= asked.cancel_after:
            asked.cancel_after = None
            self._listener.submit(Cancel(asked.command.id))

    def _check(self) -> None:
        assert not self.watch.wrong, self.watch.wrong[:3]
        assert self.seen["quarantined_files"] == 0
        ends = Counter(e.id for e in self._listener.drain() if isinstance(e, Finished | Failed))
        assert all(ends[name] == 1 for name in self.asked), ends
        for name, asked in self.asked.items():
            wrong = self._complaint(asked)
            assert not wrong, f"{name}: {wrong}; asked {asked.command}"

    def _complaint(self, asked: Asked) -> str:
        (end,) = asked.ends
        self.seen[end.reason if isinstance(end, Finished) else end.kind] += 1
        needed = self._needed(asked.command)
        if isinstance(end, Failed):
            if end.kind == "Internal" and self._chances.breaks:
                return ""
            if end.refusal is None:
                return f"it failed: {end.error} {end.detail}"
            is_due = needed > self._total or asked.saw_pins
            return "" if is_due else f"it was refused and needs {needed} of {self._total} pages: {end}"
        if needed > self._total:
            return f"it ran and needs {needed} of {self._total} pages"
        return self._complaint_of_answers(asked, end)

    def _complaint_of_answers(self, asked: Asked, end: Finished) -> str:
        command, answers = asked.command, samples(end)
        if end.prompt_tokens != command.tokens or len(answers) != command.n:
            return "the answer is to another question"
        most = min(command.max_tokens or 0, self.context - len(end.prompt_tokens))
        for index, sample in enumerate(answers):
            if asked.text[index] != sample.text:
                return f"pieces of answer {index} are {asked.text[index]!r}, all of it {sample.text!r}"
            is_cut = sample.limit == "memory" and asked.saw_pins and 0 < len(sample.tokens) < most
            if sample.reason == "length" and len(sample.tokens) != most and not is_cut:
                return f"answer {index} ended after {len(sample.tokens)} of {most} tokens"
            wrong = self.model.oracle.complaint(command, end.prompt_tokens, sample)
            if wrong:
                return f"answer {index}: {wrong}"
            self.seen["tokens"] += len(sample.tokens)
        if not end.tokens:
            return ""
        if len(asked.reports) != 1:
            return f"it was told {len(asked.reports)} times what was cached"
        reused = asked.reports[0].cached_tokens + asked.reports[0].restored_tokens
        if not 0 <= reused < len(end.prompt_tokens) or end.timing.cached_tokens != reused:
            return f"{reused} tokens of {len(end.prompt_tokens)} are said to be cached: {end.timing}"
        if end.timing.prefill_tokens != len(end.prompt_tokens) - reused:
            return f"{end.timing.prefill_tokens} tokens were computed, {reused} cached"
        return ""

    @property
    def _total(self) -> int:
        return self._served.pager.total_pages

    def _needed(self, command: Generate) -> int:
        """Pages for a prompt, shared as far as it fills pages, and one for each answer."""
        return min(len(command.tokens or ()), self._resident) // self.settings.page_size + command.n


def samples(end: Finished) -> list[Sample]:
    """All answers of a request, the first one too."""
    return [Sample(end.reason, end.text, end.tokens, end.logprobs, end.limit), *end.others]


def is_end(event: Event, name: str) -> bool:
    """Whether `event` ends request `name`."""
    return isinstance(event, Finished | Failed) and event.id == name
