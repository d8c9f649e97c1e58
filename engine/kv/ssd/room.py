"""Cap and floor of the SSD cache: what may be written, and which files go for it."""

from __future__ import annotations

import math
import threading

from engine.kv.ssd.folder import SsdFolder
from engine.kv.ssd.index import SsdIndex
from engine.kv.ssd.settings import SsdSettings


class SsdRoom:
    """Removes the oldest files of a folder, of whatever model, where cap or floor ask for it.

    All of it may raise OSError.

    Args:
        guard: held while `index` is looked at or changed.
    """

    def __init__(
        self, settings: SsdSettings, folder: SsdFolder, index: SsdIndex, guard: threading.Lock
    ) -> None:
        self._settings, self._folder, self._index, self._guard = settings, folder, index, guard
        self._refused = 0

    @property
    def shortage(self) -> str:
        """Why the disk has no room for what was refused last, not even in place of all files; "" if it has.

        In words, with what would help.
        """
        if not self._refused:
            return ""
        free = self._folder.free_bytes()
        with self._guard:
            if self._lack(self._refused, free) <= self._index.total_bytes:
                self._refused = 0
                return ""
        floor = self._settings.floor_bytes
        kept = f" and {_size(floor)} must stay free" if floor else ""
        return f"the disk has {_size(free)} free{kept}; saving goes on when there is more"

    def may_hold(self, size: int, used_ns: int) -> bool:
        """Whether `size` bytes more are possible, if need be in place of files used before `used_ns`."""
        if not self._folder.is_made:  # who writes tries to make it, and looks then
            return True
        free = self._folder.free_bytes()
        with self._guard:
            total, short = self._index.total_bytes, self._lack(size, free)
            self._refused = size if short > total else 0
            lack = max(total + size - self._settings.cap_bytes, short)
            return self._index.bytes_before(used_ns, lack) >= lack

    def make(self, size: int, used_ns: int) -> bool:
        """Remove the oldest of the files used before `used_ns` until `size` more bytes fit.

        Nothing is removed where that would not be enough; less than enough where others are used meanwhile.
        """
        if not self.may_hold(size, used_ns):
            return False
        self._keep(size, used_ns)
        with self._guard:
            is_below_cap = self._index.total_bytes + size <= self._settings.cap_bytes
        return is_below_cap and self._folder.is_above_floor(size)

    def keep(self) -> None:
        """Remove the oldest files until cap and floor hold, or none is left.

        As many bytes go as the floor lacks, not more where the disk gives nothing back for them.
        """
        self._keep(0, math.inf)

    def _keep(self, size: int, used_ns: float) -> None:
        """Until they hold with `size` bytes more, or no file is left that was used before `used_ns`."""
        self._come_down_to(self._settings.cap_bytes - size, used_ns)
        lack = self._lack(size, self._folder.free_bytes())
        with self._guard:
            total = self._index.total_bytes
        self._come_down_to(total - lack, used_ns)

    def _lack(self, size: int, free: int) -> int:
        """Bytes that the floor asks for, before `size` more are written to a disk with `free` ones."""
        return self._settings.floor_bytes + size - free

    def _come_down_to(self, most: int, used_ns: float) -> None:
        while True:
            with self._guard:
                file = self._index.oldest()
                if file is None or file.used_ns >= used_ns or self._index.total_bytes <= most:
                    return
            file.path.unlink(missing_ok=True)
            with self._guard:
                self._index.remove(file.path)


def _size(size: int) -> str:
    """Bytes as people read them."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
