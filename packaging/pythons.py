"""Which Python interpreters this machine has, and which of them MLXR can run on."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Iterator

from running import SetupError, output_of

SUITABLE = ((3, 13), (3, 12), (3, 11))

# Prints the version, and what decides whether the locked wheels fit.
PROBE = """
import platform, sys, sysconfig
free_threaded = sysconfig.get_config_var("Py_GIL_DISABLED") or 0
print(*sys.version_info[:2], sys.implementation.name, platform.machine(), free_threaded)
"""


def probe(python: str | Path) -> tuple[int, int] | None:
    """The version of an interpreter that runs and that the locked wheels fit, else None."""
    words = (output_of([str(python), "-c", PROBE]) or "").split()
    if len(words) != 5:
        return None
    major, minor, implementation, machine, free_threaded = words
    fits = implementation == "cpython" and free_threaded == "0"
    if sys.platform == "darwin":  # an x86_64 Python runs under Rosetta, and has no MLX
        fits = fits and machine == "arm64"
    return (int(major), int(minor)) if fits else None


def required_version(python: str | Path) -> tuple[int, int]:
    """The version of an interpreter somebody named. Raises SetupError unless MLXR runs on it."""
    version = probe(python)
    if version is None or version not in SUITABLE:
        raise SetupError(f"{python} is not a Python 3.11, 3.12 or 3.13 that runs here; name another, or none")
    return version


def candidates() -> Iterator[str]:
    """Interpreters to try: the default one, those on PATH, Homebrew's, python.org's, pyenv's."""
    yield "python3"
    for major, minor in SUITABLE:
        name = f"python{major}.{minor}"
        yield name
        yield f"/opt/homebrew/bin/{name}"
        yield f"/Library/Frameworks/Python.framework/Versions/{major}.{minor}/bin/{name}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser()
    for major, minor in SUITABLE:
        yield from (str(path) for path in sorted(pyenv.glob(f"versions/{major}.{minor}.*/bin/python")))


def suitable_python() -> str | None:
    """The path of the first candidate that MLXR runs on."""
    return next((shutil.which(python) for python in candidates() if probe(python) in SUITABLE), None)


def venv_maker() -> str | None:
    """A Python of any version that can make virtual environments with pip; Debian's plain one cannot."""
    found = (shutil.which(python) for python in (sys.executable, *candidates()))
    return next(
        (path for path in found if path and output_of([path, "-c", "import ensurepip, venv"]) is not None),
        None,
    )
