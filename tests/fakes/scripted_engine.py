"""An engine without a model: a thread that answers commands from a script."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

from engine import (
    CacheReport,
    Cancel,
    ChatMemory,
    ChatsCached,
    Command,
    Event,
    Failed,
    Finished,
    FinishReason,
    Forget,
    Freed,
    Generate,
    Keep,
    LoadModel,
    LoadProgress,
    MissReason,
    ModelInfo,
    ModelReady,
    ModelUnloaded,
    Predict,
    Predicted,
    PrefillProgress,
    Refusal,
    Sample,
    SampleEnded,
    Shutdown,
    Stats,
    TextChunk,
    Timing,
    UnloadModel,
)

TOTAL_PAGES = 512
PAGE_SIZE = 16
CONTEXT = 2048
PAGE_BYTES = 65_536
PREFILL_TPS = 2400.0
END = -1  # the token that ends a turn


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
        page_bytes=PAGE_BYTES,
        executor="reference",
        executor_reason="asked for",
        device="CPU",
        has_chat_template=True,
    )


class ScriptedEngine:
    """Starts, takes commands and closes like Engine. What it answers is set before or while it runs.

    Attributes:
        reply: the pieces of the next answers, each a TextChunk of one token.
        others: of several answers, the pieces of those after the first; where there are none, as the first.
        fail_loads: error of the next loads; "" lets them succeed.
        fail_with: error that ends the next answers after their pieces; "" ends them well.
        is_crowded: whether a model that rests stays so when it is only asked about.
        refusal: what the failing answers say of KV memory.
        miss: first token and reason of what the next answers report as read again.
        hold_after: pieces after which an answer waits for `release` or a Cancel; None goes on to the end.
        commands: every command so far.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._wake = threading.Condition()
        self._cancelled: set[tuple[str, int | None]] = set()
        self._closing = False
        self._released = False
        self._loads: dict[str, LoadModel] = {}
        self._resting: set[str] = set()
        self._cached: dict[str, list[tuple[int, ...]]] = {}
        self._thread = threading.Thread(target=self._run, name="scripted-engine", daemon=True)
        self.reply: tuple[str, ...] = ("Pages ", "hold ", "tokens.")
        self.others: tuple[tuple[str, ...], ...] = ()
        self.fail_loads = ""
        self.fail_with = ""
        self.is_crowded = False
        self.refusal: Refusal | None = None
        self.miss: tuple[int, MissReason] | None = None
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
                self._cancelled.add((command.id, command.sample))
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

    def rest(self) -> None:
        """Tell that the model has left memory because nobody used it; the next request loads it again."""
        path = self._named("")
        self._resting.add(path)
        on_ssd = {chat: _pages(chains) * PAGE_BYTES for chat, chains in self._cached.items()}
        self._emit(ChatsCached({chat: ChatMemory(0, size, 0) for chat, size in on_ssd.items()}))
        self._emit(ModelUnloaded(path, "idle"))

    def requests(self) -> list[Generate]:
        """Every Generate so far."""
        return [command for command in self.commands if isinstance(command, Generate)]

    def predictions(self) -> list[Generate]:
        """Every request that a prediction was asked for so far."""
        return [command.request for command in self.commands if isinstance(command, Predict)]

    def _run(self) -> None:
        while True:
            match self._commands.get():
                case Shutdown():
                    return
                case LoadModel() as load:
                    self._load(load)
                case Generate() as generate:
                    if self._is_awake(generate):
                        self._answer(generate)
                case Predict(request=request):
                    if self.is_crowded and self._named(request.model) in self._resting:
                        self._emit(Failed(request.id, "no room beside pinned chats", "NoRoom"))
                    elif self._is_awake(request):
                        self._predict(request)
                case Keep(chat=chat, others=others):
                    pages = sum(_pages([other]) for other in others)
                    self._emit(Freed(chat, pages, pages * PAGE_BYTES))
                case UnloadModel(path=path):
                    self._unload(self._named(path))
                case Forget(chat=chat):
                    self._cached.pop(chat, None)
                    self._tell_cached()
                case _:
                    pass

    def _named(self, path: str) -> str:
        """The model of that path, or the last one loaded."""
        return path or next(reversed(self._loads), "")

    def _is_awake(self, request: Generate) -> bool:
        """Load a model that rests; where that fails, the request does, too."""
        path = self._named(request.model)
        if path not in self._loads:
            self._emit(Failed(request.id, "no model is loaded", "NoModel"))
        elif path in self._resting:
            self._resting.discard(path)
            self._load(self._loads[path])
            if self.fail_loads:
                self._resting.add(path)
                self._emit(Failed(request.id, self.fail_loads, "ModelError"))
        return path in self._loads and path not in self._resting

    def _load(self, load: LoadModel) -> None:
        self._emit(LoadProgress(load.id, 3_200_000, 6_400_000))
        if self.fail_loads:
            self._emit(Failed(load.id, self.fail_loads, "ModelError"))
        else:
            self._loads[load.path] = load
            self._emit(ModelReady(load.id, model_info(load.path)))

    def _unload(self, path: str) -> None:
        if self._loads.pop(path, None):
            self._emit(ModelUnloaded(path))
        self._resting.discard(path)

    def _predict(self, request: Generate) -> None:
        prompt = self._prompt(request)
        cached = self._find(prompt)
        seconds = (len(prompt) - cached) / PREFILL_TPS
        self._emit(Predicted(request.id, len(prompt), cached, 0, seconds))

    def _answer(self, request: Generate) -> None:
        prompt = self._prompt(request)
        cached = self._find(prompt)
        missed_from, reason = self.miss or (None, None)
        self._emit(CacheReport(request.id, len(prompt), cached, 0, missed_from, reason))
        self._emit(PrefillProgress(request.id, len(prompt), len(prompt), cached))
        samples = self._samples(request.n)
        for step in range(max(len(pieces) for pieces, _ in samples)):
            if step == self.hold_after:
                self._wait(request.id)
            if self._is_cancelled(request.id):
                break
            for index, (pieces, said) in enumerate(samples):
                if step < len(pieces) and not self._is_cancelled(request.id, index):
                    said.append(pieces[step])
                    self._emit(TextChunk(request.id, pieces[step], step + 1, index))
                elif step == len(said):
                    self._emit(SampleEnded(request.id, index, "stop"))
            self._emit(self._stats(request, len(prompt) + step + 1))
        self._end(request, prompt, [said for _, said in samples])

    def _samples(self, count: int) -> list[tuple[tuple[str, ...], list[str]]]:
        """The pieces of each answer, and what of them was said."""
        others = self.others or (self.reply,) * count
        return [(pieces, []) for pieces in (self.reply, *others)[:count]]

    def _is_cancelled(self, request_id: str, sample: int | None = None) -> bool:
        return self._closing or (request_id, sample) in self._cancelled

    def _prompt(self, request: Generate) -> tuple[int, ...]:
        """The history as it is; behind it one token a character, so that prompts grow as conversations do."""
        history = request.history
        known = history.messages if history else 0
        text = "".join(f"<{message.role}>{message.content}" for message in (request.messages or ())[known:])
        return (history.tokens if history else ()) + tuple(ord(character) for character in text)

    def _find(self, prompt: tuple[int, ...]) -> int:
        """How many tokens some chat has in common with the prompt, whose last one is always computed."""
        chains = [chain for chains in self._cached.values() for chain in chains]
        return max((_common(chain, prompt[:-1]) for chain in chains), default=0)

    def _keep(self, chat: str, tokens: tuple[int, ...]) -> None:
        self._cached.setdefault(chat, []).append(tokens)
        self._tell_cached()

    def _tell_cached(self) -> None:
        self._emit(
            ChatsCached(
                {chat: ChatMemory(_pages(chains) * PAGE_BYTES, 0, 0) for chat, chains in self._cached.items()}
            )
        )

    def _wait(self, request_id: str) -> None:
        with self._wake:
            self._wake.wait_for(
                lambda: self._released or self._closing or any(request_id == id for id, _ in self._cancelled),
                timeout=30,
            )

    def _end(self, request: Generate, prompt: tuple[int, ...], said: list[list[str]]) -> None:
        cancelled = self._is_cancelled(request.id)
        if self.fail_with and not cancelled:
            self._emit(Failed(request.id, self.fail_with, "PromptTooLong", refusal=self.refusal))
        else:
            first, *others = [self._sample(request.id, index, words) for index, words in enumerate(said)]
            timing = Timing(85.0, len(prompt), 0, PREFILL_TPS, 62.0 if len(said[0]) > 1 else 0.0)
            self._emit(
                Finished(
                    request.id,
                    first.reason,
                    first.text,
                    first.tokens,
                    prompt,
                    None,
                    timing,
                    others=tuple(others),
                )
            )
            self._keep(request.chat, prompt + first.tokens)
        self._emit(self._stats(request, 0))

    def _sample(self, request_id: str, index: int, said: list[str]) -> Sample:
        cancelled = self._is_cancelled(request_id) or self._is_cancelled(request_id, index)
        reason: FinishReason = "cancelled" if cancelled else "stop"
        first = 1000 * index  # no answer's ids are another's
        tokens = (*range(first, first + len(said)), *([] if cancelled else [END]))
        return Sample(reason, "".join(said), tokens, None)

    def _stats(self, request: Generate, tokens: int) -> Stats:
        """The pulse while it holds so many tokens; 0: it has ended."""
        active, tps = (request.id, 62.0) if tokens else ("", 0.0)
        pages, model = -(-tokens // PAGE_SIZE), self._named(request.model)
        kept = 0 if tokens else sum(_pages(chains) for chains in self._cached.values())
        return Stats(
            *(active, 0, tokens, tps, PREFILL_TPS, pages, TOTAL_PAGES, 0, 0), model=model, cached_pages=kept
        )


def _common(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """How many tokens the two begin with alike."""
    pairs = zip(first, second, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def _pages(chains: list[tuple[int, ...]]) -> int:
    """Pages that hold the chains, each of which begins with the one before it."""
    return -(-max(len(chain) for chain in chains) // PAGE_SIZE)
