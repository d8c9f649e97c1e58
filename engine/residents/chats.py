"""Where chats lie, over all models."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set

from engine.events.cache import ChatMemory, ChatsCached


class ChatsOfAll:
    """What each model told of its chats, the ones that rest too, emitted as one ChatsCached."""

    def __init__(self, emit: Callable[[ChatsCached], None]) -> None:
        self._emit = emit
        self._told: dict[str, Mapping[str, ChatMemory]] = {}  # by the model's path
        self._going: dict[str, ChatMemory] = {}  # forgotten ones' bytes on SSD, as long as they are unsettled

    def told(self, path: str, chats: Mapping[str, ChatMemory]) -> None:
        """A model told of its own."""
        self._told[path] = chats
        self._tell()

    def keep(self, paths: Collection[str]) -> None:
        """There are no other models."""
        self._told = {path: chats for path, chats in self._told.items() if path in paths}

    def left(self, path: str) -> None:
        """A model is there no more."""
        if self._told.pop(path, None):
            self._tell()

    def forgets(self, chat: str) -> None:
        """`chat` is about to be forgotten: its bytes on SSD are told until `settle`."""
        known = self._sum().get(chat)
        if known is not None and known.ssd_bytes:
            self._going[chat] = ChatMemory(0, known.ssd_bytes, 0)

    def forgot(self, chat: str, awake: Collection[str]) -> None:
        """It was; the models that are in memory have told so themselves."""
        had = [path for path, chats in self._told.items() if path not in awake and chat in chats]
        for path in had:
            self._told[path] = {other: of for other, of in self._told[path].items() if other != chat}
        if had:
            self._tell()

    def settle(self, unsettled: Set[str]) -> None:
        """Of forgotten chats but these no power cut brings anything back."""
        settled = self._going.keys() - unsettled
        for chat in settled:
            del self._going[chat]
        if settled:
            self._tell()

    def _tell(self) -> None:
        self._emit(ChatsCached(self._sum()))

    def _sum(self) -> Mapping[str, ChatMemory]:
        """Added up."""
        chats: dict[str, ChatMemory] = {}
        for of_one in (*self._told.values(), self._going):
            for chat, here in of_one.items():
                other = chats.get(chat, ChatMemory(0, 0, 0))
                chats[chat] = ChatMemory(
                    here.memory_bytes + other.memory_bytes,
                    here.ssd_bytes + other.ssd_bytes,
                    here.shared_bytes + other.shared_bytes,
                )
        return chats
