"""Chats as files: what goes out comes back, and what is not right from end to end is refused whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.store import chat_file
from app.store.chat_file import ChatFileError, from_json, read_chat_file, to_json
from app.store.records import Chat, ChatMessage


def forked() -> tuple[Chat, list[ChatMessage]]:
    """A chat in which a question has two answers and a second version."""
    chat = Chat("Pages, and why", created=1_700_000_000.25, updated=1_700_000_100.5, system="Be brief.")
    first = ChatMessage(
        chat.id, "user", "What is a page?\nSay it in ä few words. 🙂", created=1_700_000_000.25
    )
    answer = ChatMessage(
        chat.id,
        "assistant",
        "A block of *16* tokens.",
        first.id,
        tokens=(1, 2, 3),
        model="/home/somebody/models/tiny",
        created=1_700_000_001.0,
        generated_tokens=3,
        ttft_ms=12.5,
        decode_tps=150.25,
        missed_from=4,
        miss_reason="evicted",
    )
    other = replace(answer, id="x" * 32, text="", status="failed", error="/home/somebody/models/tiny: gone")
    later = ChatMessage(chat.id, "user", "And then?", answer.id, created=1_700_000_002.0)
    cut = ChatMessage(chat.id, "assistant", "The", later.id, status="streaming", created=1_700_000_003.0)
    first = replace(first, shown_child=answer.id)
    return replace(chat, leaf_id=cut.id), [first, answer, other, later, cut]


def written() -> dict[str, Any]:
    """The values of its file."""
    return json.loads(to_json(*forked(), lambda path: Path(path).name))


def shape(chat: Chat, messages: tuple[ChatMessage, ...] | list[ChatMessage]) -> list[tuple[Any, ...]]:
    """The tree without ids, tokens and what belongs to one machine."""
    places: dict[str | None, int | None] = {message.id: place for place, message in enumerate(messages)}
    places[None] = None
    return [
        (places[m.parent_id], m.role, m.text, m.created, m.generated_tokens, m.ttft_ms, places[m.shown_child])
        for m in messages
    ] + [(chat.title, chat.created, chat.system, places[chat.leaf_id])]


def test_a_chat_comes_back_as_a_copy_with_new_ids() -> None:
    chat, messages = forked()
    copy, copies = from_json(to_json(chat, messages, lambda path: Path(path).name).encode(), "a.mlxrchat")
    assert shape(copy, copies) == shape(chat, messages)
    assert {copy.id, *(m.id for m in copies)}.isdisjoint({chat.id, *(m.id for m in messages)})
    assert {m.chat_id for m in copies} == {copy.id}
    assert [m.status for m in copies] == ["complete", "complete", "failed", "complete", "interrupted"]
    assert [m.model for m in copies] == ["", "tiny", "tiny", "", ""]
    assert copies[2].error == chat_file.FAILED_ELSEWHERE
    assert all(m.tokens is None and m.missed_from is None for m in copies)
    assert copy.updated > chat.updated


def test_the_file_tells_nothing_of_the_machine() -> None:
    chat, messages = forked()
    text = to_json(chat, messages, lambda path: Path(path).name)
    for secret in ("/home", "somebody", "evicted", chat.id, *(m.id for m in messages)):
        assert secret not in text


def test_the_example_in_the_documentation_is_one() -> None:
    page = (Path(__file__).parents[3] / "docs" / "chat-files.md").read_text("utf-8")
    example = page.split("```json\n", 1)[1].split("```", 1)[0]
    chat, messages = from_json(example.encode(), "example")
    assert (chat.title, [m.role for m in messages]) == ("Pages", ["user", "assistant", "assistant"])


def change(values: dict[str, Any], place: str, value: object) -> None:
    """Put `value` where `place`, such as "messages.1.text", says."""
    at: Any = values
    *way, last = place.split(".")
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    at[last] = value


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("format", "other", "no chat of MLXR's"),
        ("version", 2, "newer MLXR"),
        ("version", "1", "no valid version"),
        ("version", True, "no valid version"),
        ("title", 5, "no valid title"),
        ("title", "\ud800", "no valid title"),
        ("created", "yesterday", "no valid created"),
        ("created", "0001-01-01T00:00:00Z", "no valid created"),
        ("created", 12, "no valid created"),
        ("shown", 99, "no valid shown"),
        ("messages", [], "holds no message"),
        ("messages", {}, "no valid messages"),
        ("messages", [1], "message 1 is no object"),
        ("messages.0.id", 2, "message 1 is not numbered so"),
        ("messages.0.parent", 1, "message 1 has no valid parent"),
        ("messages.1.parent", 2, "message 2 has no valid parent"),
        ("messages.1.parent", None, "message 2 answers no question"),
        ("messages.3.role", "system", "message 4 has no valid role"),
        ("messages.3.role", "assistant", "message 4 answers no question"),
        ("messages.1.text", None, "message 2 has no valid text"),
        ("messages.1.status", "streaming", "message 2 has no valid status"),
        ("messages.1.tokens", -1, "message 2 has no valid tokens"),
        ("messages.1.tokens", 1 << 60, "message 2 has no valid tokens"),
        ("messages.1.ttft_ms", float("nan"), "NaN is no number"),
        ("messages.1.decode_tps", "fast", "message 2 has no valid decode_tps"),
        ("messages.0.shown_child", 0, "message 1 has no valid shown_child"),
    ],
)
def test_each_wrong_value_is_named(place: str, value: object, words: str) -> None:
    values = written()
    change(values, place, value)
    with pytest.raises(ChatFileError) as raised:
        from_json(json.dumps(values).encode(), "a.mlxrchat")
    assert words in str(raised.value)
    assert str(raised.value).startswith("a.mlxrchat ")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe\x00",
        b"[1, 2]",
        b"null",
        b"{",
        b"[" * 100_000,
        b"1" * 6000,
        b"PK\x03\x04",
        b'{"format": "mlxr-chat"}',
    ],
)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(ChatFileError):
        from_json(data, "a.mlxrchat")


def test_a_file_that_was_cut_anywhere_is_refused() -> None:
    data = json.dumps(written()).encode()
    for end in range(0, len(data) - 1, 7):
        with pytest.raises(ChatFileError):
            from_json(data[:end], "a.mlxrchat")


def no_file(path: Path) -> None:
    pass


def a_folder(path: Path) -> None:
    path.mkdir()


def too_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(chat_file.LARGEST + 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (no_file, "cannot be read"),
        (a_folder, "cannot be read"),
        (os.mkfifo, "is a pipe; give a file"),
        (too_large, "too large"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    make(tmp_path / "a.mlxrchat")
    with pytest.raises(ChatFileError, match=words):
        read_chat_file(tmp_path / "a.mlxrchat")


def test_a_path_that_no_file_can_have_is_said() -> None:
    for name in ("a\0.mlxrchat", "x" * 5000 + ".mlxrchat"):
        with pytest.raises(ChatFileError, match="cannot be read"):
            read_chat_file(Path(name))
