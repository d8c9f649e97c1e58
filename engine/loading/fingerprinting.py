"""The fingerprint of a model that is loaded: computed while its weights are read, and once for its files."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import cast

from engine.errors import ModelError
from engine.loading.fingerprint import ModelContent, tensor_digest
from engine.loading.safetensors_file import unreadable
from engine.machine.processors import usable

log = logging.getLogger(__name__)

FILE = "fingerprints.json"
"""In the folder for what can be made again: the fingerprints of models by the stamps of their files."""

MOST = 256
"""Models that are remembered, those that came last."""

THREADS = 4
"""At most: a disk gives no more than as many sum up."""

SETTLED_S = 2.0
"""A file that was changed less than so long ago may change once more without a later time: systems count it
in steps, some in steps of two seconds. It is not remembered yet."""

_ASK_EVERY = 0.1
"""Seconds of waiting for what is read after which it is asked whether it is wanted still."""

Stamps = tuple[tuple[int, int, int, int], ...]


class Fingerprinting:
    """Finds the fingerprint of the model `content` while its weights are loaded: a context to load them in.

    Every byte of the weights is in it, so that no change of a model is missed, and a model that was copied or
    downloaded again is the same. To read them all takes about a second of a processor for each 2 GB, in
    threads beside the load, which reads the same bytes from the disk. That is once: the result is kept in
    `cache`/FILE under the files' sizes, inodes and times, of change as of content. A later load asks the
    system for those, which takes some microseconds a file, and reads nothing. Where one of them is another,
    if only because a name or a permission was changed, all is read again, with the same result.

    Whoever is in the context loads the weights, and then asks for the `result`. Leaving it ends the threads.
    """

    def __init__(self, content: ModelContent, cache: Path, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970. Raises ModelError when a file of `content` is not there any more."""
        self._content, self._file = content, cache / FILE
        self._stamps, began = _stamps(content), clock()
        self._is_settled = all(changed <= (began - SETTLED_S) * 1e9 for *_, changed in self._stamps)
        self._key = _key(content, self._stamps)
        self._known = _stored(self._file).get(self._key)
        self._stop = Event()
        self._threads = ThreadPoolExecutor(min(usable(), THREADS), "mlxr-digest")
        self._digests: dict[str, Future[bytes]] = {}

    def __enter__(self) -> Fingerprinting:
        if self._known is None:
            self._digests = {
                one.name: self._threads.submit(tensor_digest, one, lambda: not self._stop.is_set())
                for one in self._content.tensors
            }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._threads.shutdown(cancel_futures=True)

    def result(self, waits: Callable[[], None] = lambda: None) -> str:
        """32 hexadecimal digits: equal for the same model wherever it lies, different for any other one.

        Waits until all is read; meanwhile `waits` is called now and then, and what it raises ends it.
        Raises ModelError when a file cannot be read, or was changed since this began and may not be what is
        in memory.
        """
        fingerprint = self._known or self._content.digest(
            lambda one: _awaited(self._digests[one.name], waits)
        )
        if _stamps(self._content) != self._stamps:
            raise ModelError(
                f"{self._content.files[0].parent}: weights were changed meanwhile; load them again"
            )
        if self._known is None and self._is_settled:
            self._keep(fingerprint)
        return fingerprint

    def _keep(self, fingerprint: str) -> None:
        """Remember it, beside what others have kept; or it is computed again the next time."""
        stored = _stored(self._file)
        stored[self._key] = fingerprint
        part = self._file.with_suffix(f".{os.getpid()}.part")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(dict([*stored.items()][-MOST:]), indent=0), encoding="utf-8")
            part.replace(self._file)
        except OSError as error:
            log.warning("%s cannot be written (%s): models are read twice at each load", self._file, error)


def _awaited(digest: Future[bytes], waits: Callable[[], None]) -> bytes:
    """What it comes to; `waits` is called until it is there."""
    while not wait([digest], _ASK_EVERY).done:
        waits()
    return digest.result()


def _stamps(content: ModelContent) -> Stamps:
    """Of each file its bytes, inode, and when its content, and anything of it, was changed, in ns since 1970.

    A program may set the time of content, and no program the other. Which device it is on is not among them:
    a disk that is plugged in again often has another number.
    """
    stamps = list[tuple[int, int, int, int]]()
    for file in content.files:
        try:
            told = file.stat()
        except OSError as error:
            raise unreadable(file, error) from error
        stamps.append((told.st_size, told.st_ino, told.st_mtime_ns, told.st_ctime_ns))
    return tuple(stamps)


def _key(content: ModelContent, stamps: Stamps) -> str:
    """What a fingerprint is kept under."""
    by_file = dict(zip(content.files, stamps, strict=True))
    laid = content.digest(lambda one: repr((one.begin, one.end, by_file[one.file])).encode())
    return hashlib.blake2b(repr((laid, stamps)).encode(), digest_size=16).hexdigest()


def _stored(file: Path) -> dict[str, str]:
    """What is kept in `file`; nothing where there is none, or it is damaged."""
    try:
        found: object = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    entries = cast("dict[str, object]", found)
    return {key: value for key, value in entries.items() if isinstance(value, str) and _is_one(value)}


def _is_one(text: str) -> bool:
    return len(text) == 32 and set(text) <= set("0123456789abcdef")
