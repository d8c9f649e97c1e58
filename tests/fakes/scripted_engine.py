"""An engine without a model: a thread that answers commands from a script."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

from engine import (
    Cancel,
    Command,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    LoadModel,
    LoadProgress,
    ModelInfo,
    ModelReady,
    PrefillProgress,
    Shutdown,
    Stats,
    TextChunk,
    Timing,
)

TOTAL_PAGES = 512
PAGE_SIZE = 16
CONTEXT = 2048


def model_info(path: str) -> ModelInfo:
    """What the scripted engine says it has loaded."""
    return ModelInfo(
        path=path,
        name=Path(path).name,
        family="llama",
        parameters=3_200_000,
        weight_bytes=6_400_000,
        dtype="float32",
        context_length=CONTEXT,
        page_size=PAGE_SIZE,
        total_pages=TOTAL_PAGES,
        page_bytes=65_536,
        executor="reference",
        executor_reason="asked for",
        device="CPU",
        has_chat_template=True,
    )


class ScriptedEngine:
    """Starts, takes commands and closes like Engine. What it answers is set before or while it runs.

    Attributes:
        reply: the pieces of the next answers, each a TextChunk of one token.
        fail_loads: error of the next loads; "" lets them succeed.
        fail_with: error that ends the next answers after their pieces; "" ends them well.
        hold_after: pieces after which an answer waits for `release` or a Cancel; None goes on to the end.
        commands: every command so far.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._wake = threading.Condition()
        self._cancelled: set[str] = set()
        self._closing = False
        self._released = False
        self._thread = threading.Thread(target=self._run, name="scripted-engine", daemon=True)
        self.reply: tuple[str, ...] = ("Pages ", "hold ", "tokens.")
        self.fail_loads = ""
        self.fail_with = ""
        self.hold_after: int | None = None
        self.commands: list[Command] = []

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, command: Command) -> None:
        """Queue a command; Cancel and Shutdown are heard in the middle of an answer."""
        self.commands.append(command)
        with self._wake:
            if isinstance(command, Cancel):
                self._cancelled.add(command.id)
            elif isinstance(command, Shutdown):
                self._closing = True
            self._wake.notify_all()
        self._commands.put(command)

    def release(self) -> None:
        """Let answers that are held go on to their end."""
        with self._wake:
            self._released = True
            self._wake.notify_all()

    def close(self, timeout: float | None = None) -> bool:
        """Shut down and join."""
        if self._thread.ident is None:
            return True
        self.submit(Shutdown())
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def requests(self) -> list[Generate]:
        """Every Generate so far."""
        return [command for command in self.commands if isinstance(command, Generate)]

    def _run(self) -> None:
        while True:
            match self._commands.get():
                case Shutdown():
                    return
                case LoadModel() as load:
                    self._load(load)
                case Generate() as generate:
                    self._answer(generate)
                case _:
                    pass

    def _load(self, load: LoadModel) -> None:
        self._emit(LoadProgress(load.id, 3_200_000, 6_400_000))
        if self.fail_loads:
            self._emit(Failed(load.id, self.fail_loads, "ModelError"))
        else:
            self._emit(ModelReady(load.id, model_info(load.path)))

    def _answer(self, request: Generate) -> None:
        prompt = self._prompt(request)
        self._emit(PrefillProgress(request.id, len(prompt), len(prompt), 0))
        said: list[str] = []
        for piece in self.reply:
            if len(said) == self.hold_after:
                self._wait(request.id)
            if request.id in self._cancelled or self._closing:
                break
            said.append(piece)
            self._emit(TextChunk(request.id, piece, len(said)))
            self._emit(self._stats(request.id, len(prompt) + len(said)))
        self._end(request, prompt, said)

    def _prompt(self, request: Generate) -> tuple[int, ...]:
        """One token a character, so that prompts grow as conversations do."""
        text = "".join(f"<{message.role}>{message.content}" for message in request.messages or ())
        return tuple(ord(character) for character in text)

    def _wait(self, request_id: str) -> None:
        with self._wake:
            self._wake.wait_for(
                lambda: self._released or self._closing or request_id in self._cancelled, timeout=30
            )

    def _end(self, request: Generate, prompt: tuple[int, ...], said: list[str]) -> None:
        cancelled = request.id in self._cancelled or self._closing
        if self.fail_with and not cancelled:
            self._emit(Failed(request.id, self.fail_with, "PromptTooLong"))
        else:
            reason: FinishReason = "cancelled" if cancelled else "stop"
            tokens = tuple(range(len(said)))
            timing = Timing(85.0, len(prompt), 0, 2400.0, 62.0 if len(said) > 1 else 0.0)
            self._emit(Finished(request.id, reason, "".join(said), tokens, prompt, None, timing))
        self._emit(self._stats("", 0))

    def _stats(self, active: str, tokens: int) -> Stats:
        pages = -(-tokens // PAGE_SIZE)
        return Stats(active, 0, tokens, 62.0 if active else 0.0, 2400.0, pages, TOTAL_PAGES, 0, 0)
