"""Which system libraries MLXR needs on Linux, which of them are missing, and how to get them.

Standard library only, and Python 3.8 is enough: it runs before anything is installed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Sequence

# Debian's and Ubuntu's package for each library. Without these Qt cannot be imported.
QT_LIBRARIES: dict[str, str] = {
    "libGL.so.1": "libgl1",
    "libEGL.so.1": "libegl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
}

# Without these Qt cannot open a window, on X11 or on Wayland; the terminal and the tests do without them.
WINDOW_LIBRARIES: dict[str, str] = {
    "libX11-xcb.so.1": "libx11-xcb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
    "libwayland-egl.so.1": "libwayland-egl1",
}

# Without it MLX computes on its own slow BLAS: right, but many times slower.
SPEED_LIBRARIES: dict[str, str] = {"libopenblas.so.0": "libopenblas0-pthread"}

# What the wheels of MLX (x86_64) and Qt (aarch64) were built against.
OLDEST_GLIBC: dict[str, tuple[int, ...]] = {"x86_64": (2, 35), "aarch64": (2, 39)}

FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")


@dataclass(frozen=True)
class Missing:
    """What this machine lacks, the Debian package that brings it, and whether MLXR cannot run without."""

    what: str
    package: str
    needed: bool


def glibc() -> tuple[int, ...]:
    """The version of this system's GNU C library; () where the C library is another one."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except ValueError:
        return ()
    return tuple(int(part) for part in version.split(".")) if name == "glibc" else ()


def missing_parts() -> list[Missing]:
    """Everything that is absent, the needed parts first."""
    parts = [Missing(name, package, True) for name, package in QT_LIBRARIES.items() if not _loads(name)]
    if shutil.which("g++") is None:  # the command that MLX's mx.compile calls on a CPU
        parts.append(Missing("a C++ compiler (g++)", "g++", True))
    if not _has_font():
        parts.append(Missing("a font", "fonts-dejavu-core", True))
    optional = {**SPEED_LIBRARIES, **WINDOW_LIBRARIES}
    parts += [Missing(name, package, False) for name, package in optional.items() if not _loads(name)]
    return parts


def remedy(parts: Sequence[Missing]) -> str:
    """What a person does about `parts`: the exact command or, where there is no apt-get, the names."""
    if shutil.which("apt-get") is None:
        return f"install what provides {', '.join(part.what for part in parts)}"
    packages = " ".join(part.package for part in parts)
    return f"run: {'' if os.geteuid() == 0 else 'sudo '}apt-get install -y --no-install-recommends {packages}"


def can_install() -> bool:
    """Whether this process may install Debian packages by itself."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_update() -> None:
    """Fetch the package lists, as root. When that fails the lists that are there may still do."""
    _apt("update")


def apt_install(packages: Sequence[str]) -> bool:
    """Install Debian packages as root, after apt_update. Returns False when apt-get failed and said why."""
    return _apt("install", "-y", "--no-install-recommends", *packages)


def apt_install_python(versions: Iterable[tuple[int, int]]) -> bool:
    """Install the first of `versions` that the system has a package for, as root. Returns whether one was."""
    for major, minor in versions:
        package = f"python{major}.{minor}"
        known = subprocess.run(["apt-cache", "show", package], capture_output=True, check=False)
        if known.returncode == 0 and apt_install([package]):
            return True
    return False


def main() -> int:
    """Install what is missing, as root: for machines where `make setup` itself runs as somebody else."""
    missing = missing_parts()
    if not missing:
        return 0
    if not can_install():
        print(f"error: this needs root and apt-get; {remedy(missing)}", file=sys.stderr)
        return 1
    apt_update()
    return 0 if apt_install([part.package for part in missing]) else 1


def _apt(*arguments: str) -> bool:
    """Run apt-get without questions. Returns whether it succeeded."""
    command = ["apt-get", "-qq", "-o", "Acquire::Retries=3", "-o", "Dpkg::Use-Pty=0", *arguments]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode == 0


def _loads(name: str) -> bool:
    """Whether the dynamic loader finds library `name`."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _has_font() -> bool:
    """Whether any scalable font is installed; Qt draws empty boxes without one."""
    for folder in FONT_FOLDERS:
        for _, _, files in os.walk(Path(folder).expanduser()):
            if any(name.lower().endswith((".ttf", ".otf", ".ttc")) for name in files):
                return True
    return False


if __name__ == "__main__":
    sys.exit(main())
