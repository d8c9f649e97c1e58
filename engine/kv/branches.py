"""Branches: whose pages a new one shares from its start, and which are let go of with those nobody kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.cache.common_length import common_length
from engine.kv.node import Node
from engine.kv.prefix_tree import PrefixTree
from engine.kv.ssd.runs import stored_run
from engine.kv.stores import Tier


def share(tree: PrefixTree, tier: Tier | None, chat: str, tokens: Sequence[int]) -> int:
    """`chat` owns the whole pages that there are of `tokens`, too: those of the tree, and behind them on SSD.

    Returns their tokens.
    """
    size, keys, last = tree.page_size, list[bytes](), tree.root
    for begin in range(0, len(tokens) - size + 1, size):
        child = last.children.get(tuple(tokens[begin : begin + size]))
        if child is None:
            break
        keys.append(child.key)
        last = child
    tree.claim(last, chat)
    if tier is not None:
        keys += stored_run(tier, last.key, tokens[len(keys) * size :], size).keys
        tier.claim(keys, chat)
    return len(keys) * size


def let_go(
    tree: PrefixTree, page_size: int, chat: str, branches: Iterable[Sequence[int]], kept: Sequence[int]
) -> None:
    """`chat` owns no more what `branches` add to `kept` and to its other branches.

    From the end of each branch up its nodes go, until one is met that is on the way of `kept`, that another
    branch of the chat stands on, or that is pinned. What other chats own too they keep.

    Args:
        branches, kept: token ids from the first one on.
    """
    for branch in branches:
        shared = common_length(branch, kept)
        for path in _paths(tree, page_size, branch):
            for node in reversed(path):
                is_on_the_way = node.depth * page_size + len(node.tokens) <= shared
                is_needed = any(chat in child.owners for child in node.children.values())
                if is_on_the_way or is_needed or tree.is_pinned(node):
                    break
                tree.disown(node, chat)


def _paths(tree: PrefixTree, page_size: int, tokens: Sequence[int]) -> list[list[Node]]:
    """The nodes of `tokens`, from the root down to each last page that there is of them.

    Not all of them may have been computed: the last token is not, and a draft model reads behind the answer.
    """
    nodes, node = list[Node](), tree.root
    for begin in range(0, len(tokens), page_size):
        rest = tuple(tokens[begin : begin + page_size])
        child = node.children.get(rest)
        if child is None or begin + page_size >= len(tokens):
            ends = [end for end in node.children.values() if end.tokens == rest[: len(end.tokens)]]
            return [[*nodes, end] for end in ends] or [nodes]
        nodes.append(child)
        node = child
    return [nodes]
