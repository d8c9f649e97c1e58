"""The prefix tree: pages in memory, found again by the tokens that they hold; integers and no mlx.

A node is a page: its token ids, and its place behind its parent. Children are found by their exact tokens, so
a hash is never trusted. Only a last page may be partly filled, and it has no children. A node's owners are a
subset of its parent's, because a chat claims the whole path. A node whose page has left memory stays while
there are nodes behind it; without a sliding window these cannot be used until it is back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import count, takewhile

from engine.kv.chat_pages import ChatPages, Owners, PageCount
from engine.kv.node import Node, Tokens, path_to
from engine.kv.page_data import ID_BYTES, ROOT_KEY, id_bytes, keys_of_ids
from engine.kv.page_table import NO_PAGE, PageTable
from engine.kv.pager import Pager
from engine.kv.prefix_match import Match, Matching
from engine.kv.trail import Trail


class PrefixTree:
    """All cached pages of one model. It is one holder of each page that is in memory."""

    def __init__(
        self, pager: Pager, window: int | None = None, tick: Callable[[], int] | None = None
    ) -> None:
        """All empty.

        Args:
            window: tokens that the widest layer sees, when every layer has a sliding window.
            tick: a number larger than every one before, for each use; without it uses are counted.
        """
        self._pager = pager
        self._tick = tick or count(1).__next__
        self.page_size = pager.page_size
        self.window = window
        self.clock = 0
        self.root = Node((), None, -1, ROOT_KEY)
        self._nodes: list[Node | None] = [None] * pager.total_pages
        self._chats = ChatPages()
        self._pinned: set[str] = set()
        self._trail = Trail(pager.page_size)
        self._matching = Matching(self.root, self._trail, pager.page_size, window)

    @property
    def chats(self) -> Mapping[str, PageCount]:
        """Pages of each chat that are in memory."""
        return self._chats.counts

    def held_for_pins(
        self, besides: str, prompt: Sequence[int], resident: int
    ) -> tuple[Counter[Owners], Counter[Owners], int]:
        """Pages in memory by the pinned chats other than `besides` that own them, each counted once.

        Whole ones that `prompt` begins with are the second, and not among the first: it finds these while it
        has more tokens than the number.

        With a window `resident` of its tokens are in pages at once. What the window has left by its end stays
        for those chats: among the first, with what comes back into memory for them as it is computed.
        """
        others = self._pinned - {besides}
        if not others:
            return Counter(), Counter(), 0
        size, begun = self._pager.page_size, path_to(self._matching.walk(prompt, len(prompt) - 1)[1])
        path = list(takewhile(lambda node: not others.isdisjoint(node.owners), begun))
        found = self.match(prompt, len(path) * size)  # of the path, as other pages may be gone by then
        whole, seen = found.length // size, len(prompt) // size - resident // size
        own = Counter(node.owners & others for node in path[max(found.first, seen) : whole])
        back = Counter(node.owners & others for node in path[whole:seen] if node.page == NO_PAGE)
        return self._chats.held_by(others) + back - own, own, found.length if own else 0

    @property
    def has_pins(self) -> bool:
        """Whether any chat is pinned."""
        return bool(self._pinned)

    def node_at(self, page: int) -> Node | None:
        """The node whose page is `page`."""
        return None if page == NO_PAGE else self._nodes[page]

    def idle_nodes(self) -> list[Node]:
        """The nodes whose pages nobody else holds."""
        return [node for page in self._pager.idle_pages if (node := self._nodes[page])]

    def is_pinned(self, node: Node, besides: str = "") -> bool:
        """Whether a pinned chat other than `besides` owns `node`."""
        return any(chat != besides for chat in self._pinned & node.owners)

    def keeps(self, chat: str) -> bool:
        """Whether `chat` is pinned."""
        return chat in self._pinned

    def pin(self, chat: str, pinned: bool) -> None:
        """Whether the nodes of `chat`, those of later too, must stay in memory."""
        (self._pinned.add if pinned else self._pinned.discard)(chat)

    def match(self, tokens: Sequence[int], limit: int) -> Match:
        """The longest usable beginning of the first `limit` of `tokens`; it may end inside a page."""
        return self._matching.match(tokens, limit)

    def first_seen(self, length: int) -> int:
        """The first page that a continuation behind `length` tokens sees: 0 without a sliding window."""
        return self._matching.first_seen(length)

    def is_torn(self, table: PageTable) -> bool:
        """Whether a page is missing that a token behind `table` sees."""
        return NO_PAGE in table.pages[self.first_seen(table.length) :]

    def touch(self, nodes: Sequence[Node]) -> None:
        """`nodes` are used now."""
        self.clock = clock = self._tick()
        for node in nodes:
            node.stamp = clock

    def claim(self, node: Node, chat: str) -> list[Node]:
        """`chat` owns `node` and all before it; returns those that it did not before."""
        new: list[Node] = []
        while node.parent is not None and chat not in node.owners:
            new.append(node)
            node = node.parent
        for node in new:
            self._set_owners(node, node.owners | {chat})
        return new

    def insert(self, tokens: Sequence[int], table: PageTable, whole: bool, chat: str) -> list[Node]:
        """Make the pages of `table` findable for `chat`: full ones, and with `whole` a partly filled one.

        Where the tree has an equal page already, the table gets that one in the place of its own. Returns the
        nodes of full pages that `chat` did not own before.

        `tokens`: at least the first `table.length` ids of the sequence.
        """
        size = self._pager.page_size
        full, rest = divmod(table.length, size)
        self.clock = clock = self._tick()
        node = self._last_shared(table, full)
        new, owners = self.claim(node, chat), frozenset((chat,))
        for index in range(node.depth + 1, full):
            child = node.children.get(tuple(tokens[index * size : (index + 1) * size]))
            if child is None:
                new += self._append(node, tokens[index * size : full * size], table.pages[index:full], chat)
                node = new[-1]
                break
            if chat not in child.owners:
                self._set_owners(child, child.owners | owners)
                new.append(child)
            if (page := table.pages[index]) != NO_PAGE:
                if child.page == NO_PAGE:
                    self._set_page(child, page)
                    if len(node.children) > 1:
                        self._supersede(child, chat)
                elif child.page != page:
                    self._pager.swap(table, index, child.page)
                child.stamp = clock
            node = child
        if whole and self.window is None:  # or a page could leave and its node stay
            self._trail.leave(tokens, node)
        if whole and rest:
            self._insert_rest(node, tuple(tokens[full * size : table.length]), table.pages[full], chat)
        self._prune(node)
        return new

    def remove(self, node: Node) -> None:
        """Let go of the page of `node`, and of the node when nothing is behind it."""
        self._set_page(node, NO_PAGE)
        self._prune(node)

    def forget(self, chat: str) -> None:
        """`chat` owns nothing any more; nodes that nobody owns are let go of. Tables keep what they hold."""
        self._pinned.discard(chat)
        for node in list(self.nodes({chat})):
            self.disown(node, chat)

    def disown(self, node: Node, chat: str) -> None:
        """`chat` owns `node`, and nothing behind it, no more; what nobody owns is let go of."""
        owners = node.owners - {chat}
        if not owners:
            self._set_page(node, NO_PAGE)
        self._set_owners(node, owners)
        self._prune(node)

    def clear(self) -> None:
        """Let go of everything, whoever else holds it: what the pages hold cannot be trusted."""
        for node in list(self.nodes()):
            self._set_page(node, NO_PAGE)
        self.root.children.clear()

    def pinned_nodes(self, besides: str) -> Iterator[Node]:
        """The nodes that pinned chats other than `besides` own."""
        return self.nodes(self._pinned - {besides})

    def nodes(self, chats: Set[str] | None = None) -> Iterator[Node]:
        """Every node, or those that any of `chats` owns, parents before their children."""
        waiting = [self.root]
        while waiting:
            for node in waiting.pop().children.values():
                if chats is None or not chats.isdisjoint(node.owners):
                    yield node
                    waiting.append(node)

    def _last_shared(self, table: PageTable, full: int) -> Node:
        """The last node down to which the first `full` pages of `table` are the tree's, or the root."""
        last, nodes = self.root, self._nodes
        for page in table.pages[:full]:
            node = None if page == NO_PAGE else nodes[page]
            if node is None or node.parent is not last or not node.key:
                break
            last = node
        return last

    def _append(self, parent: Node, tokens: Sequence[int], pages: Sequence[int], chat: str) -> list[Node]:
        """New nodes behind `parent`, of full pages that hold `tokens`.

        All at once: thousands come at the end of a long prompt, while other answers wait.
        """
        size, owners = self._pager.page_size, frozenset((chat,))
        names = keys_of_ids(parent.key, id_bytes(tokens), ID_BYTES * size)
        new, last = list[Node](), parent
        for page, name, held in zip(pages, names, zip(*[iter(tokens)] * size, strict=True), strict=True):
            node = Node(held, last, last.depth + 1, name, page, {}, 0, owners, self.clock)
            last.children[held] = node
            if page != NO_PAGE:
                self._nodes[page] = node
                last.resident_children += 1
            new.append(node)
            last = node
        there = [page for page in pages if page != NO_PAGE]
        self._pager.cache(there)
        self._chats.add(owners, len(there))
        if new[0].page != NO_PAGE and len(parent.children) > 1:
            self._supersede(new[0], chat)
        return new

    def _supersede(self, node: Node, chat: str) -> None:
        """Drop partly filled pages of `chat` alone beside `node` that hold a beginning of its tokens."""
        parent = node.parent
        assert parent is not None
        for other in list(parent.children.values()):
            short = len(other.tokens)
            if short < len(node.tokens) and other.tokens == node.tokens[:short] and other.owners <= {chat}:
                self._set_page(other, NO_PAGE)
                self._prune(other)

    def _insert_rest(self, parent: Node, tokens: Tokens, page: int, chat: str) -> None:
        """A partly filled page, unless `chat` has a longer one that begins with it, or others hold the page.

        They may have more tokens in it than these.
        """
        if self._pager.references(page) > 1:
            return
        for child in parent.children.values():
            if chat in child.owners and child.page != NO_PAGE and child.tokens[: len(tokens)] == tokens:
                child.stamp = self.clock
                return
        node = parent.children.get(tokens)
        if node is None:
            node = parent.children[tokens] = Node(tokens, parent, parent.depth + 1, b"", children={})
            self._set_page(node, page)
            self._supersede(node, chat)
        self._set_owners(node, node.owners | {chat})
        node.stamp = self.clock

    def _set_page(self, node: Node, page: int) -> None:
        """Take or let go of a page, and everything that is counted by it."""
        assert node.parent is not None
        if node.page != NO_PAGE:
            self._pager.uncache(node.page)
            self._nodes[node.page] = None
            self._chats.remove(node.owners)
            node.parent.resident_children -= 1
            self._trail.left(node)
        node.page = page
        if page != NO_PAGE:
            self._pager.cache((page,))
            self._nodes[page] = node
            self._chats.add(node.owners, 1)
            node.parent.resident_children += 1

    def _set_owners(self, node: Node, owners: Owners) -> None:
        if node.page != NO_PAGE:
            self._chats.remove(node.owners)
            self._chats.add(owners, 1)
        node.owners = owners

    def _prune(self, node: Node) -> None:
        """Take nodes out of the tree that have no page in memory and nothing behind them."""
        while node.parent is not None and node.page == NO_PAGE and not node.children:
            node.parent.children.pop(node.tokens, None)
            node = node.parent
