"""Why a prompt was not found in the cache as far as its chat had been computed. Pure Python."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence

from engine.cache.common_length import common_length
from engine.events.cache import MissReason
from engine.token_ids import ID

_MOST_CHATS = 256
_MOST_BRANCHES = 8


class ChatPrefixes:
    """The tokens that each chat was computed as, branch by branch, of the chats asked for most recently."""

    def __init__(self, page_size: int) -> None:
        """`page_size`: fewer tokens than that are no miss: a page that is not full is kept in memory only."""
        self._page_size = page_size
        self._chains: OrderedDict[str, list[array[int]]] = OrderedDict()

    def computed(self, chat: str, tokens: Sequence[int]) -> None:
        """Pages of `tokens` were computed for `chat`; "" is nobody, and none change nothing."""
        if not chat or not tokens:
            return
        new = array(ID, tokens)
        before = [chain for chain in self._chains.get(chat, ()) if chain != new[: len(chain)]]
        self._chains[chat] = [*before[1 - _MOST_BRANCHES :], new]
        self._chains.move_to_end(chat)
        if len(self._chains) > _MOST_CHATS:
            self._chains.popitem(last=False)

    def forget(self, chat: str) -> None:
        """Nothing of it is expected in the cache any more."""
        self._chains.pop(chat, None)

    def miss(
        self, chat: str, prompt: Sequence[int], reused: int, known: MissReason | None, history: int = 0
    ) -> tuple[int | None, MissReason | None]:
        """From which token on `prompt` is computed although its chat had been computed that far, and why.

        Args:
            reused: tokens of it that were found, at most all but the last.
            known: what is known to have changed in the chat, if anything.
            history: tokens of it that the chat was computed as, by its own account: at an earlier start, too.
        """
        nearest, common = array(ID), 0
        for chain in self._chains.get(chat, ()):
            length = common_length(chain, prompt)
            if length >= common:
                nearest, common = chain, length
        if min(max(common, history), len(prompt) - 1) - reused >= self._page_size:
            return reused, "evicted"
        if reused <= common < min(len(nearest), len(prompt)):
            return common, known or "edited"
        # What another model read since is in none of this one's, nor is what an earlier start did in any.
        is_elsewhere = known == "other model" or (known is not None and not nearest)
        is_miss = is_elsewhere and len(prompt) - 1 - reused >= self._page_size
        return (reused, known) if is_miss else (None, None)
