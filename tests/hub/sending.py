"""How a file's bytes go out: ranges as HTTP has them, and what faults make of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import format_datetime

from tests.hub.faults import Fault, Faults
from tests.hub.messages import Content, Request
from tests.hub.repos import LONG_AGO, HubFile

PIECE = 1 << 16
LAST_MODIFIED = format_datetime(LONG_AGO, usegmt=True)
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")

Corrupt = Callable[[Content], HubFile]


class Cut(Exception):
    """The connection is to end here."""


@dataclass(slots=True)
class Plan:
    """The head of an answer with a file's bytes [start, stop), and the faults on the way."""

    status: int
    headers: dict[str, str]
    file: HubFile
    start: int
    stop: int
    faults: list[Fault]


def plan(request: Request, content: Content, faults: Faults, corrupt: Corrupt) -> Plan:
    """Decide status, headers and range; faults that change the head happen here."""
    file = content.file
    span = _asked(request, file)
    start, stop = span or (0, file.true_size)
    taken = faults.take_body(request.path, content.path, start, stop) if request.method == "GET" else []
    for fault in taken:
        if fault.kind == "change_etag" and fault.at == 0:
            file = corrupt(content)
            span = _asked(request, file)
        elif fault.kind == "ignore_range":
            span = None
        else:
            continue
        faults.note(fault)
    if span is not None and span[0] >= file.true_size:
        return Plan(416, {"Content-Range": f"bytes */{file.true_size}"}, file, 0, 0, [])
    start, stop = span or (0, file.true_size)
    for fault in taken:
        if fault.kind == "short_length":
            stop = max(start, min(stop, fault.at))
            faults.note(fault)
    return Plan(
        206 if span else 200, _headers(file, content.path, span, start, stop), file, start, stop, taken
    )


def pieces(planned: Plan, content: Content, faults: Faults, corrupt: Corrupt) -> Iterator[bytes]:
    """The bytes, as the faults let them through.

    Raises:
        Cut: where a fault ends the connection.
    """
    file, at = planned.file, planned.start
    due = sorted(
        (f for f in planned.faults if f.kind in ("cut", "stall", "change_etag") and f.at), key=lambda f: f.at
    )
    due = [f for f in planned.faults if f.kind in ("cut", "stall") and not f.at] + due
    slow = next((fault for fault in planned.faults if fault.kind == "slow"), None)
    if slow is not None:
        faults.note(slow)
    step = PIECE if slow is None else max(1, slow.rate // slow.pieces)
    while at < planned.stop:
        while due and due[0].at <= at:
            file = _happen(due.pop(0), file, content, faults, corrupt)
        end = min(at + step, planned.stop, *(fault.at for fault in due[:1]))
        yield _spoiled(file.read(at, end), at, planned.faults, faults)
        at = end
        if slow is not None:
            time.sleep(1 / slow.pieces)


def _happen(fault: Fault, file: HubFile, content: Content, faults: Faults, corrupt: Corrupt) -> HubFile:
    faults.note(fault)
    if fault.kind == "cut":
        raise Cut
    if fault.kind == "stall":
        faults.stall(fault)
        return file
    return corrupt(content)


def _spoiled(data: bytes, at: int, planned: list[Fault], faults: Faults) -> bytes:
    for fault in planned:
        if fault.kind == "wrong_byte" and at <= fault.at < at + len(data):
            i = fault.at - at
            data = data[:i] + bytes([data[i] ^ 0xFF]) + data[i + 1 :]
            faults.note(fault)
    return data


def _asked(request: Request, file: HubFile) -> tuple[int, int] | None:
    """The range [start, stop) asked for; None: all of it. One past the end starts at or after it."""
    match = _RANGE.fullmatch(request.headers.get("range", ""))
    if match is None or request.method != "GET" or not any(match.groups()):
        return None
    if request.headers.get("if-range", LAST_MODIFIED) not in (LAST_MODIFIED, f'"{file.cdn_etag}"'):
        return None
    first, last = match.groups()
    if not first:
        return max(0, file.true_size - int(last)), file.true_size
    return int(first), min(int(last) + 1, file.true_size) if last else file.true_size


def _headers(file: HubFile, path: str, span: tuple[int, int] | None, start: int, stop: int) -> dict[str, str]:
    name = path.rsplit("/", 1)[-1]
    size = stop - start if file.listed_size is None or span else file.listed_size
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Disposition": f"inline; filename*=UTF-8''{name}; filename=\"{name}\";",
        "Content-Length": str(size),
        "Content-Type": "application/octet-stream" if file.lfs else "text/plain; charset=utf-8",
        "ETag": f'"{file.cdn_etag}"',
        "Last-Modified": LAST_MODIFIED,
    }
    if span is not None:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.true_size}"
    return headers
