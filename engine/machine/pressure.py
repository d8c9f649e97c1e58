"""Whether the system is short of memory, asked of the system itself."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

_LITTLE = 0.05
"""Share of the machine's memory that Linux must have available."""

_WARNING = 2  # macOS: 1 is normal, 2 a warning, 4 critical (kern.memorystatus_vm_pressure_level)

_MEMINFO = Path("/proc/meminfo")


def is_short_of_memory(more: int = 0) -> bool:
    """True when macOS warns of memory pressure, or Linux has less than a twentieth available.

    Linux also when it would have, were `more` bytes in use; macOS does not tell.
    """
    return _mac_warns() if sys.platform == "darwin" else _linux_has_little(_MEMINFO, more)


def _mac_warns() -> bool:
    level, size = ctypes.c_int(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
    system = ctypes.CDLL(None)
    name = b"kern.memorystatus_vm_pressure_level"
    failed = system.sysctlbyname(name, ctypes.byref(level), ctypes.byref(size), None, ctypes.c_size_t(0))
    return not failed and level.value >= _WARNING


def _linux_has_little(meminfo: Path, more: int) -> bool:
    try:
        lines = meminfo.read_text("ascii").splitlines()
    except OSError:
        return False
    fields = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines) if rest}
    if "MemAvailable" not in fields:
        return False
    return fields["MemAvailable"] - more / 1024 < _LITTLE * fields.get("MemTotal", 0)
