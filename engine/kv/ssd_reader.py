"""The reader of the SSD cache: files as they are asked for, and the next one while this one is used."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from engine.kv.page_file import StoredRun
from engine.kv.ssd_files import SsdFiles


class SsdReader:
    """Reads verified files of pages, at most one ahead. For one thread, the engine's, beside its own."""

    def __init__(self, files: SsdFiles) -> None:
        self._files = files
        self._thread = ThreadPoolExecutor(1, "mlxr-ssd-read")
        self._expected: tuple[bytes, Future[StoredRun | None]] | None = None
        self._is_closed = False

    def expect(self, key: bytes | None) -> None:
        """`read` is asked for the file with page `key` next, or for none; what was expected is let go."""
        if self._expected is not None:
            self._expected[1].cancel()
            self._expected = None
        if key is not None and not self._is_closed and self._files.has(key):
            self._expected = (key, self._thread.submit(self._files.read, key))

    def read(self, key: bytes) -> StoredRun | None:
        """The verified file that holds page `key`; None when there is none, or it was damaged and is gone."""
        expected, self._expected = self._expected, None
        if expected is None or expected[0] != key:
            return self._files.read(key)
        return expected[1].result()

    def close(self) -> None:
        """Expect nothing more; a read that does not end is left behind."""
        self.expect(None)
        self._is_closed = True
        self._thread.shutdown(wait=False)
