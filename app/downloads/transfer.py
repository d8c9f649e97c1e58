"""Fetching one file: range by range into its part, summed up as it comes, and into the cache when right."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Protocol

from app.amounts import size as size_words
from app.downloads.connection import Answer, Connection, Source
from app.downloads.digest import Digest
from app.downloads.lanes import Crowded, Lanes
from app.downloads.part_file import PartFile
from app.downloads.retry import Attempts, Patience, PlanRefuted, Retry
from app.downloads.stop import Stop
from app.downloads.wanted import PlannedFile

PIECE = 8 << 30
"""Bytes of one request: what serves the Hub's files sends no more than 50 GB at once."""
SMALL_PIECE = 8 << 20
"""The same where a connection stalled: each piece gets a connection of its own."""


class Watch(Protocol):
    """Who follows a transfer; called from its thread."""

    def grew(self, name: str, count: int) -> None:
        """So many bytes more are on the disk; fewer when `count` is negative."""
        ...

    def retrying(self, name: str, why: str, seconds: float) -> None:
        """Something failed and is tried again."""
        ...

    def verifying(self, name: str) -> None:
        """What is on the disk is read."""
        ...


class Transfer:
    """One file on its way to `blob`, its final path in the cache."""

    def __init__(
        self,
        source: Source,
        file: PlannedFile,
        blob: Path,
        patience: Patience,
        lanes: Lanes,
        stop: Stop,
        watch: Watch,
    ) -> None:
        self._source = source
        self._file = file
        self._blob = blob
        self._patience = patience
        self._lanes = lanes
        self._stop = stop
        self._watch = watch
        self._digest = Digest(file.blob, file.size)
        self._stalls = 0

    def run(self) -> None:
        """Fetch what is missing, verify, and put the file into its place.

        Raises DownloadFailed, Stopped and OSError; what was fetched stays for the next time.
        """
        with closing(PartFile(self._blob)) as part:
            if part.length > self._file.size:
                self._cut(part, 0)
            unsure = part.safe if part.length > part.safe else None
            for is_last in (False, True):
                self._fill_and_sum(part)
                if not self._digest.matches() and unsure is not None:
                    # The machine may have stopped before the end of an earlier part reached the disk.
                    self._again(part, unsure, "bytes on the disk are wrong")
                    unsure = None
                    self._fill_and_sum(part)
                if self._digest.matches():
                    part.become_blob()
                    return
                if not is_last:
                    self._again(part, 0, "the checksum is wrong")
            self._cut(part, 0)
        raise PlanRefuted(
            f"{self._file.name} came twice with another checksum than the hub lists, and was thrown away; "
            "try later, or from another mirror"
        )

    def _again(self, part: PartFile, length: int, why: str) -> None:
        self._watch.retrying(self._file.name, f"{why}; fetched again from {size_words(length)}", 0.0)
        self._cut(part, length)

    def _cut(self, part: PartFile, length: int) -> None:
        self._watch.grew(self._file.name, min(0, length - min(part.length, self._file.size)))
        part.cut(length)

    def _fill_and_sum(self, part: PartFile) -> None:
        self._digest = Digest(self._file.blob, self._file.size)
        if part.length:
            with self._lanes.taken(self._stop):
                self._watch.verifying(self._file.name)
                for chunk in part.chunks():
                    self._stop.check()
                    self._digest.add(chunk)
        self._fill(part)

    def _fill(self, part: PartFile) -> None:
        attempts = Attempts(
            self._patience,
            self._stop,
            lambda why, seconds: self._watch.retrying(self._file.name, why, seconds),
        )
        furthest = part.length
        try:
            while part.length < self._file.size:
                try:
                    with self._lanes.taken(self._stop):
                        self._over_one_connection(part)
                except Crowded:
                    continue
                except Retry as retry:
                    self._stalls += retry.is_stall
                    attempts.failed(retry, progressed=part.length > furthest)
                    furthest = max(furthest, part.length)
        finally:
            if part.length > part.safe:
                part.sync()

    def _over_one_connection(self, part: PartFile) -> None:
        """Read until the file is whole; a single small piece where connections stall."""
        self._stop.check()
        is_small = self._stalls >= self._patience.stalls
        with (
            closing(Connection(self._source.hub, self._patience)) as connection,
            self._stop.waking(connection.interrupt),
        ):
            if is_small:
                self._piece(connection, part, SMALL_PIECE)
                return
            while part.length < self._file.size:
                self._piece(connection, part, PIECE)

    def _piece(self, connection: Connection, part: PartFile, longest: int) -> None:
        end = min(part.length + longest, self._file.size)
        with connection.read(self._source, part.length, end - 1, part.etag) as answer:
            self._check(answer)
            known = part.length - answer.start
            if known and not (answer.etag and answer.etag == part.etag):
                self._watch.retrying(self._file.name, "the server has another file now; it begins anew", 0.0)
                self._cut(part, 0)
                self._digest = Digest(self._file.blob, self._file.size)
                known = 0
            part.remember(answer.etag)
            self._take(_behind(answer.chunks, known), part)
        if part.length < end:
            raise Retry(f"the answer for {self._file.name} ended early")

    def _check(self, answer: Answer) -> None:
        """Raises Retry for an answer that cannot be the file: nothing that is there is given up for it."""
        if answer.is_page and answer.total != self._file.size:
            raise Retry(
                f"a web page came in place of {self._file.name}: this network may want you to sign in first"
            )
        if answer.total is not None and answer.total != self._file.size:
            raise Retry(
                f"{self._file.name} has {self._file.size:,} bytes in the hub's list, but {answer.total:,} "
                "where it is sent from",
                refutes=True,
            )

    def _take(self, chunks: Iterator[bytes], part: PartFile) -> None:
        pace = _Pace(self._patience)
        for chunk in chunks:
            self._stop.check()
            wanted = chunk[: self._file.size - part.length]
            part.append(wanted)
            self._digest.add(wanted)
            self._watch.grew(self._file.name, len(wanted))
            if part.length == self._file.size:
                return
            self._lanes.check()
            pace.check(len(chunk))


class _Pace:
    """Notices a connection that trickles."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._since = time.monotonic()
        self._bytes = 0

    def check(self, count: int) -> None:
        """`count` bytes came. Raises Retry when too few came for too long."""
        self._bytes += count
        now = time.monotonic()
        if now - self._since < self._patience.floor_seconds:
            return
        if self._bytes < self._patience.floor * (now - self._since):
            raise Retry("bytes only trickle in", is_stall=True)
        self._since, self._bytes = now, 0


def _behind(chunks: Iterator[bytes], known: int) -> Iterator[bytes]:
    """The chunks without their first `known` bytes."""
    for chunk in chunks:
        rest = chunk[known:]
        known = max(0, known - len(chunk))
        if rest:
            yield rest
