"""Makes a record of every request from the command that asked and the engine's events about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from app import VERSION
from app.history.records import Outcome, RequestRecord, new_id
from engine import (
    AS_SET,
    CacheReport,
    Command,
    Event,
    Failed,
    Finished,
    Generate,
    KernelsChosen,
    LoadModel,
    ModelInfo,
    ModelReady,
    Timing,
)

Clock = Callable[[], float]


@dataclass(slots=True)
class _Asked:
    """A request in flight: its command, when it was asked by both clocks, and what it found."""

    command: Generate
    at: float
    moment: float
    report: CacheReport | None = None


class Recorder:
    """Stands between a client and its engine: commands pass through `passing`, events are shown to `take`.

    Commands may come from any thread, events come from one. `record` gets each request when it has ended.

    Attributes:
        session: the name of this run of the program.
    """

    def __init__(
        self,
        record: Callable[[RequestRecord], None],
        client: str,
        kv_bits: int | None,
        wall: Clock = time.time,
        monotonic: Clock = time.perf_counter,
    ) -> None:
        """`kv_bits`: of models that are loaded AS_SET."""
        self._record, self._client, self._kv_bits = record, client, kv_bits
        self._wall, self._monotonic = wall, monotonic
        self._began = monotonic()
        self._asked: dict[str, _Asked] = {}
        self._models: dict[str, ModelInfo] = {}
        self._bits: dict[str, int | None] = {}
        self._loaded_last = ""
        self.session = new_id()

    @property
    def seconds(self) -> float:
        """How long this session has gone on."""
        return self._monotonic() - self._began

    def passing(self, submit: Callable[[Command], None]) -> Callable[[Command], None]:
        """`submit`, seen by this recorder."""

        def seen(command: Command) -> None:
            if isinstance(command, Generate):
                self._asked[command.id] = _Asked(command, self._wall(), self._monotonic())
            elif isinstance(command, LoadModel):
                self._bits[command.path] = self._kv_bits if command.kv_bits == AS_SET else command.kv_bits
            submit(command)

        return seen

    def take(self, event: Event) -> None:
        """Look at an event; cheap, as it is on the engine's thread."""
        match event:
            case CacheReport():
                if asked := self._asked.get(event.id):
                    asked.report = event
            case ModelReady():
                self._loaded_last = event.model.path
                self._models[event.model.path] = event.model
            case KernelsChosen():
                self._models[event.model.path] = event.model
            case Finished() | Failed():
                if asked := self._asked.pop(event.id, None):
                    self._record(self._ended(asked, event))
            case _:
                pass

    def _ended(self, asked: _Asked, event: Finished | Failed) -> RequestRecord:
        command, report = asked.command, asked.report
        path = command.model or self._loaded_last
        model, sampling = self._models.get(path), command.sampling
        finished = event if isinstance(event, Finished) else None
        timing = finished.timing if finished else Timing(0, 0, 0, 0, 0)
        prompt = len(finished.prompt_tokens) if finished else 0
        return RequestRecord(
            at=asked.at,
            session=self.session,
            since=asked.moment - self._began,
            client=self._client,
            chat=command.chat,
            model=path,
            version=VERSION,
            executor=model.executor if model else "",
            device=model.device if model else "",
            kv_bits=self._bits.get(path, self._kv_bits),
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            answers=command.n,
            prompt_tokens=report.prompt_tokens if report else prompt,
            cached_tokens=report.cached_tokens if report else 0,
            restored_tokens=report.restored_tokens if report else 0,
            answer_tokens=_answer_tokens(finished),
            drafted_tokens=finished.drafted_tokens if finished else 0,
            accepted_tokens=finished.accepted_tokens if finished else 0,
            queued_ms=_queued_ms(timing),
            ttft_ms=timing.ttft_ms or None,
            total_ms=1000 * (self._monotonic() - asked.moment),
            prefill_tps=timing.prefill_tps or None,
            decode_tps=timing.decode_tps or None,
            outcome=_outcome(event),
            reason=event.kind if isinstance(event, Failed) else event.reason,
            error=event.error if isinstance(event, Failed) else "",
        )


def _answer_tokens(finished: Finished | None) -> int:
    if finished is None:
        return 0
    return len(finished.tokens) + sum(len(sample.tokens) for sample in finished.others)


def _queued_ms(timing: Timing) -> float | None:
    """What of the time to the first token was not spent on the prompt."""
    if not timing.ttft_ms or not timing.prefill_tps:
        return None
    return max(0.0, timing.ttft_ms - 1000 * timing.prefill_tokens / timing.prefill_tps)


def _outcome(event: Finished | Failed) -> Outcome:
    if isinstance(event, Failed):
        return "failed"
    return "stopped" if event.reason == "cancelled" else "finished"
