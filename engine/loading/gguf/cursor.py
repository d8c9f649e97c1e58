"""GGUF's values, read one after the other and never beyond the file's end."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO, cast

from engine.errors import ModelError

MOST_HEADER = 1 << 27
"""Bytes of a header; one with 260,000 tokens and their merges has 16 million."""

MOST_VALUES = 1 << 22
"""Values of an array."""

_MOST_NAME = (1 << 16) - 1
_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""GGUF's number types → what `struct` calls them (ggml's docs/gguf.md, `gguf_metadata_value_type`)."""


class Cursor:
    """A place in a GGUF file's header. Every method raises ModelError naming the file and the field."""

    def __init__(self, file: BinaryIO, path: Path, size: int) -> None:
        """`file` is at its begin and has `size` bytes."""
        self.path = path
        self.position = 0
        self._file = file
        self._end = size

    def wrong(self, field: str, what: str) -> ModelError:
        """The error for a field and what is wrong with it."""
        return ModelError(f"{self.path}: {field!r:.80} {what}")

    def take(self, count: int, field: str) -> bytes:
        """The next `count` bytes."""
        if count > self._end - self.position:
            raise self.wrong(field, f"needs {count:,} bytes, and the file ends before; download it again")
        if self.position + count > MOST_HEADER:
            raise self.wrong(field, f"makes the header longer than {MOST_HEADER:,} bytes")
        taken = self._file.read(count)
        if len(taken) != count:
            raise self._cut_off(field)
        self.position += count
        return taken

    def integer(self, field: str, size: int) -> int:
        """An unsigned integer of `size` bytes."""
        return int.from_bytes(self.take(size, field), "little")

    def count(self, field: str, least: int) -> int:
        """How many things follow somewhere, of at least `least` bytes each."""
        count = self.integer(field, 8)
        if count * least > self._end - self.position:
            raise self.wrong(field, f"is {count:,}, more than the file has room for; download it again")
        return count

    def name(self, field: str) -> str:
        """A key or a tensor's name."""
        length = self.integer(field, 8)
        if not 1 <= length <= _MOST_NAME:
            raise self.wrong(field, f"has {length:,} bytes; 1 to {_MOST_NAME:,} are possible")
        return self._text(self.take(length, field), field)

    def value(self, field: str) -> object:
        """A typed value: a number, flag, string, or a list of one kind of these."""
        kind = self.integer(field, 4)
        if kind == _STRING:
            return self._string(field)
        if kind == _ARRAY:
            return self._array(field)
        return self._numbers(field, kind, 1)[0]

    def _array(self, field: str) -> list[object]:
        kind = self.integer(field, 4)
        count = self.count(field, 8 if kind == _STRING else 1)
        if count > MOST_VALUES:
            raise self.wrong(field, f"has {count:,} values; at most {MOST_VALUES:,} are supported")
        if kind == _STRING:
            return self._strings(field, count)
        if kind == _ARRAY:
            raise self.wrong(field, "is an array of arrays, which is not supported")
        return self._numbers(field, kind, count)

    def _numbers(self, field: str, kind: int, count: int) -> list[object]:
        code = _NUMBERS.get(kind)
        if code is None:
            raise self.wrong(field, f"has the unknown value type {kind}")
        taken = self.take(count * struct.calcsize(code), field)
        if kind == _BOOL and not set(taken) <= {0, 1}:
            raise self.wrong(field, "is neither true nor false")
        return cast("list[object]", list(struct.unpack(f"<{count}{code}", taken)))

    def _string(self, field: str) -> str:
        return self._text(self.take(self.integer(field, 8), field), field)

    def _strings(self, field: str, count: int) -> list[object]:
        """So many strings: there are hundreds of thousands of tokens and merges, so that each call counts."""
        read, end = self._file.read, min(self._end, MOST_HEADER)
        texts: list[object] = []
        for _ in range(count):
            size = read(8)
            after = self.position + 8 + int.from_bytes(size, "little")
            if after > end or len(size) < 8:
                self._file.seek(self.position)
                texts.append(self._string(field))  # raises what is wrong with it
                continue
            try:
                texts.append(read(after - self.position - 8).decode())
            except UnicodeDecodeError as error:
                raise self._no_text(field, error) from error
            self.position = after
        if self._file.tell() != self.position:
            raise self._cut_off(field)
        return texts

    def _text(self, raw: bytes, field: str) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self._no_text(field, error) from error

    def _no_text(self, field: str, error: UnicodeDecodeError) -> ModelError:
        return self.wrong(field, f"is no UTF-8 text ({error.reason} at byte {error.start})")

    def _cut_off(self, field: str) -> ModelError:
        return self.wrong(field, "is cut off: the file became shorter while it was read")
