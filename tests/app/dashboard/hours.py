"""Hours of a plausible engine at speed: its events, by clocks of its own, and a ledger of what it has said.

Everything is drawn from one seed. There are two models, bursts of requests of which up to four run together,
failures and stops, times of rest after which a model leaves memory and comes back, and clocks that jump.
"""

from __future__ import annotations

import random
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from engine import (
    CACHED,
    ON_SSD,
    RUNNING,
    Bandwidth,
    CacheCounts,
    CacheReport,
    ChatMemory,
    ChatsCached,
    Command,
    Event,
    Failed,
    Finished,
    Generate,
    KernelsChosen,
    LoadModel,
    LoadProgress,
    MeasureBandwidth,
    MemoryUse,
    Message,
    ModelInfo,
    ModelReady,
    ModelUnloaded,
    PageMap,
    PrefillProgress,
    RequestStats,
    Stats,
    TextChunk,
    Timing,
    TokenGaps,
    WatchPages,
)
from tests.fakes.scripted_engine import model_info

TOGETHER = 4
REST_SECONDS = 600.0
MAIN, OTHER = "/models/tiny-chat", "/models/other-chat"
BANDWIDTH = 40e9
PAGES = 512
CHATS = 300
BOOT = 5_000.0

SAVED_S = 0.002
"""Seconds that a token takes that need not be read."""


@dataclass
class Clocks:
    """Seconds of the wall clock, of the clock of events, and of one that nothing ever sets."""

    wall: float
    perf: float = BOOT
    steady: float = 0.0

    def advance(self, seconds: float) -> None:
        """Time goes on."""
        self.wall += seconds
        self.perf += seconds
        self.steady += seconds


@dataclass(frozen=True, slots=True)
class Told:
    """What events said of a request that has ended; None and 0 where they said nothing."""

    at: float
    since: float
    model: str
    prompt: int
    reused: int
    written: int
    ttft: float | None
    decode: float | None
    outcome: str


@dataclass(slots=True)
class _Request:
    id: str
    path: str
    chat: str
    at: float
    asked: float
    prompt: int
    cached: int
    restored: int
    wanted: int
    tps: float
    ending: str
    done: int = 0
    written: float = 0.0
    ttft: float = 0.0

    @property
    def reused(self) -> int:
        return self.cached + self.restored


@dataclass
class _Model:
    info: ModelInfo
    load_id: str
    is_loaded: bool = False
    running: list[_Request] = field(default_factory=list[_Request])
    waiting: deque[_Request] = field(default_factory=deque[_Request])
    counts: CacheCounts = field(default_factory=CacheCounts)
    used_at: float = 0.0
    was_busy: bool = False


class HoursEngine:
    """Starts, takes commands and closes like Engine; time goes on in `run` alone, on the caller's thread.

    Attributes:
        told: every request that has ended.
        ask: takes a Generate as a client's; to be set to what leads here past a recorder.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        clocks: Clocks,
        heard: Callable[[Event], None] = lambda event: None,
        seed: int = 7,
        tick: float = 0.1,
    ) -> None:
        """`heard` sees each event first; `tick`: seconds from one step to the next."""
        self._emit_on, self._clocks, self._pace = emit, clocks, tick
        self._chance = random.Random(seed)
        self._models = {
            path: _Model(replace(model_info(path), step_weight_bytes=5_000_000), f"load {path}")
            for path in (MAIN, OTHER)
        }
        self._coming: dict[str, _Request] = {}
        self._number = self._ticks = 0
        self._began = clocks.steady
        self._recent: deque[str] = deque(maxlen=40)
        self._next = self._phase_ends = 0.0
        self._is_working = False
        self._is_watched = False
        self.told: list[Told] = []
        self._heard = heard
        self.ask: Callable[[Command], None] = self.submit

    def start(self) -> None:
        """Nothing to start: there is no thread."""

    def close(self, timeout: float | None = None) -> bool:
        """Nothing to join."""
        return True

    def submit(self, command: Command) -> None:
        """Take a command."""
        match command:
            case LoadModel():
                self._models[command.path].load_id = command.id
                self._load(self._models[command.path])
            case Generate():
                model = self._models[command.model]
                model.waiting.append(self._coming.pop(command.id))
                if not model.is_loaded:
                    self._load(model)
            case WatchPages():
                self._is_watched = command.watched
                self._tell_pages(self._models[MAIN])
            case MeasureBandwidth():
                self._emit(Bandwidth(BANDWIDTH))
            case _:
                pass

    def work(self, seconds: float) -> None:
        """Requests come for so long."""
        self._is_working, self._phase_ends = True, self._clocks.steady + seconds
        self._next = self._clocks.steady

    def rest(self, seconds: float) -> None:
        """No request comes for so long."""
        self._is_working, self._phase_ends = False, self._clocks.steady + seconds

    def run(self, seconds: float) -> Iterator[int]:
        """Let so much time go by; yields the number of each second of it."""
        for second in range(round(seconds)):
            for _ in range(round(1 / self._pace)):
                self._tick()
            yield second

    def _emit(self, event: Event) -> None:
        self._heard(event)
        self._emit_on(event)

    def _tick(self) -> None:
        self._clocks.advance(self._pace)
        self._ticks += 1
        self._come()
        for model in self._models.values():
            if model.running or model.waiting:
                self._step(model)
            elif model.was_busy:
                model.was_busy = False
                self._tell(model)
            elif model.is_loaded and self._clocks.steady - model.used_at > REST_SECONDS:
                model.is_loaded = False
                self._emit(ModelUnloaded(model.info.path, "idle"))

    def _come(self) -> None:
        chance, now = self._chance, self._clocks.steady
        if now >= self._phase_ends:
            self._is_working = not self._is_working
            self._phase_ends = now + (
                chance.uniform(300, 1500) if self._is_working else chance.uniform(90, 900)
            )
            self._next = now + chance.expovariate(0.5)
        while self._is_working and now >= self._next:
            self._next += chance.expovariate(1 / 3)
            path = OTHER if chance.random() < 0.15 else MAIN
            asked = self._invent(path)
            self._coming[asked.id] = asked
            words = (Message("user", "Why?"),)
            self.ask(Generate(asked.id, messages=words, chat=asked.chat, model=path))

    def _invent(self, path: str) -> _Request:
        chance = self._chance
        self._number += 1
        prompt = chance.randrange(0, 1500)
        cached = chance.choice((0, 0, prompt // 2, max(0, prompt - 1)))
        restored = (prompt - cached) // 3 if chance.random() < 0.1 else 0
        return _Request(
            f"request {self._number}",
            path,
            f"chat {chance.randrange(CHATS)}" if chance.random() < 0.8 else "",
            self._clocks.wall,
            self._clocks.steady,
            prompt,
            cached,
            restored,
            chance.randrange(1, 200),
            chance.uniform(15, 60),
            chance.choices(("stop", "length", "cancelled", "failed", "refused"), (85, 5, 5, 3, 2))[0],
        )

    def _load(self, model: _Model) -> None:
        model.is_loaded, model.counts, model.used_at = True, CacheCounts(), self._clocks.steady
        for share in (0.3, 1.0):
            size = model.info.weight_bytes
            self._emit(LoadProgress(model.load_id, int(share * size), size))
        self._emit(ModelReady(model.load_id, model.info))
        self._emit(KernelsChosen(model.info))

    def _step(self, model: _Model) -> None:
        model.used_at, model.was_busy = self._clocks.steady, True
        while model.waiting and len(model.running) < TOGETHER:
            self._admit(model, model.waiting.popleft())
        for request in tuple(model.running):
            if request.ttft:
                self._write(model, request)
            else:
                self._read(request)
        self._tell(model)

    def _admit(self, model: _Model, request: _Request) -> None:
        if request.ending == "refused":
            self._fail(request, "PromptTooLong")
            return
        model.running.append(request)
        request.done = request.reused
        counts = model.counts
        model.counts = replace(
            counts,
            cached_tokens=counts.cached_tokens + request.cached,
            restored_tokens=counts.restored_tokens + request.restored,
            computed_tokens=counts.computed_tokens + request.prompt - request.reused,
            saved_seconds=counts.saved_seconds + SAVED_S * request.reused,
        )
        self._emit(CacheReport(request.id, request.prompt, request.cached, request.restored))
        self._emit(PrefillProgress(request.id, request.done, request.prompt, request.reused))

    def _read(self, request: _Request) -> None:
        request.done = min(request.prompt, request.done + self._chance.randrange(100, 300))
        self._emit(PrefillProgress(request.id, request.done, request.prompt, request.reused))
        if request.done == request.prompt:
            request.ttft = 1000 * (self._clocks.steady - request.asked) + self._chance.uniform(1, 90)
            request.written = 1.0
            self._emit(TextChunk(request.id, "Because", 1))

    def _write(self, model: _Model, request: _Request) -> None:
        request.written = min(request.wanted, request.written + request.tps * self._pace)
        self._emit(TextChunk(request.id, " it is so", int(request.written)))
        counts, guessed = model.counts, self._chance.randrange(4)
        model.counts = replace(
            counts,
            drafted_tokens=counts.drafted_tokens + guessed,
            accepted_tokens=counts.accepted_tokens + self._chance.randint(0, guessed),
        )
        if request.written >= request.wanted:
            model.running.remove(request)
            if request.ending == "failed":
                self._fail(request, "Internal", has_report=True)
            else:
                self._finish(request)

    def _fail(self, request: _Request, kind: str, has_report: bool = False) -> None:
        prompt, reused = (request.prompt, request.reused) if has_report else (0, 0)
        self._note(request, prompt, reused, 0, None, None, "failed")
        self._emit(Failed(request.id, "it does not fit", kind))

    def _finish(self, request: _Request) -> None:
        written, reason = int(request.written), request.ending
        decode = request.tps if written > 1 else 0.0
        timing = Timing(request.ttft, request.prompt - request.reused, request.cached, 2000.0, decode)
        outcome = "stopped" if reason == "cancelled" else "finished"
        self._note(request, request.prompt, request.reused, written, request.ttft, decode or None, outcome)
        tokens, prompt = tuple(range(written)), tuple(range(request.prompt))
        self._emit(Finished(request.id, reason, "Because it is so", tokens, prompt, None, timing))
        if request.chat:
            self._recent.append(request.chat)
            self._emit(ChatsCached({chat: ChatMemory(65_536, 0, 0) for chat in self._recent}))

    def _note(
        self,
        request: _Request,
        prompt: int,
        reused: int,
        written: int,
        ttft: float | None,
        decode: float | None,
        outcome: str,
    ) -> None:
        since = request.asked - self._began
        self.told.append(
            Told(request.at, since, request.path, prompt, reused, written, ttft, decode, outcome)
        )

    def _tell(self, model: _Model) -> None:
        chance, running = self._chance, model.running
        writing = [request for request in running if request.ttft]
        context = sum(request.done + int(request.written) for request in running)
        used = -(-context // 16)
        self._emit(
            Stats(
                running[0].id if running else "",
                len(model.waiting),
                context,
                sum(request.tps for request in writing) * chance.uniform(0.8, 1.2),
                chance.uniform(900, 2500),
                used,
                PAGES,
                9_000_000,
                11_000_000,
                running=len(running),
                cached_pages=min(PAGES - used, len(self._recent)),
                cache=model.counts,
                model=model.info.path,
                at=self._clocks.perf,
                requests=tuple(
                    RequestStats(r.id, r.chat, r.prompt, r.done, int(r.written), r.ttft, 2000.0, r.tps)
                    for r in running
                ),
                gaps=TokenGaps(512, *sorted(chance.uniform(10, 60) for _ in range(3))),
                memory=MemoryUse(used * 65_536, 2_000_000, int(chance.uniform(2e8, 2.2e8)), False),
            )
        )
        if self._is_watched and self._ticks % 10 == 0:
            self._tell_pages(model)

    def _tell_pages(self, model: _Model) -> None:
        owners = ((), *((chat,) for chat in sorted(set(self._recent))))
        count = self._chance.randrange(1, PAGES)
        owner_of = array("I", (self._chance.randrange(len(owners)) for _ in range(count)))
        states = bytes(self._chance.choice((0, CACHED, RUNNING, CACHED | ON_SSD)) for _ in range(count))
        used_at = array("d", [self._clocks.perf]) * count
        told = PageMap(
            model.info.path, self._clocks.perf, PAGES, states, owner_of.tobytes(), owners, used_at.tobytes()
        )
        self._emit(told)
