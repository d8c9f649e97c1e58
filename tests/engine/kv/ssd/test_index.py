"""The index of the SSD cache: bytes of chats, counted as they change and not anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kv.page_data import ROOT_KEY
from engine.kv.page_file import encode
from engine.kv.page_header import Chats
from engine.kv.ssd import index as ssd_index
from engine.kv.ssd.index import ChatBytes, SsdIndex
from engine.kv.ssd.stored import StoredFile
from tests.engine.kv.spilled import IDENTITY, pages, spilled

OWNERS = st.frozensets(st.sampled_from("abcd"), max_size=4)
THREE = st.lists(OWNERS, min_size=3, max_size=3)


def stored_file(chats: list[frozenset[str]], first: int = 0) -> StoredFile:
    header = encode(spilled(ROOT_KEY, pages(first, len(chats)), chats), IDENTITY, 0).header
    return StoredFile.matched(Path(header.keys[-1].hex()), 0, header)


def counted(index: SsdIndex) -> Mapping[str, ChatBytes]:
    total, shared = Counter[str](), Counter[str]()
    for file in index.files:
        for owners in file.chats:
            total.update(dict.fromkeys(owners, file.page_bytes))
            shared.update(dict.fromkeys(owners, file.page_bytes if len(owners) > 1 else 0))
    return {chat: ChatBytes(total[chat], shared[chat]) for chat in total}


@given(st.data())
def test_bytes_of_chats_are_those_of_their_pages_whatever_changes(data: st.DataObject) -> None:
    index, files = SsdIndex(), [stored_file(data.draw(THREE), 100 * number) for number in range(2)]
    for file in files:
        index.add(file)
    for _ in range(data.draw(st.integers(1, 8))):
        file, chat = data.draw(st.sampled_from(files)), data.draw(st.sampled_from("abcde"))
        assert file.header is not None
        match data.draw(st.sampled_from(["claim", "disown", "supersede", "renew", "remove"])):
            case "claim":
                index.claim(data.draw(st.sets(st.sampled_from(file.header.keys))), chat)
            case "disown":
                index.disown(chat)
            case "supersede":
                index.supersede(stored_file(data.draw(THREE), 100 * files.index(file)))
            case "renew":
                index.renew(file.path, file.header)
            case _:
                index.remove(file.path)
        assert index.chats == counted(index)


def test_one_more_owner_of_a_page_costs_the_same_whoever_owns_it(monkeypatch: pytest.MonkeyPatch) -> None:
    count, made = 64, list[int]()

    def told(total: int, shared: int) -> ChatBytes:
        made.append(total)
        return ChatBytes(total, shared)

    def changes(owners: int) -> int:
        names: Chats = (frozenset(map(str, range(owners))),) * count
        index, file = SsdIndex(), stored_file(list(names))
        index.add(file)
        with monkeypatch.context() as patch:
            patch.setattr(ssd_index, "ChatBytes", told)
            made.clear()
            index.claim(file.keys, "late")
            index.disown("late")
        assert index.chats == counted(index)
        return len(made)

    assert changes(500) == changes(20)


def test_pages_with_the_same_owners_have_one_set_of_them() -> None:
    index, file = SsdIndex(), stored_file([frozenset("ab")] * 8)
    index.add(file)
    for name in map(str, range(20)):
        index.claim(file.keys, name)
    index.disown("a")
    assert len({id(owners) for owners in file.chats}) == 1


def test_owners_of_a_file_that_is_replaced_are_counted_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    many, made = [frozenset(map(str, range(500)))] * 4, list[int]()

    def told(total: int, shared: int) -> ChatBytes:
        made.append(total)
        return ChatBytes(total, shared)

    index = SsdIndex()
    index.add(stored_file(many))
    monkeypatch.setattr(ssd_index, "ChatBytes", told)
    index.supersede(stored_file([frozenset("x")] * 4))
    assert index.chats == counted(index)
    assert len(made) < 20 * 500
