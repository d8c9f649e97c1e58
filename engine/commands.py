"""What callers may ask of the engine: frozen values, put on its queue from any thread."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Literal

from engine.errors import EngineError
from engine.sampling.params import SamplingParams
from engine.token_ids import packed


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. `role` is "system", "user" or "assistant"."""

    role: str
    content: str


AS_SET = 0
"""As bits of the KV cache: those of the engine's settings."""


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Load the model folder or file `path`, beside the models that are in memory where all of them fit.

    They fit where their weights do and each has room for a chat of its whole context in its share of what KV
    pages may take. Until they do, those that were used least recently are unloaded, "room" being the reason.
    The model itself, when it is loaded already, is loaded anew.

    Attributes:
        context: most tokens of one chat with it; None is what the engine's settings say.
        kv_bits: of a stored key or value element: None as computed, 8, 4, or AS_SET.
        draft_model: folder or file of a smaller model of the same vocabulary, which guesses where text does
            not repeat: in memory for as long as this one; "" is none.
        name, draft_name: what people call them; "" is the folder's or the file's own name.

    Emits LoadProgress…, then ModelReady or Failed, each carrying `id`. What cannot be loaded by its headers
    unloads nothing.
    """

    id: str
    path: str
    context: int | None = None
    kv_bits: int | None = AS_SET
    draft_model: str = ""
    name: str = ""
    draft_name: str = ""


@dataclass(frozen=True, slots=True)
class UnloadModel:
    """Free a model and its pages; cancels what runs on it. Emits ModelUnloaded, nothing if it is not there.

    Where another model has requests, what is worth keeping is put on SSD between their steps first.

    `path`: which; "" is the one that was loaded last.
    """

    path: str = ""


Lane = Literal["window", "api"]
"""Who waits for an answer: a person before the window, or a program. The window's goes first."""


@dataclass(frozen=True, slots=True)
class History:
    """The exact token ids of a conversation so far.

    Attributes:
        tokens: what the first `messages` messages stood for when they were computed: the prompt's ids, and
            the generated ones behind it, end token included.
        messages: how many messages that is; the last of them is an answer.
        model: folder of the model whose ids they are.
        packed: `tokens` once more, made by the caller: on the engine's thread an answer would wait for it.
    """

    tokens: tuple[int, ...]
    messages: int
    model: str
    packed: array[int] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "packed", packed(self.tokens))


@dataclass(frozen=True, slots=True)
class Generate:
    """Continue a prompt; exactly one of `messages`, `prompt` and `tokens` is given.

    A model that rests is loaded for it, in place of others if need be, which rest then: once these have
    answered what they were asked before. Emits Waiting then, also for what is asked behind it.

    Attributes:
        id: the caller's name for the request, unique among those in flight.
        messages: rendered with the model's chat template, ready for the assistant's turn.
        prompt: the model's own text, without a template: control tokens in it are parsed, and one BOS is put
            in front where the model wants one.
        tokens: token ids, used exactly.
        max_tokens: most tokens to generate; None is up to the end of the context.
        stop: texts that end the answer; they and what follows are not part of it.
        logprobs: None for none; k >= 0 reports each token's log-probability and the k likeliest ones.
        ignore_eos: go on past the model's end-of-text tokens (for measuring).
        speculation: tokens may be guessed ahead, where the engine's settings have it on (for measuring).
        restores: whether pages on SSD are read back, or computed again; None: what is expected to be quicker.
            Of a request that says so nothing is learned of what either takes (for measuring).
        history: what the first of `messages` were computed as; it is taken as it is, so that a template that
            rewrites earlier turns, or another way to split the same text, loses nothing of the cache.
        chat: whose pages these are, for accounting, pins and `Forget`; "" is nobody's.
        lane: who waits.
        n: how many answers to draw, as one batch behind one prompt.
        model: path of the model, which must have been loaded; "" is the one that was loaded last.
        packed: `tokens` once more, as of History.
    """

    id: str
    messages: tuple[Message, ...] | None = None
    prompt: str | None = None
    tokens: tuple[int, ...] | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    ignore_eos: bool = False
    speculation: bool = True
    restores: bool | None = None
    history: History | None = None
    chat: str = ""
    lane: Lane = "api"
    n: int = 1
    model: str = ""
    packed: array[int] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "packed", packed(self.tokens or ()))


@dataclass(frozen=True, slots=True)
class Cancel:
    """End request `id` within one decode step or prefill chunk; it gets Finished("cancelled").

    With `sample`, end only that one of its n answers, once it has begun, and keep nothing of it in the cache:
    another one is preferred. The request goes on while others do.

    Unknown and ended ids are ignored: the answer may have finished while the command travelled.
    """

    id: str
    sample: int | None = None


@dataclass(frozen=True, slots=True)
class Predict:
    """Ask what `request` would find in the cache and when its first token would come; nothing is computed.

    Emits Predicted, or Failed with `request.id` when the request could not be accepted, and for a model that
    rests where another's answers would have to end for it, or pinned chats to leave memory.
    """

    request: Generate


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop the cached pages of `chat`, of every model, from memory and SSD, but those that others share.

    Requests of the chat that were asked before go on, and nothing of them is cached. ChatsCached names the
    chat no more once no power cut brings its pages on SSD back.
    """

    chat: str


@dataclass(frozen=True, slots=True)
class Keep:
    """Of several answers in `chat` one is kept: free the memory of the others. Emits Freed.

    Freed is what only the others hold: no page of `kept`, of any other branch of the chat, of other chats or
    of a pinned one. What the SSD has of them stays there until its turn comes.

    Attributes:
        kept: the exact ids of the branch that goes on, from the first token on.
        others: those of the branches that do not.
        model: path of the model that they were computed with; "" is the one that was loaded last.
    """

    chat: str
    kept: tuple[int, ...]
    others: tuple[tuple[int, ...], ...]
    model: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """`chat` is new and begins as another one: what is cached of `tokens` is its own too, also on SSD.

    So it is counted as the chat's, and stays when the other is forgotten. A model that rests is loaded for
    it, unless another's answers would have to end, or pinned chats to leave memory; of one that is not loaded
    nothing is shared before the chat asks for something.

    Attributes:
        tokens: the exact ids that the two have in common, from the first token on.
        model: path of the model that they were computed with; "" is the one that was loaded last.
    """

    chat: str
    tokens: tuple[int, ...]
    model: str = ""


@dataclass(frozen=True, slots=True)
class Pin:
    """Keep the cached pages of `chat` in memory: while `pinned` they are never evicted.

    It is heard by the models that are in memory then.
    """

    chat: str
    pinned: bool


@dataclass(frozen=True, slots=True)
class Release:
    """Put the cached pages of `chat`, of every model in memory, on SSD and free their memory.

    Those stay that others own too, that run, or that are pinned; what the SSD does not take is lost.
    """

    chat: str


@dataclass(frozen=True, slots=True)
class Flush:
    """Wait a moment, 0.25 s at most for each model in memory, for pages to be written that the SSD took.

    Each tells Stats then, whatever was asked before; at last Flushed is emitted. Beside requests the moment
    is much shorter.
    """


@dataclass(frozen=True, slots=True)
class WatchPages:
    """While `watched`, tell of single pages: PageMap of each model in memory, beside its Stats.

    They come at once, then as they change; no oftener than lets them take a hundredth of the time.
    """

    watched: bool


@dataclass(frozen=True, slots=True)
class MeasureBandwidth:
    """Measure how fast this machine reads its memory. Emits Bandwidth.

    It takes a fraction of a second, and is not done while a request runs.
    """


@dataclass(frozen=True, slots=True)
class ProfileStep:
    """Measure a decode step of a model in memory part by part. Emits StepProfiled or Failed, carrying `id`.

    It takes about a second, or a few steps where these are long, and fails while a request runs, or waits. A
    command that needs the engine (Generate, Predict, LoadModel, UnloadModel, Share) ends it after its round.

    `model`: its path; "" is the one that was loaded last.
    """

    id: str
    model: str = ""


@dataclass(frozen=True, slots=True)
class LetRest:
    """From now on a model leaves memory after `after` seconds without a request; None: it stays.

    In place of EngineSettings.unload_after; it is no use of the model. Raises EngineError.
    """

    after: float | None

    def __post_init__(self) -> None:
        if self.after is not None and not self.after > 0:
            raise EngineError(f"the time until a model may go is {self.after}; it must be above 0, or None")


@dataclass(frozen=True, slots=True)
class PutOffTrials:
    """From now on no kernels are tried while the engine rests, or again they are (see KernelTrials)."""

    are_put_off: bool


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Cancel everything, free everything, end the thread."""


Command = (
    LoadModel
    | UnloadModel
    | Generate
    | Cancel
    | Predict
    | Forget
    | Keep
    | Share
    | Pin
    | Release
    | Flush
    | WatchPages
    | MeasureBandwidth
    | ProfileStep
    | LetRest
    | PutOffTrials
    | Shutdown
)
