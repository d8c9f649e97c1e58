"""Asking for updates once: the request, the signature, and that an old list is not taken for a new one."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime

from app.updates.channel import Channel
from app.updates.envelope import opened
from app.updates.errors import CannotCheck, Offline, Refused
from app.updates.fetching import fetch
from app.updates.manifest import Manifest, decoded
from app.updates.memory import MemoryFile

OFFLINE_VARIABLE = "HF_HUB_OFFLINE"
"""Nothing is asked of any network where it is set; read as huggingface_hub reads it."""

CANNOT = "this build of MLXR cannot check for updates: no release key is built into it"
UNWRITABLE = "it cannot be noted that updates were asked for ({reason}); make room on the disk and try again"
OLDER = "the list of releases is older than one that was seen here before, so it is not taken"


def ask(channel: Channel, memory: MemoryFile, certificates: ssl.SSLContext | None = None) -> Manifest:
    """The list of releases, once it is found to be right; what it says is noted in `memory`.

    Raises UpdateError. A list is not taken, and nobody asked, where that cannot be noted.
    """
    if not channel.can_check:
        raise CannotCheck(CANNOT)
    if os.environ.get(OFFLINE_VARIABLE, "").upper() in ("1", "ON", "YES", "TRUE"):
        raise Offline(f"offline: {OFFLINE_VARIABLE} is set, so nothing is asked; unset it to check")
    try:
        return _ask(channel, memory, certificates)
    except OSError as error:
        raise CannotCheck(UNWRITABLE.format(reason=error.strerror or error)) from None


def _ask(channel: Channel, memory: MemoryFile, certificates: ssl.SSLContext | None) -> Manifest:
    before = memory.read()
    memory.note(asked=datetime.now(UTC))
    try:
        data = fetch(channel.manifest, certificates)
    except Offline:
        memory.note(asked=before.asked)  # nobody was asked: it may be tried again before the day is over
        raise
    manifest = decoded(opened(data, channel.keys))
    if before.seen is not None and manifest.date < before.seen:
        raise Refused(OLDER)
    memory.note(seen=manifest.date, newest=manifest.version)
    return manifest
