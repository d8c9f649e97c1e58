"""A chat in memory, and where its conversation stands; without Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.chat.answer import Answer
from app.chat.cache_words import why_words
from app.chat.tree import MessageTree, copied
from app.store.records import Chat, ChatMessage, new_id

Phase = Literal["idle", "choosing", "waiting", "prefilling", "streaming", "stopping"]


@dataclass(slots=True)
class OpenChat:
    """A chat with all its messages.

    Attributes:
        several: ids of answers to one question that are on show together until one of them is kept.
    """

    chat: Chat
    tree: MessageTree
    several: tuple[str, ...] = ()

    def together(self) -> tuple[ChatMessage, ...]:
        """The answers on show together at the path's end; none where there is one alone."""
        leaf = self.tree.leaf
        ids = self.several if leaf and leaf.id in self.several else ()
        return tuple(self.tree.get(message_id) for message_id in ids)

    def beside(self, message_id: str) -> tuple[ChatMessage, ...]:
        """The answers on show together, where this is one of them; it alone otherwise."""
        together = self.together()
        is_one = any(message.id == message_id for message in together)
        return together if is_one else (self.tree.get(message_id),)

    def ask(
        self, question: ChatMessage, count: int, model: str
    ) -> tuple[list[ChatMessage], tuple[ChatMessage, ...]]:
        """Put blank answers of `model`, a folder, into the tree, and their question unless it is there.

        Returns the answers, the first of which is on show, and the messages to be saved: of several answers
        the first stands for all until there are words.
        """
        blank = ChatMessage(self.chat.id, "assistant", "", question.id, status="streaming", model=model)
        answers = [replace(blank, id=new_id()) for _ in range(count)]
        new = answers if question.id in self.tree else (question, *answers)
        changed = {other.id: other for message in new for other in self.tree.add(message)}
        changed |= {other.id: other for other in self.tree.show(answers[0].id)}
        changed |= {message.id: self.tree.get(message.id) for message in (question, answers[0])}
        left = [self.tree.get(answer) for answer in self.several]  # none of these was kept: versions now
        self.several = tuple(answer.id for answer in answers) if count > 1 else ()
        return answers, (*left, *changed.values())

    def keep(self, message_id: str) -> tuple[ChatMessage, ...]:
        """Go on with this one of several answers. Returns the messages to be saved."""
        kept, self.several = self.several, ()
        return (*self.tree.show(message_id), *(self.tree.get(answer) for answer in kept))

    def branched(self, message_id: str, title: str) -> OpenChat:
        """A new chat that begins with the messages down to this one: the same words, the same tokens."""
        chat = Chat(title, system=self.chat.system)
        messages = copied(self.tree.line(message_id), chat.id)
        return OpenChat(chat, MessageTree(messages, messages[-1].id))


@dataclass(frozen=True, slots=True)
class ChatState:
    """Where the conversation on show stands; the prefill numbers, as in Answer, are 0 unless it prefills.

    `why`: in words, why not more was cached, or what it waits for.
    It is "choosing" when several answers are there and none has been kept.
    """

    phase: Phase = "idle"
    prefill_done: int = 0
    prefill_total: int = 0
    cached: int = 0
    left: float | None = None
    why: str = ""

    @property
    def busy(self) -> bool:
        """Whether an answer is on its way."""
        return self.phase not in ("idle", "choosing")


def state_of(answers: Sequence[Answer], choosing: bool = False) -> ChatState:
    """The state of a conversation that ends in these answers on their way; none when all are complete."""
    answer = next((answer for answer in answers if not answer.over), None)
    if answer is None:
        return ChatState("choosing" if choosing else "idle")
    if answer.cancelled:
        return ChatState("stopping")
    if answer.phase == "prefilling":
        why = why_words(answer.report, answer.left) if answer.report else ""
        done, total = answer.prefill_done, answer.prefill_total
        return ChatState("prefilling", done, total, answer.cached, answer.left, why)
    return ChatState(answer.phase, why=answer.waits_for if answer.phase == "waiting" else "")
