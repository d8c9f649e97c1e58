"""The writer of the SSD cache: a bounded queue of runs and the thread that stores them."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from engine.kv.page_data import SpilledRun
from engine.kv.page_file import encode
from engine.kv.page_header import CacheIdentity
from engine.kv.ssd.files import SsdFiles
from engine.kv.ssd.folder import FolderBusy
from engine.kv.ssd.problem import SsdProblem

log = logging.getLogger(__name__)


class SsdWriter:
    """Stores runs behind the engine's back. What waits can be read back; what fails is dropped.

    Where a write failed no run is taken for a while; then one is, to see whether it can be written.

    Args:
        queue_bytes: most bytes of pages that may wait; a run that is larger waits alone.

    Attributes:
        written_pages: that are in files since this was made.
    """

    def __init__(
        self, files: SsdFiles, identity: CacheIdentity, clock: Callable[[], float], queue_bytes: int
    ) -> None:
        self._files = files
        self._identity = identity
        self._clock = clock
        self._queue_bytes = queue_bytes
        self._changed = threading.Condition()
        self._waiting: OrderedDict[bytes, SpilledRun] = OrderedDict()
        self._places: dict[bytes, tuple[SpilledRun, int]] = {}
        self._waiting_bytes = 0
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._is_writing = False
        self._settles = False
        self._problem = SsdProblem(files.folder)
        self.written_pages = 0

    def find(self, key: bytes) -> tuple[SpilledRun, int] | None:
        """The run that holds page `key` and waits to be written, and the page's position in it."""
        with self._changed:
            return self._places.get(key)

    def among(self, keys: Iterable[bytes]) -> set[bytes]:
        """Those of the pages `keys` that wait to be written."""
        with self._changed:
            return self._places.keys() & keys

    @property
    def reason(self) -> str:
        """Why nothing is written at present; "" where nothing speaks against it."""
        return self._problem.reason

    @property
    def is_on(self) -> bool:
        """Whether a run may be taken: this is open, and a write that failed is long enough ago."""
        return not self._is_closed and self._problem.may_try

    @property
    def waiting_pages(self) -> int:
        """Pages that were taken and are not written yet."""
        with self._changed:
            return sum(len(run.keys) for run in self._waiting.values())

    def has_place(self, size: int) -> bool:
        """Whether `size` bytes more may wait now: where nothing waits, any number."""
        with self._changed:
            is_on_trial = bool(self.reason)
            return not self._waiting or (not is_on_trial and self._waiting_bytes + size <= self._queue_bytes)

    def bytes_since(self, used: int) -> int:
        """Bytes of what waits that were used at `used` or since."""
        with self._changed:
            runs = self._waiting.values()
            return sum(run.data.nbytes for run in runs if run.used is None or run.used >= used)

    def put(self, run: SpilledRun) -> bool:
        """Queue `run`; False when writing is off or too much waits."""
        with self._changed:
            if not self.is_on or not self.has_place(run.data.nbytes):
                return False
            self._queue(run)
            self._wake()
            return True

    def settle(self) -> None:
        """Have files say whose they are and when they were used, once nothing waits to be written."""
        with self._changed:
            if self.is_on and not self.reason:
                self._settles = True
                self._wake()

    def claim(self, keys: Sequence[bytes], chat: str) -> None:
        """The pages among `keys` that wait are `chat`'s too."""
        with self._changed:
            for run in {id(place[0]): place[0] for key in keys if (place := self._places.get(key))}.values():
                pairs = zip(run.keys, run.chats, strict=True)
                owners = tuple(chats | {chat} if key in keys else chats for key, chats in pairs)
                if owners != run.chats:
                    self._queue(replace(run, chats=owners))

    def drop(self, keys: Iterable[bytes]) -> None:
        """Do not store the runs that hold one of `keys`."""
        with self._changed:
            for key in keys:
                self._take_out(self._places.get(key, (None, 0))[0])

    def drop_chat(self, chat: str) -> None:
        """Do not store any run with a page of `chat`."""
        with self._changed:
            for run in list(self._waiting.values()):
                if any(chat in owners for owners in run.chats):
                    self._take_out(run)

    def flush(self, timeout: float) -> bool:
        """Wait, at most `timeout` seconds, until nothing waits or is being written; whether that is so."""

        def is_done() -> bool:
            return not (self._waiting or self._settles or self._is_writing)

        with self._changed:
            return self._changed.wait_for(is_done, timeout)

    def close(self, timeout: float) -> None:
        """Write what waits within `timeout` seconds, drop the rest, and end the thread.

        A write that does not end is left behind; it harms nobody.
        """
        end = time.monotonic() + timeout
        self.flush(timeout)
        with self._changed:
            self._is_closed = True
            self._drop_all()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(max(0.0, end - time.monotonic()))

    def fail(self, error: OSError) -> None:
        """Drop what waits, because of `error`; what is stored can still be read."""
        with self._changed:
            self._problem.failed(error)
            self._drop_all()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mlxr-ssd", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except OSError as error:
                self.fail(error)
            except FolderBusy:
                self._was_held()
            except Exception as error:  # the top of this thread: chat goes on without the cache
                log.exception("the writer of the cache on SSD broke")
                with self._changed:
                    self._problem.broke(error)
                    self._drop_all()

    def _was_held(self) -> None:
        """What waits goes on waiting, unless others have held the folder for long."""
        with self._changed:
            self._problem.was_held()
            if self.reason:
                self._drop_all()

    def _wrote(self) -> None:
        self._is_writing = False
        self._changed.notify_all()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._wrote()
            self._changed.wait_for(lambda: self._waiting or self._settles or self._is_closed)
            work: Callable[[], None] | None = None
            if self._waiting:
                work = partial(self._store, next(iter(self._waiting.values())))
            elif self._settles:
                work, self._settles = self._files.save, False
            self._is_writing = work is not None
            return work

    def _store(self, run: SpilledRun) -> None:
        encoded = encode(run, self._identity, int(self._clock()))
        used = self._files.tick() if run.used is None else run.used
        is_stored = self._files.store(encoded, used, lambda: self._waiting.get(run.keys[-1]) is run)
        with self._changed:
            if is_stored:
                self.written_pages += len(run.keys)
            self._problem.went_well(is_stored)
            self._take_out(run)

    def _drop_all(self) -> None:
        self._settles = False
        for run in list(self._waiting.values()):
            self._take_out(run)

    def _queue(self, run: SpilledRun) -> None:
        self._take_out(self._waiting.get(run.keys[-1]))
        self._waiting[run.keys[-1]] = run
        self._places.update((key, (run, position)) for position, key in enumerate(run.keys))
        self._waiting_bytes += run.data.nbytes

    def _take_out(self, run: SpilledRun | None) -> None:
        if run is None or self._waiting.get(run.keys[-1]) is not run:
            return
        del self._waiting[run.keys[-1]]
        self._waiting_bytes -= run.data.nbytes
        for key in run.keys:
            if self._places.get(key, (None, 0))[0] is run:
                del self._places[key]
        self._changed.notify_all()
