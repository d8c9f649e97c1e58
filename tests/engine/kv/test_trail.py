"""The trail: the sequence entered last, as far as its pages are in memory."""

from __future__ import annotations

import pytest

from engine.kv.trail import Trail
from tests.engine.kv.grove import SIZE, Grove

TOKENS = [*range(4 * SIZE)]


@pytest.mark.parametrize("gone", [None, 0, 2, 3])
def test_what_leaves_memory_takes_what_lies_behind_it(gone: int | None) -> None:
    grove = Grove()
    other = grove.tree.node_at(grove.insert([7, *TOKENS], "b").pages[1])
    pages = grove.insert(TOKENS, "a").pages
    nodes = [node for page in pages if (node := grove.tree.node_at(page))]
    trail = Trail(SIZE)
    trail.leave(TOKENS, nodes[-1])
    assert other is not None
    trail.left(other)  # as deep as one of its own
    if gone is not None:
        trail.left(nodes[gone])
    found = pages[:gone]
    assert trail.along(TOKENS, len(TOKENS)) == (found, nodes[len(found) - 1] if found else None)
    assert trail.along(TOKENS, SIZE + 1)[0] == found[:1]
