"""Runs of pages whose content follows from their keys, so that a wrong page is seen wherever it appears."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.kv.page_data import Array, PageData, SpilledRun, chain_keys, id_bytes
from engine.kv.page_file import read_header
from engine.kv.page_header import CacheIdentity
from engine.kv.pool_memory import PoolMemory
from engine.kv.ssd.tier import SsdTier

PAGE_SIZE = 4
IDENTITY = CacheIdentity("a-model", "bfloat16", PAGE_SIZE)
OTHER = CacheIdentity("another-model", "bfloat16", PAGE_SIZE)

Pages = tuple[tuple[int, ...], ...]


def content(keys: Sequence[bytes]) -> dict[str, Array]:
    """What the pages `keys` must hold: 2 layers, 1 KV head, 3 numbers a token, and a scale."""
    keyed = [np.random.default_rng(list(key)) for key in keys]
    values = [rng.integers(0, 1 << 16, (2, 1, PAGE_SIZE, 3), np.uint16) for rng in keyed]
    scales = [rng.random((2, 1, PAGE_SIZE, 1), np.float32) for rng in keyed]
    return {"keys": np.concatenate(values, 2), "scales": np.concatenate(scales, 2)}


def pages(first: int, count: int) -> Pages:
    """`count` pages of different ids, the first of which is `first`."""
    return tuple(
        tuple(range(first + page * PAGE_SIZE, first + (page + 1) * PAGE_SIZE)) for page in range(count)
    )


def spilled(
    parent: bytes, tokens: Pages, chats: Sequence[str] | Sequence[frozenset[str]] = ("chat",)
) -> SpilledRun:
    """The run of `tokens` behind `parent`; `chats` are those of all pages, or sets for each."""
    keys = chain_keys(parent, tokens)
    owners = [chat for chat in chats if isinstance(chat, frozenset)] or [frozenset(map(str, chats))] * len(
        keys
    )
    return SpilledRun(parent, keys, tokens, PageData(content(keys), PAGE_SIZE), tuple(owners))


def read(tier: SsdTier, keys: Sequence[bytes], tokens: Sequence[tuple[int, ...]]) -> PageData | None:
    """The pages `keys` as `tier` gives them; None where it cannot give all."""
    room = Room(content(keys))
    return room.data if tier.read(keys, ids_of(tokens), room.memory) == len(keys) else None


def ids_of(tokens: Sequence[tuple[int, ...]]) -> bytes:
    """The ids of these pages, as they are stored."""
    return id_bytes([token for page in tokens for token in page])


class Room:
    """Memory for as many pages as `like` has; where nothing was written yet it holds no zeros."""

    def __init__(self, like: Mapping[str, Array], page_size: int = PAGE_SIZE) -> None:
        arrays = {name: np.empty(array.shape, array.dtype) for name, array in like.items()}
        for array in arrays.values():
            array.view(np.uint8).fill(0xA5)
        self.data = PageData(arrays, page_size)
        planes = {name: list(array) for name, array in arrays.items()}
        self.memory = PoolMemory(planes, range(self.data.pages), page_size)


def assert_holds(data: PageData | None, keys: Sequence[bytes]) -> None:
    """`data` is, bit for bit, what the pages `keys` must hold."""
    assert data is not None
    assert data.pages == len(keys)
    expected = content(keys)
    assert data.arrays.keys() == expected.keys()
    for name, array in data.arrays.items():
        assert array.dtype == expected[name].dtype
        assert array.tobytes() == expected[name].tobytes()


def owners_in(folder: Path) -> set[str]:
    """The chats that files in the cache's folder say they are of."""
    files = folder.glob("*/*.safetensors")
    return {chat for file in files for owners in read_header(file, None).chats for chat in owners}


def forged(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a file's header and seal it again, as somebody who knows how would."""
    whole = path.read_bytes()
    begin = 8 + int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:begin])
    change(header)
    header["__metadata__"]["seal"] = "00000000"
    text = json.dumps(header, separators=(",", ":")).encode()
    sealed = len(text).to_bytes(8, "little") + text
    seal = f"{zlib.crc32(sealed):08x}".encode()
    path.write_bytes(sealed.replace(b"00000000", seal, 1) + whole[begin:])
