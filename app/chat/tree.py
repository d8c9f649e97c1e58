"""A conversation as a tree of messages: which path is on show, and which versions a message has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.store.records import ChatMessage, new_id


@dataclass(frozen=True, slots=True)
class Versions:
    """Which of its siblings a message is: number `place`, from 1, of `count` in the order they were made."""

    place: int = 1
    count: int = 1


class MessageTree:
    """All messages of a chat, of which the path from a first message down to a leaf is on show.

    Messages are added and brought up to date; only one that never came to be is taken out. Where a path
    forks, the message above the fork remembers which child was last on show (`shown_child`), so that a branch
    comes back as it was left.
    """

    def __init__(self, messages: Iterable[ChatMessage] = (), leaf_id: str | None = None) -> None:
        self._messages: dict[str, ChatMessage] = {}
        self._children: dict[str | None, list[str]] = {None: []}
        self._path: list[str] = []
        for message in messages:
            self._insert(message)
        if leaf_id in self._messages:
            self.show(leaf_id)
        elif self._children[None]:  # the app died between saving the chat and its newest message
            self.show(self._children[None][-1])

    @property
    def path(self) -> tuple[ChatMessage, ...]:
        """The messages on show, the first one first."""
        return tuple(self._messages[message_id] for message_id in self._path)

    @property
    def leaf(self) -> ChatMessage | None:
        """The last message on show; None in an empty conversation."""
        return self._messages[self._path[-1]] if self._path else None

    def __contains__(self, message_id: str) -> bool:
        """Whether the message is one of this conversation."""
        return message_id in self._messages

    def get(self, message_id: str) -> ChatMessage:
        """The message. Raises KeyError for one of another conversation."""
        return self._messages[message_id]

    def versions(self, message_id: str) -> Versions:
        """The message's place among its siblings."""
        siblings = self._children[self._messages[message_id].parent_id]
        return Versions(siblings.index(message_id) + 1, len(siblings))

    def line(self, message_id: str | None) -> tuple[ChatMessage, ...]:
        """The messages from the first one down to this one; none for None."""
        return tuple(self._messages[above] for above in self._line(message_id))

    def add(self, message: ChatMessage) -> tuple[ChatMessage, ...]:
        """Put a new message under its parent and show it. Returns the others that changed, to be saved."""
        self._insert(message)
        return self.show(message.id)

    def replace(self, message: ChatMessage) -> None:
        """Take a newer version of a message; its place in the tree and what is on show stay."""
        old = self._messages[message.id]
        self._messages[message.id] = replace(message, parent_id=old.parent_id, shown_child=old.shown_child)

    def remove(self, message_id: str) -> None:
        """Take out a message that was never saved, is not on show and has nothing below it."""
        self._children[self._messages.pop(message_id).parent_id].remove(message_id)
        del self._children[message_id]

    def switch(self, message_id: str, step: int) -> tuple[ChatMessage, ...]:
        """Show the sibling `step` places behind the message, with what was last on show below it.

        Returns the messages that changed, to be saved; nothing happens where there is no such sibling.
        """
        siblings = self._children[self._messages[message_id].parent_id]
        place = siblings.index(message_id) + step
        return self.show(siblings[place]) if 0 <= place < len(siblings) else ()

    def _insert(self, message: ChatMessage) -> None:
        self._messages[message.id] = message
        self._children[message.parent_id].append(message.id)
        self._children[message.id] = []

    def _line(self, message_id: str | None) -> list[str]:
        up: list[str] = []
        while message_id is not None:
            up.append(message_id)
            message_id = self._messages[message_id].parent_id
        return up[::-1]

    def show(self, message_id: str) -> tuple[ChatMessage, ...]:
        """Make the path go through the message; every fork on it remembers the way taken.

        Returns the messages that changed, to be saved.
        """
        self._path = self._line(message_id)
        while (below := self._below(self._path[-1])) is not None:
            self._path.append(below)
        return tuple(self._remember())

    def _below(self, message_id: str) -> str | None:
        children = self._children[message_id]
        remembered = self._messages[message_id].shown_child
        return remembered if remembered in children else children[-1] if children else None

    def _remember(self) -> Iterable[ChatMessage]:
        for parent_id, child_id in zip(self._path, self._path[1:], strict=False):
            if self._below(parent_id) != child_id:
                shown = None if child_id == self._children[parent_id][-1] else child_id
                self._messages[parent_id] = replace(self._messages[parent_id], shown_child=shown)
                yield self._messages[parent_id]


def copied(messages: Sequence[ChatMessage], chat_id: str) -> list[ChatMessage]:
    """A path as the beginning of another chat: new names, the same words and the same tokens."""
    copies: list[ChatMessage] = []
    for message in messages:
        parent_id = copies[-1].id if copies else None
        copies.append(replace(message, id=new_id(), chat_id=chat_id, parent_id=parent_id, shown_child=None))
    return copies
