"""GGUF headers are read as the gguf package reads them, and damaged ones are told by file and field."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import gguf
import pytest

from engine.errors import ModelError
from engine.loading.gguf.cursor import MOST_VALUES, Cursor
from engine.loading.gguf.header import read_header
from tests.engine.loading.gguf.writer import WIDE, q4_k_m, write_gguf_model

U8, I32, BOOL, STRING, ARRAY, U64 = 0, 5, 7, 8, 9, 10
F32, Q4_K, IQ2_XXS = 0, 12, 16


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def entry(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: str, shape: Sequence[int], kind: int = F32, offset: int = 0) -> bytes:
    """A tensor's entry; `shape` in the file's order, the width first."""
    counts = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + counts + struct.pack("<IQ", kind, offset)


def gguf_bytes(
    entries: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    data: int = 0,
    *,
    version: bytes = struct.pack("<I", 3),
    counts: tuple[int, int] | None = None,
    alignment: int = 32,
) -> bytes:
    """A file of `entries`, `tensors` and so many bytes of data; `counts` instead of the true ones."""
    tensor_count, entry_count = counts or (len(tensors), len(entries))
    head = b"GGUF" + version + struct.pack("<QQ", tensor_count, entry_count) + b"".join((*entries, *tensors))
    return head + bytes(-len(head) % alignment) + bytes(data)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("version", [2, 3])
def test_everything_is_as_the_package_reads_it(family: str, version: int, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"

    def more(writer: gguf.GGUFWriter) -> None:
        writer.add_custom_alignment(64)
        writer.add_bool("a.flag", True)
        writer.add_float64("a.double", 0.1)
        writer.add_int64("a.negative", -(2**60))
        writer.add_array("a.shorts", [1, -2, 3])
        writer.add_string("a.text", "pages — 页 🗒")

    write_gguf_model(file, family, types=q4_k_m, metadata=more, **WIDE)
    raw = bytearray(file.read_bytes())
    raw[4] = version
    file.write_bytes(raw)
    header, theirs = read_header(file), gguf.GGUFReader(file)
    fields = {name: field for name, field in theirs.fields.items() if not name.startswith("GGUF.")}
    assert header.metadata == {name: field.contents() for name, field in fields.items()}
    assert list(header.tensors) == [tensor.name for tensor in theirs.tensors]
    for one in theirs.tensors:
        ours = header.tensors[one.name]
        assert ours.type_name == one.tensor_type.name
        assert ours.shape == tuple(reversed(one.shape.tolist()))
        assert (ours.begin, ours.bytes) == (one.data_offset, one.n_bytes)


_ONE = [tensor("a.weight", (8, 2))]
_ALIGNMENT = "general.alignment"
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "'magic'"),
    "other format": (b"PK\3\4" + bytes(60), "begin with GGUF"),
    "version 1": (gguf_bytes(version=struct.pack("<I", 1)), "version is 1"),
    "big-endian": (gguf_bytes(version=struct.pack(">I", 3)), "big-endian"),
    "tensor count": (gguf_bytes(counts=(2**63, 0)), "'tensor count' is 9,223,372,036,854,775,808"),
    "metadata count": (gguf_bytes(counts=(0, 2**64 - 1)), "'metadata count'"),
    "one entry too many": (gguf_bytes(data=20, counts=(0, 1)), "metadata key 0"),
    "long string": (gguf_bytes([entry("a.text", STRING, struct.pack("<Q", 2**63))], data=64), "'a.text'"),
    "long array": (gguf_bytes([entry("a.list", ARRAY, struct.pack("<IQ", I32, 2**62))], data=64), "'a.list'"),
    "array of more than is ever needed": (
        gguf_bytes([entry("a.list", ARRAY, struct.pack("<IQ", U8, MOST_VALUES + 1))], data=MOST_VALUES + 64),
        "'a.list' has 4,194,305 values",
    ),
    "nested array": (
        gguf_bytes([entry("a.list", ARRAY, struct.pack("<IQ", ARRAY, 1))], data=64),
        "'a.list' is an array of arrays",
    ),
    "value type": (gguf_bytes([entry("a.x", 13, bytes(8))]), "'a.x' has the unknown value type 13"),
    "flag": (gguf_bytes([entry("a.x", BOOL, b"\2")]), "'a.x' is neither true nor false"),
    "text": (gguf_bytes([entry("a.x", STRING, text(b"\xff"))]), "'a.x' is no UTF-8 text"),
    "key twice": (gguf_bytes([entry("a.x", U8, b"1")] * 2), "'a.x' is there twice"),
    "empty key": (gguf_bytes([entry("", U8, b"1")]), "metadata key 0"),
    "alignment 0": (gguf_bytes([entry(_ALIGNMENT, 4, bytes(4))]), _ALIGNMENT),
    "alignment 3": (gguf_bytes([entry(_ALIGNMENT, 4, struct.pack("<I", 3))]), _ALIGNMENT),
    "alignment of text": (gguf_bytes([entry(_ALIGNMENT, STRING, text("32"))]), _ALIGNMENT),
    "alignment of 2^31": (gguf_bytes([entry(_ALIGNMENT, 4, struct.pack("<I", 2**31))]), _ALIGNMENT),
    "tensor twice": (gguf_bytes([], _ONE * 2, 64), "'a.weight' is there twice"),
    "no dimension": (gguf_bytes([], [tensor("a.weight", ())], 64), "'a.weight' has 0 dimensions"),
    "five dimensions": (gguf_bytes([], [tensor("a.weight", (1,) * 5)], 64), "'a.weight' has 5 dimensions"),
    "dimension 0": (gguf_bytes([], [tensor("a.weight", (8, 0))], 64), "'a.weight' has the shape (0, 8)"),
    "shape beyond the file": (
        gguf_bytes([], [tensor("a.weight", (2**63, 2**63))], 64),
        "'a.weight' should end",
    ),
    "offset beyond the file": (
        gguf_bytes([], [tensor("a.weight", (8, 2), F32, 2**63)], 64),
        "'a.weight' should end",
    ),
    "cut data": (gguf_bytes([], _ONE, 63), "'a.weight' should end at byte"),
    "crooked offset": (gguf_bytes([], [tensor("a.weight", (8,), F32, 8)], 64), "'a.weight' begins at 8"),
    "overlap": (
        gguf_bytes([], [tensor("a.weight", (16,)), tensor("b.weight", (8,), F32, 32)], 64),
        "'b.weight' overlaps 'a.weight'",
    ),
    "broken block": (gguf_bytes([], [tensor("a.weight", (128, 2), Q4_K)], 256), "'a.weight' is impossible"),
    "type not read": (
        gguf_bytes([], [tensor("a.weight", (256,), IQ2_XXS)], 128),
        "'a.weight' is stored as IQ2_XXS",
    ),
    "type nobody has": (
        gguf_bytes([], [tensor("a.weight", (256,), 999)], 128),
        "'a.weight' is stored as type 999",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_one_line_with_file_and_field(name: str, tmp_path: Path) -> None:
    raw, says = BAD[name]
    file = tmp_path / "bad.gguf"
    file.write_bytes(raw)
    tracemalloc.start()
    try:
        with pytest.raises(ModelError) as raised:
            read_header(file)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20  # what a field claims is not allocated
    finally:
        tracemalloc.stop()
    message = str(raised.value)
    assert says in message
    assert str(file) in message
    assert "\n" not in message


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = gguf_bytes(
        [entry("a.x", U64, bytes(8)), entry("a.l", ARRAY, struct.pack("<IQ", STRING, 2) + text("p") * 2)],
        [tensor("a.weight", (8, 2)), tensor("b.weight", (256,), Q4_K, 64)],
        64 + 144,
    )
    file = tmp_path / "cut.gguf"
    file.write_bytes(whole)
    assert list(read_header(file).tensors) == ["a.weight", "b.weight"]
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        with pytest.raises(ModelError, match=r"cut\.gguf"):
            read_header(file)


@pytest.mark.parametrize("strings", [["p", "", "页 two"], [""] * 3])
def test_a_list_that_ends_early_is_refused_wherever_it_does(strings: list[str]) -> None:
    whole = struct.pack("<IIQ", ARRAY, STRING, len(strings)) + b"".join(map(text, strings))
    file = Path("list.gguf")
    assert Cursor(io.BytesIO(whole), file, len(whole)).value("a.list") == strings
    for size in range(len(whole)):
        for claimed in (size, len(whole)):  # a short file, and one that becomes shorter while it is read
            with pytest.raises(ModelError, match=r"a\.list"):
                Cursor(io.BytesIO(whole[:size]), file, claimed).value("a.list")


@pytest.mark.parametrize("place", [0, 1])
def test_a_string_beyond_the_file_is_not_asked_for(place: int) -> None:
    strings = [text("p"), text("p")]
    strings[place] = struct.pack("<Q", 2**63) + b"p"
    whole = struct.pack("<IIQ", ARRAY, STRING, 2) + b"".join(strings)
    with pytest.raises(ModelError, match=r"'a\.list' needs 9,223,372,036,854,775,808 bytes"):
        Cursor(io.BytesIO(whole), Path("list.gguf"), len(whole)).value("a.list")


def test_a_pipe_and_a_folder_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "folder.gguf").mkdir()
    for name in ("pipe.gguf", "folder.gguf", "gone.gguf"):
        with pytest.raises(ModelError, match="is not a file"):
            read_header(tmp_path / name)
