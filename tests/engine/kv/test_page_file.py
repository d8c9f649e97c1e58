"""The page file: read by the safetensors library as it was meant, and never believed once a byte differs."""

from __future__ import annotations

import ctypes
import mmap
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from app.measure.verified_read import leave_page_cache
from engine.kv.page_data import LONGEST_RUN, ROOT_KEY, PageData, SpilledRun, chain_key
from engine.kv.page_file import encode, fetch, read_header, write_chats
from engine.kv.page_header import LAYOUT_VERSION, CacheIdentity, DamagedFile, PageHeader
from engine.kv.page_reader import Wanted
from engine.kv.page_reader import read_run as read_into
from tests.engine.kv.spilled import IDENTITY, PAGE_SIZE, Room, assert_holds, forged, ids_of, pages, spilled

RUN = spilled(b"p" * 16, pages(7, 5), ("a", "b"))


def written(folder: Path, run: SpilledRun = RUN, identity: CacheIdentity = IDENTITY) -> Path:
    path = folder / f"{run.keys[-1].hex()}.safetensors"
    path.write_bytes(b"".join(encode(run, identity, 12).buffers))
    return path


def read_run(
    path: Path, identity: CacheIdentity, run: SpilledRun = RUN, known: PageHeader | None = None
) -> PageData:
    """All of `run`, which was written to `path`; `known`: what its header was taken for, when it was read."""
    room, header = Room(run.data.arrays), known or replace(encode(run, IDENTITY, 12).header, seal=b"")
    read_into(path, identity, Wanted(header, 0, ids_of(run.tokens), room.memory(0, run.data.pages)))
    return room.data


def test_the_longest_run_comes_back_and_a_longer_one_is_none(tmp_path: Path) -> None:
    run = spilled(ROOT_KEY, pages(0, LONGEST_RUN))
    path = written(tmp_path, run)
    assert_holds(read_run(path, IDENTITY, run, read_header(path, IDENTITY)), run.keys)
    with pytest.raises(ValueError, match=f"at most {LONGEST_RUN}"):
        spilled(ROOT_KEY, pages(0, LONGEST_RUN + 1))


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path)
    header = read_header(path, IDENTITY)
    assert_holds(read_run(path, IDENTITY), RUN.keys)
    assert_holds(read_run(path, IDENTITY, known=header), RUN.keys)
    assert (header.parent, header.keys, header.chats, header.created) == (RUN.parent, RUN.keys, RUN.chats, 12)
    assert header.seal == encode(RUN, IDENTITY, 12).header.seal
    assert header.data_bytes == RUN.data.nbytes


def test_the_safetensors_library_reads_the_same(tmp_path: Path) -> None:
    path = written(tmp_path)
    found = load_file(path)
    assert found.pop("tokens").tolist() == [list(page) for page in RUN.tokens]
    data = {name.removeprefix("data."): array for name, array in found.items()}
    assert_holds(PageData(data, PAGE_SIZE), RUN.keys)
    with safe_open(path, framework="numpy") as opened:
        assert opened.metadata()["identity"] == IDENTITY.digest


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "float16", "float32"])
def test_every_dtype_is_stored_bit_by_bit(tmp_path: Path, dtype: str) -> None:
    array = np.random.default_rng(0).integers(0, 256, (3, 2, 2 * PAGE_SIZE, 8), np.uint8).view(dtype)
    tokens = pages(0, 2)
    keys = spilled(ROOT_KEY, tokens).keys
    data = PageData({"odd": array[:, :, :, 1:], "keys": array}, PAGE_SIZE)  # one is a view with gaps
    run = SpilledRun(ROOT_KEY, keys, tokens, data, (frozenset[str](),) * 2)
    stored = read_run(written(tmp_path, run), IDENTITY, run).arrays
    assert stored["keys"].dtype == array.dtype
    assert stored["keys"].tobytes() == array.tobytes()
    assert stored["odd"].tobytes() == array[:, :, :, 1:].tobytes()


def test_a_dtype_that_cannot_be_stored_is_refused() -> None:
    data = PageData({"keys": np.zeros((1, 1, 5 * PAGE_SIZE, 2), np.int64)}, PAGE_SIZE)
    with pytest.raises(ValueError, match="int64"):
        encode(replace(RUN, data=data), IDENTITY, 0)


def test_no_flipped_bit_goes_unseen(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole, known = path.read_bytes(), read_header(path, IDENTITY)
    header_end = known.payload_begin
    assert 0 < header_end < len(whole) < 4000
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        for header in (None, known):
            with pytest.raises(DamagedFile):
                read_run(path, IDENTITY, known=header)
        if position < header_end:
            with pytest.raises(DamagedFile):
                read_header(path, IDENTITY)


def test_no_cut_and_no_longer_file_goes_unseen(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    for text in [*(whole[:length] for length in range(len(whole))), whole + b"\0"]:
        path.write_bytes(text)
        for read in (read_header, read_run):
            with pytest.raises(DamagedFile):
                read(path, IDENTITY)


@pytest.mark.parametrize(
    "other",
    [
        replace(IDENTITY, fingerprint="b-model"),
        replace(IDENTITY, dtype="float16"),
        replace(IDENTITY, page_size=2 * PAGE_SIZE),
        replace(IDENTITY, kv_bits=8),
        replace(IDENTITY, layout_version=LAYOUT_VERSION + 1),
    ],
)
def test_a_file_of_another_identity_is_not_read(tmp_path: Path, other: CacheIdentity) -> None:
    path = written(tmp_path)
    for read in (read_header, read_run):
        with pytest.raises(DamagedFile, match="another model, dtype or layout"):
            read(path, other)


def test_a_file_under_a_name_that_is_not_its_own_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path).rename(tmp_path / f"{RUN.keys[0].hex()}.safetensors")
    for read in (read_header, read_run):
        with pytest.raises(DamagedFile, match="named for"):
            read(path, IDENTITY)


FORGERIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no keys": lambda header: header["__metadata__"].pop("keys"),
    "odd key": lambda header: header["__metadata__"].update(keys="xyz"),
    "fewer keys": lambda header: header["__metadata__"].update(keys=RUN.keys[-1].hex()),
    "other parent": lambda header: header["__metadata__"].update(parent="00" * 16),
    "chats of too few pages": lambda header: header["__metadata__"].update(chats='[[["a"]],[0,0]]'),
    "chats are no list": lambda header: header["__metadata__"].update(chats="7"),
    "chats are no JSON": lambda header: header["__metadata__"].update(chats="["),
    "chats are nested without end": lambda header: header["__metadata__"].update(chats="[" * 200_000),
    "chats without names": lambda header: header["__metadata__"].update(chats='[[["a", 1]],[0,0,0,0,0]]'),
    "no metadata strings": lambda header: header["__metadata__"].update(created=None),
    "no payload sum": lambda header: header["__metadata__"].update(payload="?"),
    "unknown dtype": lambda header: header["data.keys"].update(dtype="F8"),
    "negative shape": lambda header: header["data.keys"].update(shape=[-1, 1, 20, 3]),
    "other shape": lambda header: header["data.keys"].update(shape=[1, 2, 20, 3, 1, 0]),
    "a shape of fractions": lambda header: header["data.keys"].update(
        shape=[float(length) for length in header["data.keys"]["shape"]]
    ),
    "no shape": lambda header: header["data.keys"].update(shape=3),
    "tokens elsewhere": lambda header: header["data.keys"].update(shape=[20, 1, 2, 3]),
    "moved": lambda header: header["data.keys"].update(data_offsets=[0, 4]),
    "no tokens": lambda header: header.pop("tokens"),
    "nothing else": lambda header: [header.pop(name) for name in ("data.keys", "data.scales", "tokens")],
    "tokens of another kind": lambda header: header["tokens"].update(dtype="F32"),
    "no entry": lambda header: header.update(tokens=5),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_sealed_header_that_makes_no_sense_is_damage_and_nothing_worse(tmp_path: Path, name: str) -> None:
    path = written(tmp_path)
    forged(path, lambda header: None)
    assert_holds(read_run(path, IDENTITY), RUN.keys)  # the forger's seal is accepted
    forged(path, FORGERIES[name])
    with pytest.raises(DamagedFile):
        read_run(path, IDENTITY)


def test_a_long_header_is_read_whole(tmp_path: Path) -> None:
    run = spilled(ROOT_KEY, pages(0, 16), [f"chat {number}" for number in range(500)])
    path = written(tmp_path, run)
    assert read_header(path, IDENTITY).payload_begin > 4096
    assert read_header(path, IDENTITY).chats == run.chats
    assert_holds(read_run(path, IDENTITY, run), run.keys)


def test_owners_are_written_anew_in_place(tmp_path: Path) -> None:
    path = written(tmp_path)
    header, size = read_header(path, IDENTITY), path.stat().st_size
    for owners in (("a", "b", "newcomer"), ("b",), ()):
        chats = (frozenset(owners),) * 4 + (frozenset("z"),)
        said, found = write_chats(path, header, chats), read_header(path, IDENTITY)
        assert said == found == replace(header, chats=chats)
        assert said.seal == found.seal != header.seal
        assert_holds(read_run(path, IDENTITY), RUN.keys)
        assert path.stat().st_size == size


def test_owners_that_the_disk_takes_half_of_are_not_said_to_be_written(tmp_path: Path) -> None:
    path = written(tmp_path)
    header, (soft, hard) = read_header(path, IDENTITY), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_chats(path, header, (frozenset("z"),) * 5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_owners_are_written_in_place_only_where_they_fit(tmp_path: Path) -> None:
    path = written(tmp_path)
    header, whole = read_header(path, IDENTITY), path.read_bytes()
    assert not write_chats(path, header, (frozenset(f"chat {n}" for n in range(100)),) * 5)
    assert path.read_bytes() == whole


def test_keys_and_parts_of_a_run_must_belong_together() -> None:
    with pytest.raises(ValueError, match="not those of its tokens"):
        replace(RUN, parent=ROOT_KEY)
    with pytest.raises(ValueError, match="4 keys"):
        replace(RUN, keys=RUN.keys[1:])
    with pytest.raises(ValueError, match="does not have 4 tokens"):
        replace(RUN, tokens=(*RUN.tokens[:-1], (1, 2, 3)))
    with pytest.raises(ValueError, match="no whole pages"):
        PageData({"keys": np.zeros((1, 1, PAGE_SIZE + 1, 1), np.uint8)}, PAGE_SIZE)


def test_pages_are_cut_out() -> None:
    data = RUN.data
    assert_holds(data.head(2), RUN.keys[:2])
    assert_holds(data.part(3, 1), RUN.keys[3:4])


def test_a_chain_key_depends_on_every_token_and_on_all_before() -> None:
    keys = {
        chain_key(parent, page) for parent in (ROOT_KEY, b"p" * 16) for page in ((1, 2), (2, 1), (1, 258))
    }
    assert len(keys) == 6
    assert {len(key) for key in keys} == {16}


def resident(path: Path) -> int:
    """Pages of the file that the system has in memory."""
    size = path.stat().st_size
    with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        flags = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        assert not ctypes.CDLL(None).mincore(ctypes.byref(first), ctypes.c_size_t(size), flags)
        del first
    return sum(flag & 1 for flag in flags)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not let a file leave their memory")
def test_a_file_is_fetched_into_the_system_s_memory(tmp_path: Path) -> None:
    path = written(tmp_path)
    leave_page_cache(tmp_path, path.suffix)
    if resident(path):
        pytest.skip("this file system keeps its files in memory")
    fetch(path)
    give_up = time.monotonic() + 10
    while not resident(path) and time.monotonic() < give_up:
        pass
    assert resident(path)
    fetch(tmp_path / "gone")
