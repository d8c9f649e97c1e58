"""A gate that one process opens and closes, and at which threads of another wait."""

from __future__ import annotations

import mmap
import os
import select
import weakref


class Gate:
    """Open at first. Made before the other process is forked; on Linux.

    Attributes:
        file: that the other process must keep.
    """

    def __init__(self) -> None:
        """Raises OSError where the system has no room for it."""
        self._is_open = mmap.mmap(-1, 1)
        self._is_open[0] = 1
        self.file = os.eventfd(0)
        weakref.finalize(self, os.close, self.file)

    def open(self) -> None:
        """Who waits goes on."""
        if not self._is_open[0]:
            self._is_open[0] = 1
            os.eventfd_write(self.file, 1)

    def close(self) -> None:
        """Who comes now waits."""
        self._is_open[0] = 0

    def wait(self, seconds: float) -> None:
        """Until it is open; behind so long it opens by itself."""
        opened = select.poll()
        opened.register(self.file, select.POLLIN)
        while not self._is_open[0]:
            if not opened.poll(1000 * seconds):
                self._is_open[0] = 1
                return
            os.eventfd_read(self.file)  # of an earlier time, perhaps
