"""Runs of pages between memory and SSD: which pages are spilled together, and which can be read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.kv.node import Node
from engine.kv.page_data import ID_BYTES, LONGEST_RUN, SpilledRun, id_bytes, keys_of_ids, run_pages
from engine.kv.page_table import NO_PAGE
from engine.kv.stores import PageStore, Room, Tier


@dataclass(frozen=True, slots=True)
class StoredRun:
    """Consecutive pages of a sequence that are on SSD: their keys, and their ids as `id_bytes`."""

    keys: tuple[bytes, ...]
    ids: bytes

    def head(self, pages: int) -> StoredRun:
        """The first `pages` of them."""
        if pages >= len(self.keys):
            return self
        return StoredRun(self.keys[:pages], self.ids[: pages * (len(self.ids) // len(self.keys))])


@dataclass(frozen=True, slots=True)
class Offered:
    """How many pages the SSD took of those that were offered to it, and whether it had room."""

    pages: int
    room: Room


def stored_run(tier: Tier, parent: bytes, tokens: Sequence[int], size: int) -> StoredRun:
    """The pages behind the page `parent` that are on SSD, one after the other.

    Args:
        tokens: that follow `parent`; only whole pages of `size` of them count.
    """
    keys, ids, step, page_bytes = list[bytes](), list[bytes](), LONGEST_RUN * size, ID_BYTES * size
    whole = len(tokens) - len(tokens) % size
    for begin in range(0, whole, step):
        end = min(begin + step, whole)
        asked_ids = id_bytes(tokens[begin:end])
        asked = keys_of_ids(keys[-1] if keys else parent, asked_ids, page_bytes)
        found = tier.count(asked)
        keys += asked[:found]
        ids.append(asked_ids[: found * page_bytes])
        if found < len(asked):
            break
    return StoredRun(tuple(keys), b"".join(ids))


def spill_run(tier: Tier, store: PageStore, node: Node, used: int) -> Offered:
    """Offer `node`, last of use at `used`, to the SSD, with those of its run that the SSD has not.

    Runs begin at every `run_pages`-th page of a sequence. Pages are read only where there is room for them.
    """
    nodes = _run_of(tier, node, run_pages(store.page_bytes))
    if not nodes:
        return Offered(0, Room.NOW)
    parent = nodes[0].parent
    assert parent is not None
    used -= nodes[0].depth  # of a sequence the end makes room first
    room = tier.room(len(nodes) * store.page_bytes, used)
    if room is not Room.NOW:
        return Offered(0, room)
    run = SpilledRun(
        parent.key,
        tuple(node.key for node in nodes),
        tuple(node.tokens for node in nodes),
        store.read([node.page for node in nodes]),
        tuple(node.owners for node in nodes),
        used,
    )
    return Offered(len(nodes), room) if tier.put(run) else Offered(0, Room.LATER)


def _run_of(tier: Tier, node: Node, most: int) -> list[Node]:
    """`node` and its neighbours of the same run that are in memory, full, and not on SSD."""
    run = node.depth // most

    def belongs(other: Node) -> bool:
        is_here = other.depth // most == run and other.page != NO_PAGE and bool(other.key)
        return is_here and not tier.find(other.key)

    if not belongs(node):
        return []
    nodes = [node]
    while (parent := nodes[0].parent) is not None and belongs(parent):
        nodes.insert(0, parent)
    while (child := next(filter(belongs, nodes[-1].children.values()), None)) is not None:
        nodes.append(child)
    return nodes
