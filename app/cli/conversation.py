"""A conversation in the terminal: its messages, and one streamed answer after another."""

from __future__ import annotations

from app.amounts import counted
from app.cli.opening import show_progress
from app.cli.session import Session
from app.cli.terminal import Terminal
from engine import Event, Finished, Generate, History, Limit, Message, ModelInfo, SamplingParams, TextChunk

CUT: dict[Limit, str] = {
    "max_tokens": "cut at --max-tokens",
    "context": "cut: the context is full",
    "setting": "cut: the context that is set for this model is full",
    "memory": "cut: KV memory is full",
}
"""What an answer that was cut has come to the end of."""


class Conversation:
    """The messages so far, and how to go on.

    Attributes:
        model: what answers.
    """

    def __init__(
        self,
        session: Session,
        model: ModelInfo,
        terminal: Terminal,
        sampling: SamplingParams,
        system: str | None,
        max_tokens: int | None,
    ) -> None:
        self.model = model
        self._session = session
        self._terminal = terminal
        self._sampling = sampling
        self._start = (Message("system", system),) if system else ()
        self._max_tokens = max_tokens
        self._messages: tuple[Message, ...] = self._start
        self._history: History | None = None
        self._id = session.new_chat()

    @property
    def has_begun(self) -> bool:
        """Whether something was said in this chat."""
        return self._history is not None

    def forget(self) -> None:
        """Nothing of what was said is to stay, on disk neither: this chat's id is never used again."""
        self._session.forget(self._id)

    def restart(self) -> None:
        """Forget what was said, and begin anew."""
        self.forget()
        self._messages, self._history, self._id = self._start, None, self._session.new_chat()

    def ask(self, text: str) -> Finished:
        """Stream the answer to `text`, and remember both.

        An answer that was cut short is kept as far as it went. Raises RequestFailed: then neither is kept.
        """
        asked = (*self._messages, Message("user", text))
        command = Generate(
            "",
            messages=asked,
            sampling=self._sampling,
            max_tokens=self._max_tokens,
            history=self._history,
            chat=self._id,
            lane="window",  # a person waits here as well
        )
        try:
            finished = self._session.complete(command, self._show)
        finally:
            self._terminal.end_answer()
        if finished.text:
            self._messages = (*asked, Message("assistant", finished.text))
            tokens = (*finished.prompt_tokens, *finished.tokens)
            self._history = History(tokens, len(self._messages), self.model.path)
        self._terminal.note(_summary(finished))
        return finished

    def stats(self) -> str:
        """What the chat and the model hold, in one line, from the engine's last pulse."""
        pulse = self._session.stats
        if pulse is None:
            return f"{self.model.name}: nothing was asked yet"
        return (
            f"{self.model.name} on {self.model.device} ({self.model.executor}); the last answer held "
            f"{pulse.context_tokens:,} of {counted(self.model.context_length, 'token')} of context, "
            f"{pulse.pages_used:,} of {counted(pulse.total_pages, 'page')}, and "
            f"{pulse.memory_bytes / 1e6:.0f} MB of memory (peak {pulse.peak_memory_bytes / 1e6:.0f} MB)"
        )

    def _show(self, event: Event) -> None:
        if isinstance(event, TextChunk):
            self._terminal.answer(event.text)
        else:
            show_progress(event, self._terminal)


def _summary(finished: Finished) -> str:
    timing, count = finished.timing, len(finished.tokens)
    parts = [counted(count, "token")]
    if timing.decode_tps > 0:
        parts.append(f"{timing.decode_tps:.1f} tok/s")
    if count:
        parts.append(f"first after {timing.ttft_ms / 1000:.2f} s")
    if timing.cached_tokens:
        parts.append(f"{timing.cached_tokens:,} of {counted(len(finished.prompt_tokens), 'token')} cached")
    if finished.reason == "cancelled":
        parts.append("stopped")
    elif finished.reason == "length":
        parts.append(CUT[finished.limit])
    return ", ".join(parts)
