"""Fetching one file: range by range into its part, summed up as it comes, and into the cache when right."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Protocol

from app.amounts import size as size_words
from app.downloads.agreement import Agreement
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

    def came(self, name: str, count: int) -> None:
        """So many bytes came, and count as done."""
        ...

    def counted(self, name: str, count: int) -> None:
        """So many bytes more of what is on the disk count as done; fewer when `count` is negative."""
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
        self._begin(Digest(file.blob, file.size), 0)
        self._stalls = 0

    def run(self) -> None:
        """Fetch what is missing, verify, and put the file into its place.

        Raises DownloadFailed, Stopped and OSError; what was fetched stays for the next time.
        """
        with closing(PartFile(self._blob)) as part:
            self._at = min(part.length, self._file.size)
            if part.length > self._file.size:
                self._throw_away(part)
            # Behind its mark an earlier run was not done mending, or the machine stopped before its bytes
            # reached the disk: there a wrong one is likeliest.
            unsure = part.safe if part.length > part.safe else 0
            self._fill(part, part.length)
            for start in dict.fromkeys((unsure, 0)):
                if not self._digest.matches():
                    self._mend(part, start)
            if self._digest.matches():
                part.become_blob()
                return
            self._throw_away(part)
        raise PlanRefuted(
            f"{self._file.name} came twice with another checksum than the hub lists, and was thrown away; "
            "try later, or from another mirror"
        )

    def _throw_away(self, part: PartFile) -> None:
        self._watch.counted(self._file.name, -self._at)
        self._begin(Digest(self._file.blob, self._file.size), 0)
        part.clear()

    def _begin(self, digest: Digest, at: int) -> None:
        """`digest` covers the first `at` bytes; the next to come is the one behind them."""
        self._digest, self._at, self._agreement = digest, at, Agreement()

    def _mend(self, part: PartFile, start: int) -> None:
        """Fetch again from `start` on, replacing what is wrong, until the file is right or at its end."""
        where = f"from {size_words(start)} on" if start else "from the start"
        why = f"the checksum is wrong; it is fetched again {where}, until it is right"
        self._watch.retrying(self._file.name, why, 0.0)
        self._watch.counted(self._file.name, start - self._at)
        part.distrust(start)
        self._fill(part, start)

    def _fill(self, part: PartFile, start: int) -> None:
        """Fetch from `start` on, and sum up everything."""
        self._begin(self._extended(Digest(self._file.blob, self._file.size), part, 0, start), start)
        furthest = start
        attempts = Attempts(
            self._patience,
            self._stop,
            lambda why, seconds: self._watch.retrying(self._file.name, why, seconds),
        )
        try:
            while self._at < self._file.size:
                try:
                    with self._lanes.taken(self._stop):
                        self._over_one_connection(part)
                except Crowded:
                    continue
                except Retry as retry:
                    self._stalls += retry.is_stall
                    attempts.failed(retry, progressed=self._at > furthest)
                    furthest = max(furthest, self._at)
                if self._agreement.is_due:
                    self._look_whether_mended(part)
        finally:
            if self._at > part.safe:
                part.sync(self._at)

    def _look_whether_mended(self, part: PartFile) -> None:
        """Sum up the rest from the disk; what is right need not come."""
        digest = self._extended(self._digest.copy(), part, self._at, self._file.size)
        if not digest.matches():
            self._agreement.was_in_vain()
            return
        self._watch.counted(self._file.name, self._file.size - self._at)
        self._at, self._digest = self._file.size, digest

    def _extended(self, digest: Digest, part: PartFile, start: int, stop: int) -> Digest:
        if start < stop:
            with self._lanes.taken(self._stop):
                self._watch.verifying(self._file.name)
                for chunk in part.chunks(start, stop):
                    self._stop.check()
                    digest.add(chunk)
        return digest

    def _over_one_connection(self, part: PartFile) -> None:
        """Read until the file is whole or may be mended; a single small piece where connections stall."""
        self._stop.check()
        is_small = self._stalls >= self._patience.stalls
        with (
            closing(Connection(self._source.hub, self._patience)) as connection,
            self._stop.waking(connection.interrupt),
        ):
            if is_small:
                self._piece(connection, part, SMALL_PIECE)
                return
            while self._at < self._file.size and not self._agreement.is_due:
                self._piece(connection, part, PIECE)

    def _piece(self, connection: Connection, part: PartFile, longest: int) -> None:
        end = min(self._at + longest, self._file.size)
        with connection.read(self._source, self._at, end - 1, part.etag if self._at else "") as answer:
            self._check(answer)
            known = self._at - answer.start
            if known and not (answer.etag and answer.etag == part.etag):
                self._watch.retrying(self._file.name, "the server has another file now; it begins anew", 0.0)
                self._throw_away(part)
                known = 0
            part.remember(answer.etag)
            self._take(_behind(answer.chunks, known), part)
        if self._at < end and not self._agreement.is_due:
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
            wanted = chunk[: self._file.size - self._at]
            differed = part.put(self._at, wanted)
            self._at += len(wanted)
            self._digest.add(wanted)
            self._agreement.saw(len(wanted), differed=differed)
            self._watch.came(self._file.name, len(wanted))
            if self._at == self._file.size or self._agreement.is_due:
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
