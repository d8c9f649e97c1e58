"""The pages of chats, kept for their next turn: pinned, let go of, forgotten; and what is left of room."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.cache.finding import Finding
from engine.commands import Keep
from engine.events.cache import Freed
from engine.events.events import Event
from engine.fitting.pair import pages_if_smaller
from engine.kv.coding import coding, head_bytes, takes_bits
from engine.loading.model import LoadedModel
from engine.requests.admission import Capacity, refused
from engine.requests.request import Request
from engine.settings import EngineSettings
from engine.telling import Teller


class ChatPages:
    """What one model's KV memory keeps for chats that may go on."""

    def __init__(
        self,
        model: LoadedModel,
        settings: EngineSettings,
        emit: Callable[[Event], None],
        tell: Teller,
        finding: Finding,
        draft: LoadedModel | None = None,
    ) -> None:
        """`draft`: guesses for it."""
        self._draft = draft
        self._model, self._memory, self._settings = model, model.memory, settings
        self._emit, self._tell, self._finding = emit, tell, finding
        self._pinned = set[str]()
        self._in_8_bits: dict[int, int] = {}  # by pages, as each request asks before its first token

    @property
    def holds_pinned(self) -> bool:
        """Whether pages of a pinned chat are in memory."""
        return not self._pinned.isdisjoint(self._memory.tree.chats)

    def pin(self, chat: str, pinned: bool) -> None:
        """Keep the cached pages of a chat in memory, or no longer."""
        self._memory.pin(chat, pinned)
        (self._pinned.add if pinned else self._pinned.discard)(chat)
        if self._tell.pages.is_on:
            self._tell.stats()

    def forget(self, chat: str) -> None:
        """Drop the cached pages of a chat."""
        self._memory.forget(chat)  # unpinned, too
        self._pinned.discard(chat)
        self._finding.forget(chat)
        self._tell.stats()

    def keep(self, command: Keep) -> None:
        """Free what only the answers hold that were not kept."""
        pages = size = 0
        for each in (self._model,) if self._draft is None else (self._model, self._draft):
            freed = each.memory.let_go(command.chat, command.others, command.kept)
            pages, size = pages + freed, size + freed * each.arena.page_bytes
        self._emit(Freed(command.chat, pages, size))
        self._tell.stats()

    def share(self, chat: str, tokens: tuple[int, ...]) -> None:
        """`chat` begins with `tokens`: what is cached of them is its own, too."""
        self._finding.shared(chat, tokens[: self._memory.share(tokens, chat)])
        if self._draft is not None:
            self._draft.memory.share(tokens, chat)
        self._tell.stats()

    def capacity(self, chat: str = "", prompt: Sequence[int] = ()) -> Capacity:
        """What KV memory has for a request with nobody beside it.

        What is pinned for `chat` is its own, and so are pinned pages that `prompt` begins with.
        """
        pages, resident = self._model.pager, min(len(prompt), self._model.most_resident - 1)
        pinned, shared, shared_tokens = self._memory.tree.held_for_pins(chat, prompt, resident)
        total = pages.total_pages
        if total not in self._in_8_bits:
            self._in_8_bits = {total: self._pages_in_8_bits(total)}
        return Capacity(total, pages.page_size, pinned, self._in_8_bits[total], shared, shared_tokens)

    def _pages_in_8_bits(self, pages: int) -> int:
        """What the memory of so many would be cut into; as many where they cannot change."""
        arena, config = self._model.arena, self._model.config
        if self._settings.kv_bits is not None or not takes_bits(config.head_dim):
            return pages
        smaller = head_bytes(coding(config.head_dim, arena.coding.dtype, 8))
        page_bytes = arena.page_bytes // head_bytes(arena.coding) * smaller
        return pages_if_smaller(self._model, self._draft, page_bytes, self._settings)

    def has_room(self, request: Request) -> bool:
        """Whether a prompt that is to be read has pages with nobody beside it, and one token behind it.

        Chats that were pinned, or grew, since it was accepted may have taken them.
        """
        if request.has_opened or not self._memory.tree.has_pins:
            return True
        resident, capacity = self._alone(request)
        return capacity.pages_for(resident + 1) <= capacity.available

    def refusal(self, request: Request) -> Exception:
        """It runs alone, and pages that are pinned stand in the way of its prompt."""
        resident, capacity = self._alone(request)
        return refused(resident, request.command.n, capacity, len(request.prompt) - resident)

    def _alone(self, request: Request) -> tuple[int, Capacity]:
        """Tokens of its prompt that are in pages at once, and what there is for it with nobody beside it."""
        resident = min(len(request.prompt), request.most_resident - 1)
        return resident, self.capacity(request.command.chat, request.ids)
