"""The index of the SSD cache: bytes of chats, counted as they change and not anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kv.page_data import ROOT_KEY
from engine.kv.page_file import encode
from engine.kv.page_header import Chats
from engine.kv.ssd import index as ssd_index
from engine.kv.ssd.folder import FoundFile
from engine.kv.ssd.index import ChatBytes, SsdIndex
from engine.kv.ssd.stored import Place, StoredFile
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
                assert chat not in {owner for file in index.files for owner in file.owners}
            case "supersede":
                index.supersede(stored_file(data.draw(THREE), 100 * files.index(file)))
            case "renew":
                more = data.draw(st.sampled_from([-64, 0, 64]))  # as another process wrote it
                index.renew(file.path, replace(file.header, payload_begin=file.header.payload_begin + more))
            case _:
                index.remove(file.path)
        assert index.chats == counted(index)
        assert index.total_bytes == sum(file.size for file in index.files)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=8))
def test_files_are_in_the_order_of_their_use_and_a_page_outlives_those_behind_it(
    uses: list[tuple[int, int]],
) -> None:
    index, files, parent = SsdIndex(), list[StoredFile](), ROOT_KEY
    for number in range(3):
        header = encode(spilled(parent, pages(100 * number, 2)), IDENTITY, 0).header
        files.append(StoredFile.matched(Path(header.keys[-1].hex()), 0, header))
        parent = header.keys[-1]
    files.append(stored_file([frozenset("a")], 1000))
    for file in files:
        index.add(file)
    for number, used_ns in uses:
        before = [file.used_ns for file in files]
        chain = files[number::-1] if number < 3 else files[3:]
        assert index.use(files[number], used_ns) == chain
        for file in files:
            assert file in chain or file.used_ns == before[files.index(file)]
        times = [file.used_ns for file in chain]
        assert times[0] == max(used_ns, before[number])
        assert times == sorted(set(times))
        assert [file.used_ns for file in index.files] == sorted(file.used_ns for file in files)
        assert index.oldest() is index.files[0]


def test_files_that_are_not_there_any_more_are_known_no_longer() -> None:
    index, files = SsdIndex(), [stored_file([frozenset("a")] * 2, 100 * number) for number in range(4)]
    for file in files:
        index.add(file)
    gone, same, changed, later = files
    assert changed.header is not None
    now = StoredFile.matched(changed.path, 9, replace(changed.header, chats=(frozenset("b"),) * 2))
    later.used_ns = 12
    odd = StoredFile(Path("odd"), 100, 3, None, False)
    there = ((odd, 3), (same, 7), (changed, 9), (later, 8))
    index.update({file.path: FoundFile(file.path, file.size, used) for file, used in there}, [now, odd, None])
    assert [(file.path, file.used_ns) for file in index.files] == [
        (odd.path, 3),
        (same.path, 7),
        (changed.path, 9),
        (later.path, 12),
    ]
    assert index.total_bytes == same.size + changed.size + later.size + 100
    assert not any(index.find(key) for key in gone.keys)
    assert index.chats == {
        "a": ChatBytes(4 * same.page_bytes, 0),
        "b": ChatBytes(2 * changed.page_bytes, 0),
    }


def test_what_another_file_says_is_not_taken_for_what_this_one_says() -> None:
    index, file, other = SsdIndex(), stored_file([frozenset("a")] * 2), stored_file([frozenset("b")] * 2, 100)
    index.add(file)
    assert other.header is not None
    assert not index.renew(file.path, other.header)
    assert not index.renew(other.path, other.header)
    assert (file.header != other.header, file.chats) == (True, [frozenset("a")] * 2)
    assert index.chats == counted(index)


def test_a_file_that_nobody_knows_is_hidden_and_removed_for_nothing() -> None:
    index, file = SsdIndex(), stored_file([frozenset("a")] * 2)
    index.hide(file.path)
    index.remove(file.path)
    assert (index.files, index.total_bytes, index.chats) == ([], 0, {})
    index.add(file)
    index.hide(file.path)
    assert (len(index.files), index.total_bytes, index.chats) == (1, file.size, {})
    assert index.find(file.keys[0]) is None


def test_a_page_that_two_files_hold_is_found_until_both_are_gone() -> None:
    index, tokens = SsdIndex(), pages(0, 4)
    whole, part = (
        StoredFile.matched(Path(header.keys[-1].hex()), 0, header)
        for header in (encode(spilled(ROOT_KEY, tokens[:count]), IDENTITY, 0).header for count in (4, 2))
    )
    index.add(whole)
    index.add(part)
    assert [index.find(key) for key in whole.keys] == [
        Place(part, 0),
        Place(part, 1),
        Place(whole, 2),
        Place(whole, 3),
    ]
    index.remove(part.path)
    assert [index.find(key) for key in whole.keys] == [Place(whole, position) for position in range(4)]
    index.remove(whole.path)
    assert not any(index.find(key) for key in whole.keys)


def test_a_file_that_says_it_is_behind_itself_is_used_once() -> None:
    index, file = SsdIndex(), stored_file([frozenset("a")] * 2)
    assert file.header is not None
    file.header = replace(file.header, parent=file.header.keys[-1])
    index.add(file)
    assert index.use(file, 5) == [file]


def test_only_files_whose_owners_change_are_to_be_written_for_it() -> None:
    index, file = SsdIndex(), stored_file([frozenset("a"), frozenset("ab")])
    index.add(file)
    assert index.claim([file.keys[1], b"?" * 16], "b") == []
    assert index.claim(file.keys, "b") == [file]
    assert file.chats == [frozenset("ab")] * 2


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
