"""The tree of messages: nothing is lost, and every fork remembers the way that was taken."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.chat.tree import MessageTree, Versions, copied
from app.store.records import ChatMessage, Role


def message(name: str, parent: str | None = None, role: Role = "user") -> ChatMessage:
    return ChatMessage("chat", role, name, parent, id=name)


def shown(tree: MessageTree) -> str:
    return " ".join(message.text for message in tree.path)


def forked() -> MessageTree:
    """a → b → c, and beside b an answer d with e below it."""
    tree = MessageTree()
    for name, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", "a"), ("e", "d")):
        tree.add(message(name, parent))
    return tree


def test_what_is_added_is_shown() -> None:
    assert shown(forked()) == "a d e"


def test_versions_are_counted_among_siblings() -> None:
    tree = forked()
    assert [tree.versions(name) for name in "abd"] == [Versions(1, 1), Versions(1, 2), Versions(2, 2)]


def test_switching_shows_what_was_below() -> None:
    tree = forked()
    tree.switch("d", -1)
    assert shown(tree) == "a b c"
    tree.switch("b", 1)
    assert shown(tree) == "a d e"


def test_a_branch_comes_back_as_it_was_left() -> None:
    tree = forked()
    tree.add(message("f", "d"))
    tree.add(message("g", "d"))
    tree.switch("g", -1)
    assert shown(tree) == "a d f"
    tree.switch("d", -1)
    tree.switch("b", 1)
    assert shown(tree) == "a d f"


def test_there_is_nothing_before_the_first_and_behind_the_last() -> None:
    tree = forked()
    assert tree.switch("d", 1) == ()
    assert tree.switch("b", -1) == ()
    assert shown(tree) == "a d e"


def test_first_messages_are_versions_of_each_other() -> None:
    tree = forked()
    tree.add(message("z"))
    assert (shown(tree), tree.versions("z")) == ("z", Versions(2, 2))
    tree.switch("z", -1)
    assert shown(tree) == "a d e"


def test_only_what_changed_is_to_be_saved() -> None:
    tree = forked()
    assert [(m.id, m.shown_child) for m in tree.switch("d", -1)] == [("a", "b")]
    assert [(m.id, m.shown_child) for m in tree.switch("b", 1)] == [("a", None)]
    tree.switch("d", -1)
    assert [(m.id, m.shown_child) for m in tree.add(message("f", "a"))] == [("a", None)]


def test_a_stored_way_to_the_only_version_is_left_when_another_comes() -> None:
    """As where several answers were asked for, and one was left of them."""
    stored = [replace(message("a"), shown_child="b"), message("b", "a")]
    tree = MessageTree(stored, "b")
    changed = tree.add(message("c", "a"))
    reopened = MessageTree([*({one.id: one for one in (*stored, *changed)}.values()), message("c", "a")], "a")
    assert shown(tree) == shown(reopened) == "a c"


def test_a_newer_version_of_a_message_keeps_its_place() -> None:
    tree = forked()
    tree.switch("d", -1)
    tree.replace(replace(message("a"), tokens=(1, 2)))
    assert (tree.get("a").tokens, tree.get("a").shown_child) == ((1, 2), "b")
    assert shown(tree) == "a b c"


def test_a_leaf_that_was_never_saved_shows_the_newest_messages() -> None:
    messages = [message("a"), message("b", "a"), message("c", "a")]
    assert shown(MessageTree(messages, "lost")) == "a c"
    assert shown(MessageTree([], "lost")) == ""


def test_a_copy_says_the_same_with_names_of_its_own() -> None:
    path = [
        replace(message("a"), tokens=(1, 2), shown_child="b"),
        replace(message("b", "a", "assistant"), tokens=(3,), kept_tokens=1),
    ]
    copy = copied(path, "other")
    assert [(m.text, m.tokens, m.kept_tokens, m.role) for m in copy] == [
        ("a", (1, 2), None, "user"),
        ("b", (3,), 1, "assistant"),
    ]
    assert {m.chat_id for m in copy} == {"other"}
    assert (copy[0].parent_id, copy[1].parent_id) == (None, copy[0].id)
    assert not {"a", "b"} & {m.id for m in copy}
    assert copy[0].shown_child is None


class PlainTree:
    """What the tree should do, said plainly: children by parent, and the child last on show of each."""

    def __init__(self) -> None:
        self.children: dict[str | None, list[str]] = {None: []}
        self.parent: dict[str, str | None] = {}
        self.shown: dict[str | None, str] = {}

    def show(self, name: str) -> None:
        above: str | None = name
        while above is not None:
            self.shown[self.parent[above]] = above
            above = self.parent[above]

    def add(self, name: str, parent: str | None) -> None:
        self.parent[name] = parent
        self.children[parent].append(name)
        self.children[name] = []
        self.show(name)

    def path(self) -> list[str]:
        path: list[str] = []
        at: str | None = None
        while self.children[at]:
            at = self.shown[at]
            path.append(at)
        return path


steps = st.lists(st.tuples(st.sampled_from(["add", "switch", "reload"]), st.integers(0, 99)), max_size=40)


@given(steps)
def test_any_history_of_edits_and_switches(steps: list[tuple[str, int]]) -> None:
    tree, plain, stored = MessageTree(), PlainTree(), dict[str, ChatMessage]()
    for number, (step, choice) in enumerate(steps):
        names = [None, *plain.parent]
        changed: tuple[ChatMessage, ...] = ()
        if step == "add":
            parent = names[choice % len(names)]
            new = message(f"m{number}", parent)
            stored[new.id] = new
            changed = tree.add(new)
            plain.add(new.id, parent)
        elif step == "switch" and plain.path():
            at = plain.path()[choice % len(plain.path())]
            way = 1 if choice % 2 else -1
            siblings = plain.children[plain.parent[at]]
            place = siblings.index(at) + way
            changed = tree.switch(at, way)
            if 0 <= place < len(siblings):
                plain.show(siblings[place])
        elif step == "reload":
            leaf = tree.leaf
            tree = MessageTree(stored.values(), leaf.id if leaf else None)
        for other in changed:
            stored[other.id] = other
        path = [m.id for m in tree.path]
        assert path == plain.path()
        assert {m.id for name in plain.parent for m in tree.line(name)} == set(plain.parent)
        assert all(tree.get(name) == stored[name] for name in stored)
        for name in path:
            siblings = plain.children[plain.parent[name]]
            assert tree.versions(name) == Versions(siblings.index(name) + 1, len(siblings))
