"""The answers on their way, on show or not: folds the engine's events into their chats, and saves them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, QTimer

from app.chat.answer import Answer, advance
from app.chat.open_chat import OpenChat
from app.chat.refusal_words import Way, failure_words, ways_for, ways_of
from app.chat.token_path import count_along, tokens_along, with_tokens
from app.chat.tree import MessageTree
from app.store.face import Store
from app.store.records import ChatMessage
from engine import (
    CacheReport,
    Cancel,
    Command,
    Event,
    Failed,
    Finished,
    Generate,
    Keep,
    Message,
    PrefillProgress,
    SampleEnded,
    Share,
    TextChunk,
    Waiting,
)

SAVE_INTERVAL_MS = 300
OfAnswers = Waiting | CacheReport | PrefillProgress | TextChunk | SampleEnded | Finished | Failed


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that KV memory, or the context that is set for its model, could not hold.

    Attributes:
        ways: what would let it run; each helps by itself.
        answers: how many were asked for.
        words_a_token: of the text that was asked; 0 where that is not known.
    """

    ways: tuple[Way, ...]
    answers: int
    words_a_token: float

    @classmethod
    def of(cls, failed: Failed, asked: _Asked) -> Refused | None:
        """What is to be remembered of a request, if it has ways out."""
        refusal, answers = failed.refusal, len(asked.answers)
        if refusal is None:
            return cls(ways_of(failed.ways_out), answers, 0.0) if failed.ways_out else None
        tokens = refusal.prompt_tokens
        ways = ways_for(refusal, asked.share)
        return cls(ways, answers, asked.words / tokens if tokens else 0.0)


@dataclass(slots=True)
class _Asked:
    """A request in flight: its chat, its answers by their messages' ids, and the one that was kept.

    `words`: how many it was asked with. `share`: how much of that is the message, in a chat that goes on.
    """

    open_chat: OpenChat
    answers: dict[str, Answer]
    words: int
    share: float
    kept_id: str = ""


class Answering(QObject):
    """Every request in flight, with the chat it writes to.

    Attributes:
        refused: what could not be held, by the message that would have been the answer.
    """

    def __init__(
        self,
        submit: Callable[[Command], None],
        store: Store,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._submit = submit
        self._store = store
        self.refused: dict[str, Refused] = {}
        self._is_closing = False
        self._asked: dict[str, _Asked] = {}
        self._unsaved: dict[str, MessageTree] = {}
        self._unseen: set[str] = set()
        self._save_timer = QTimer(self)
        self._save_timer.setInterval(SAVE_INTERVAL_MS)
        self._save_timer.timeout.connect(self.save_now)

    def ask(self, request: Generate, messages: Sequence[ChatMessage], open_chat: OpenChat) -> None:
        """Submit the request; its answers' words go into `messages`, which are in the chat's tree."""
        answers = {
            message.id: Answer(request.id, message, sample=sample) for sample, message in enumerate(messages)
        }
        self._asked[request.id] = _Asked(open_chat, answers, *_extent(request.messages or ()))
        self._submit(request)
        self._save_timer.start()

    def share(self, branch: OpenChat) -> None:
        """Tell the engine what a new branch begins with: it outlives the chat that it comes from."""
        answer = branch.tree.path[-1]
        if tokens := tokens_along(branch.tree.path):
            self._submit(Share(branch.chat.id, tokens, answer.model))

    def answers(self, message_id: str) -> tuple[Answer, ...]:
        """The answer that writes this message, and those asked for with it; none when it has ended."""
        asked = self._asked_with(message_id)
        return tuple(asked.answers.values()) if asked else ()

    def context_tokens(self, path: Sequence[ChatMessage], model: str) -> int | None:
        """Tokens of `path` for `model`, with its answer on its way at its end; None where not told."""
        asked = self._asked_with(path[-1].id) if path and path[-1].model == model else None
        told = asked.answers[path[-1].id].context_tokens if asked else None
        return count_along(path, model) if told is None else told

    def model_of(self, request_id: str) -> str:
        """The model that answers a request in flight; "" for another request."""
        asked = self._asked.get(request_id)
        return next(iter(asked.answers.values())).message.model if asked else ""

    @property
    def chats(self) -> frozenset[str]:
        """The chats that an answer is on its way for."""
        return frozenset(asked.open_chat.chat.id for asked in self._asked.values())

    def chat(self, chat_id: str) -> OpenChat | None:
        """The chat, when an answer of it is on its way."""
        chats = (asked.open_chat for asked in self._asked.values())
        return next((found for found in chats if found.chat.id == chat_id), None)

    def cancel(self, message_id: str) -> None:
        """Ask the engine to end an answer and those asked for with it; its events say when they have."""
        asked = self._asked_with(message_id)
        if asked and not asked.answers[message_id].cancelled:
            for other, answer in asked.answers.items():
                asked.answers[other] = replace(answer, cancelled=True)
            self._submit(Cancel(asked.answers[message_id].request_id))

    def cancel_chat(self, chat_id: str) -> None:
        """Ask the engine to end every answer of the chat."""
        for asked in self._asked.values():
            if asked.open_chat.chat.id == chat_id:
                self.cancel(next(iter(asked.answers)))

    def keep(self, message_id: str, others: Iterable[str], open_chat: OpenChat) -> None:
        """Of several answers this one goes on: the others end, and what only they hold in memory is freed."""
        asked = self._asked_with(message_id)
        if asked is None:
            self._free(message_id, others, open_chat)
            return
        asked.kept_id = message_id
        for other in others:
            answer = asked.answers[other]
            if not answer.over:
                self._submit(Cancel(answer.request_id, answer.sample))

    def handle(self, event: Event) -> None:
        """Take in an engine event."""
        if not isinstance(event, OfAnswers) or event.id not in self._asked:
            return
        asked = self._asked[event.id]
        if isinstance(event, Failed):
            event = replace(event, error=failure_words(event, asked.share))
        for message_id, answer in list(asked.answers.items()):
            self._take(asked, message_id, self._advanced(answer, event))
        if isinstance(event, Finished | Failed):
            self._end(asked, event)

    def take_changed(self) -> set[str]:
        """The messages that have changed since the last time."""
        changed, self._unseen = self._unseen, set()
        return changed

    def save_now(self, *, is_last: bool = False) -> None:
        """Save what has changed since the last time. `is_last`: as for ConversationViewModel."""
        self._is_closing |= is_last
        for message_id, tree in self._unsaved.items():
            self._store.save(tree.get(message_id))
        self._unsaved.clear()
        if not self._asked:
            self._save_timer.stop()

    def _asked_with(self, message_id: str) -> _Asked | None:
        return next((asked for asked in self._asked.values() if message_id in asked.answers), None)

    def _advanced(self, answer: Answer, event: Event) -> Answer:
        """The answer after one more event: where MLXR ends, and nobody stopped it, that cuts it short."""
        after = advance(answer, event)
        if self._is_closing and not answer.cancelled and after.message.status == "stopped":
            return replace(after, message=replace(after.message, status="interrupted"))
        return after

    def _take(self, asked: _Asked, message_id: str, answer: Answer) -> None:
        """The answer as it is now. Several are in the store, in order, from the first word of any on."""
        if answer is asked.answers[message_id]:
            return
        asked.answers[message_id] = answer
        tree = asked.open_chat.tree
        tree.replace(answer.message)
        self._unseen.add(message_id)
        if len(asked.answers) == 1 or _has_words(asked):
            self._unsaved |= dict.fromkeys(asked.answers, tree)

    def _end(self, asked: _Asked, event: Finished | Failed) -> None:
        del self._asked[event.id]
        messages = self._without_wordless(asked)
        if isinstance(event, Failed) and (refused := Refused.of(event, asked)):
            self.refused[messages[-1].id] = refused
        tree = asked.open_chat.tree
        for message in messages:
            ended = (message,)
            if isinstance(event, Finished) and event.prompt_tokens:  # without: it ended before its turn came
                are_only_answers = tree.versions(message.id).count == len(messages)
                ended = with_tokens(tree.line(message.id), event.prompt_tokens, are_only_answers)
            for changed in ended:
                tree.replace(changed)
                self._store.save(tree.get(changed.id))
            self._unsaved.pop(message.id, None)
        if asked.kept_id:
            others = [message.id for message in messages if message.id != asked.kept_id]
            self._free(asked.kept_id, others, asked.open_chat)

    def _without_wordless(self, asked: _Asked) -> list[ChatMessage]:
        """The messages of a request that has ended; of several without a word the first one is left."""
        first, *others = (answer.message for answer in asked.answers.values())
        is_together = asked.answers.keys() <= set(asked.open_chat.several)
        if not is_together or _has_words(asked):
            return [first, *others]
        for message in others:
            asked.open_chat.tree.remove(message.id)
        asked.open_chat.several = ()
        return [first]

    def _free(self, kept_id: str, others: Iterable[str], open_chat: OpenChat) -> None:
        """Tell the engine which branches nobody goes on with, as far as it has told their tokens."""
        tree = open_chat.tree
        branches = tuple(tokens_along(tree.line(other)) for other in others if tree.get(other).tokens)
        if branches:
            kept = tokens_along(tree.line(kept_id))
            self._submit(Keep(open_chat.chat.id, kept, branches, tree.get(kept_id).model))


def _extent(messages: Sequence[Message]) -> tuple[int, float]:
    """The words of a request, and how much of it is its last message: all of it where no answer is above."""
    told = [message.content for message in messages]
    goes_on = any(message.role == "assistant" for message in messages)
    words = sum(len(content.split()) for content in told)
    return words, len(told[-1]) / sum(map(len, told)) if goes_on else 1.0


def _has_words(asked: _Asked) -> bool:
    return any(answer.message.text for answer in asked.answers.values())
