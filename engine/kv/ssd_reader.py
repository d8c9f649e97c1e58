"""The reader of the SSD cache: files as they are asked for, and the next ones while these are used."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from engine.kv.page_file import StoredRun
from engine.kv.ssd_files import SsdFiles


class SsdReader:
    """Reads verified files of pages, and ahead what it was told of. For one thread, beside its own."""

    def __init__(self, files: SsdFiles) -> None:
        self._files = files
        self._thread = ThreadPoolExecutor(1, "mlxr-ssd-read")
        self._expected: dict[bytes, Future[StoredRun | None]] = {}
        self._is_closed = False

    def expect(self, keys: Sequence[bytes]) -> None:
        """`read` is asked for the files with these pages next, in this order; any other is let go."""
        for key in self._expected.keys() - set(keys):
            self._expected.pop(key).cancel()
        for key in keys:
            if key not in self._expected and not self._is_closed and self._files.has(key):
                self._expected[key] = self._thread.submit(self._files.read, key)

    def read(self, key: bytes) -> StoredRun | None:
        """The verified file that holds page `key`; None when there is none, or it was damaged and is gone."""
        expected = self._expected.pop(key, None)
        return self._files.read(key) if expected is None else expected.result()

    def close(self) -> None:
        """Expect nothing more; a read that does not end is left behind."""
        self.expect(())
        self._is_closed = True
        self._thread.shutdown(wait=False)
