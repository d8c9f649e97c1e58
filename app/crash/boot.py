"""What tells this run of the machine from others, and whether the system ended programs in it for memory."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_VMSTAT = Path("/proc/vmstat")
_BOOT_SESSION = b"kern.bootsessionuuid"
"""Another one after each start of macOS: XNU, bsd/kern/kern_sysctl.c."""


def boot_id() -> str:
    """Other after each start of the machine; "" where the system does not tell."""
    if sys.platform == "darwin":
        return _mac_boot_id()
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def memory_kills(vmstat: Path = _VMSTAT) -> int | None:
    """How many programs Linux has ended for lack of memory since it started; None where it does not tell.

    macOS keeps that in reports which only administrators may read.
    """
    try:
        lines = vmstat.read_text("ascii").splitlines()
    except (OSError, ValueError):
        return None
    counted = [line.split()[1] for line in lines if line.startswith("oom_kill ")]
    return int(counted[0]) if counted else None


def _mac_boot_id() -> str:
    size = ctypes.c_size_t(64)
    found = ctypes.create_string_buffer(size.value)
    try:
        failed = ctypes.CDLL(None).sysctlbyname(
            _BOOT_SESSION, found, ctypes.byref(size), None, ctypes.c_size_t(0)
        )
    except (OSError, AttributeError):
        return ""
    return "" if failed else found.value.decode("ascii", "replace")
