"""Integers on their way from the host to the device: page tables, a chunk's numbers, token ids."""

from __future__ import annotations

import ctypes
import logging
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.cpu.host_view import host_view
from engine.machine.machine import device_kind

log = logging.getLogger(__name__)

Numbers = Sequence[int] | NDArray[np.int32]
Made = TypeVar("Made")

ROOM = 1 << 16
"""Integers of staging memory: what some steps of long sequences read, 256 KiB."""


class Staging:
    """Hands integers to the device.

    MLX's CUDA build gives a new array of the host's memory that migrates, or a buffer that a device's array
    has left, whose contents it copies first (docs/measured/pitfalls.md). So there it is a
    ring of memory that stays with the host, whose parts are written again when the device has read them. An
    Apple GPU reads what the host wrote.
    """

    def __init__(self, room: int = 0) -> None:
        """`room`: integers of the ring; 0 for new arrays each time.

        Places in it are counted on, `room` more for each time it went round. `_read` has those of what may be
        read still, oldest first, each with what reads it; `_lent` what was lent, by begin and size.
        """
        self._ring = mx.zeros(room, mx.int32)
        mx.eval(self._ring)
        self._memory: NDArray[np.int32] = host_view(self._ring)
        self._written = 0
        self._read = deque[tuple[int, mx.array]]()
        self._lent: dict[tuple[int, int], mx.array] = {}

    @classmethod
    def for_device(cls) -> Staging:
        """A ring where that is quicker, and its memory can be told to stay."""
        if device_kind() == "CUDA":
            staging = cls(ROOM)
            if stays_with_host(staging._memory):
                return staging
            log.warning("CUDA keeps no memory with the host: page tables and tokens go there in new arrays")
        return cls()

    def token_ids(self, tokens: Sequence[int]) -> mx.array:
        """Tokens as uint32 (tokens,), on their way."""
        return self.integers(tokens).view(mx.uint32)

    def integers(self, numbers: Numbers) -> mx.array:
        """`numbers` as int32 (n,), on their way."""
        values = _int32(numbers)
        place = self._write(values, len(values))
        if place is None:
            return mx.array(values)
        begin = place % len(self._memory)
        copied = self._ring[begin : begin + len(values)] + 0
        mx.async_eval(copied)
        self._read.append((place, copied))
        return copied

    def lend(
        self, numbers: Numbers, size: int, read: Callable[[mx.array], Made], part: Callable[[Made], mx.array]
    ) -> Made:
        """What `read` makes of `numbers` where the host wrote them, int32 (size,); behind them is anything.

        To be read once, as that is far from a device. Such parts of the ring begin at multiples of their
        size, and stay the arrays that they are: making one takes Python as long as a launch.

        Args:
            size: a power of two, and room for the numbers.
            part: of what was made, an array that is evaluated when they have been read.
        """
        values = _int32(numbers)
        place = self._write(values, size, is_aligned=True)
        if place is None:
            return read(mx.array(np.pad(values, (0, size - len(values)))))
        begin = place % len(self._memory)
        if (begin, size) not in self._lent:
            self._lent[begin, size] = self._ring[begin : begin + size]
        made = read(self._lent[begin, size])
        self._read.append((place, part(made)))
        return made

    def _write(self, values: NDArray[np.int32], size: int, *, is_aligned: bool = False) -> int | None:
        """Their place in the ring, of which they take `size`; None where there is none for them."""
        room = len(self._memory)
        if not 0 < size <= room:
            return None
        if is_aligned:
            self._written += -self._written % size
        begin = self._written % room
        if begin + size > room:  # its end is left out
            self._written, begin = self._written + room - begin, 0
        if self._read and self._written + size - self._read[0][0] > room:
            self._wait_until_read(self._written + size - room // 2)
        self._memory[begin : begin + len(values)] = values
        place, self._written = self._written, self._written + size
        return place

    def _wait_until_read(self, place: int) -> None:
        """Of all that was written before `place`: more than is needed now, as each time takes as long."""
        read = list[mx.array]()
        while self._read and self._read[0][0] < place:
            read.append(self._read.popleft()[1])
        mx.eval(read)


def _int32(numbers: Numbers) -> NDArray[np.int32]:
    """Of a list by way of `array`: thousands take half of the time, and a sixth without a sign."""
    if isinstance(numbers, np.ndarray):
        return numbers
    try:
        return np.frombuffer(array("I", numbers), np.int32)
    except OverflowError:  # of one below 0
        return np.frombuffer(array("i", numbers), np.int32)


def stays_with_host(memory: NDArray[np.int32]) -> bool:
    """Have CUDA keep managed memory on the host, for a device to read it over the bus; whether it does.

    By cuMemAdvise: https://docs.nvidia.com/cuda/cuda-driver-api, "Unified Addressing".
    """
    preferred_location, accessed_by, host, device = 3, 5, -1, 0
    try:
        advise = ctypes.CDLL("libcuda.so.1").cuMemAdvise
    except (OSError, AttributeError):
        return False
    place, size = ctypes.c_uint64(memory.ctypes.data), ctypes.c_size_t(memory.nbytes)
    return all(
        advise(place, size, ctypes.c_int(advice), ctypes.c_int(where)) == 0
        for advice, where in ((preferred_location, host), (accessed_by, device))
    )
