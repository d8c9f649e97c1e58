"""What waits for the database: its order, and that newer values take the place of older ones."""

from __future__ import annotations

from app.store.chats import ChatStore
from app.store.records import Chat
from app.store.waiting import Change, Waiting


def drained(waiting: Waiting[ChatStore, Chat]) -> list[list[str] | Change[ChatStore]]:
    steps: list[list[str] | Change[ChatStore]] = []
    while waiting:
        first = waiting.first()
        steps.append(first if isinstance(first, Change) else [chat.title for chat in first])
        waiting.written()
    return steps


def test_a_newer_value_takes_the_place_of_an_older_one_but_does_not_pass_a_change() -> None:
    waiting: Waiting[ChatStore, Chat] = Waiting()
    rename: Change[ChatStore] = Change(lambda store: store.rename("a", "third"))
    for job in (Chat("first", "a"), Chat("other", "b"), Chat("second", "a"), rename, Chat("fourth", "a")):
        waiting.add(job)
    assert str(waiting) == "values: 3, changes: 1"
    assert drained(waiting) == [["second", "other"], rename, ["fourth"]]
    assert not waiting
