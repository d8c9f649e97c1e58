"""Misbehaviour on command: what the local hub does wrong, where, and how many times."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Literal

Kind = Literal[
    "cut",
    "stall",
    "wrong_byte",
    "change_etag",
    "ignore_range",
    "short_length",
    "slow",
    "status",
    "html",
    "redirect_loop",
    "drop",
]
# These happen where a file's bytes are sent, never in an answer without them (a redirect, a HEAD, JSON).
IN_BODY = frozenset[Kind](
    ("cut", "stall", "wrong_byte", "change_etag", "ignore_range", "short_length", "slow")
)


@dataclass(frozen=True, eq=False)
class Fault:
    """One thing that goes wrong.

    Args:
        path: a file of any repository ("model.gguf", "*.safetensors"), or, when it begins with "/", a URL's
            path ("/api/models*", "/cdn/*"); "*" is everything.
        kind:
            cut: the connection ends cleanly just before byte `at`, whatever Content-Length promised.
            stall: nothing more comes from byte `at` on, for `seconds`, or until `Faults.release`.
            wrong_byte: byte `at` arrives flipped.
            change_etag: from byte `at` on the file is another one of the same length, with another ETag and
                sha256, in this answer and in all later ones; with `at` = 0 the headers are new already.
            ignore_range: the whole file comes, with 200.
            short_length: a complete, well-formed answer that ends before byte `at`.
            slow: `rate` bytes a second, in `pieces` pieces a second.
            status: `status` instead of the answer, and Retry-After where `retry_after` is given.
            html: 200 and a page in HTML, as a hotel's network sends.
            redirect_loop: 302 to the same address.
            drop: the connection ends without a word.
        at: an offset in the file, not in the answer. A cut, a stall or a wrong byte that lies outside of the
            range asked for does not happen, nor count.
        times: how many requests it spoils; None: all.
        skip: so many matching requests pass before the first.
        method: only these requests ("HEAD", "GET", "POST"); None: any.
        seconds: of a stall; None: until released.
    """

    path: str
    kind: Kind
    at: int = 0
    times: int | None = 1
    skip: int = 0
    method: str | None = None
    status: int = 503
    retry_after: int | None = None
    seconds: float | None = None
    rate: int = 1 << 16
    pieces: int = 10

    def concerns(self, method: str, url_path: str, file: str | None) -> bool:
        """Whether a request is the kind of request it spoils."""
        if self.method is not None and self.method != method:
            return False
        if self.path.startswith("/"):
            return fnmatch(url_path, self.path)
        return self.path == "*" or (file is not None and fnmatch(file, self.path))

    def reaches(self, start: int, stop: int) -> bool:
        """Whether it happens in an answer of the file's bytes [start, stop)."""
        if self.kind in ("cut", "stall", "wrong_byte"):
            return start <= self.at < stop
        return True


class Faults:
    """The faults in force; safe to use from every thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._seen: dict[Fault, int] = {}  # matching requests so far, the skipped ones included
        self._happened: Counter[Fault] = Counter()
        self._released = 0
        self._may_stall = True

    def add(self, *faults: Fault) -> None:
        """Put in force, after those that are."""
        with self._changed:
            self._seen.update(dict.fromkeys(faults, 0))

    def clear(self) -> None:
        """Everything works again; stalled answers go on."""
        with self._changed:
            self._seen.clear()
        self.release()

    def release(self) -> None:
        """Let every answer that is stalled now go on."""
        with self._changed:
            self._released += 1
            self._changed.notify_all()

    def fired(self, fault: Fault) -> int:
        """How many times it happened so far."""
        with self._changed:
            return self._happened[fault]

    def note(self, fault: Fault) -> None:
        """It happens now."""
        with self._changed:
            self._happened[fault] += 1
            self._changed.notify_all()

    def wait(self, fault: Fault, timeout: float = 60.0) -> None:
        """Block until `fault` has happened: the bytes before a stall are sent, a cut is about to cut.

        Raises:
            TimeoutError: it did not within `timeout` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._happened[fault] > 0, timeout):
                raise TimeoutError(f"{fault} did not happen within {timeout} s")

    def allow_stalls(self, value: bool) -> None:
        """False: whoever is stalled goes on and nobody stalls again, so that threads can be waited for."""
        with self._changed:
            self._may_stall = value
            self._changed.notify_all()

    def stall(self, fault: Fault) -> None:
        """Hold the calling thread as long as `fault` says."""
        with self._changed:
            before = self._released
            self._changed.wait_for(lambda: self._released > before or not self._may_stall, fault.seconds)

    def take_answer(self, method: str, url_path: str, file: str | None) -> Fault | None:
        """The fault that takes the place of a whole answer; it counts as happened."""
        for fault in self._in_force():
            if fault.kind not in IN_BODY and fault.concerns(method, url_path, file) and self._count(fault):
                self.note(fault)
                return fault
        return None

    def take_body(self, url_path: str, file: str, start: int, stop: int) -> list[Fault]:
        """The faults of an answer with the bytes [start, stop) of `file`; who sends them notes each."""
        return [
            fault
            for fault in self._in_force()
            if fault.kind in IN_BODY
            and fault.concerns("GET", url_path, file)
            and fault.reaches(start, stop)
            and self._count(fault)
        ]

    def _in_force(self) -> list[Fault]:
        with self._changed:
            return list(self._seen)

    def _count(self, fault: Fault) -> bool:
        with self._changed:
            seen = self._seen.get(fault)
            if seen is None or (fault.times is not None and seen >= fault.skip + fault.times):
                return False
            self._seen[fault] = seen + 1
            return seen >= fault.skip
