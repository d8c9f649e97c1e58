"""Makes the working environment: system libraries, a Python 3.11–3.13 and exactly requirements.lock.

`make setup` runs it with whatever `python3` the machine has: standard library only, Python 3.8 is enough.
It does nothing when the environment is up to date.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Sequence

import linux_libraries
from pythons import SUITABLE, probe, required_version, suitable_python
from running import ROOT, SetupError, output_of, say
from uv_tool import TOOLS, find_uv, needs_venv_package, run_uv

VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements.lock"
STAMP = VENV / "mlxr-setup"
FETCHED_PYTHON = "3.12"
PYTHON_VARIABLE = "MLXR_PYTHON"
OWN_MODULES = ("linux_libraries", "pythons", "running", "setup", "uv_tool")
"""The set-up; the other files of this folder make the app, and change nothing in the environment."""


def main(argv: Sequence[str] | None = None) -> int:
    """Set up, or with --lock remake requirements.lock. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Make the working environment of this checkout.")
    parser.add_argument("--python", default=os.environ.get(PYTHON_VARIABLE) or None, help="the Python to use")
    parser.add_argument("--lock", action="store_true", help="remake requirements.lock from pyproject.toml")
    arguments = parser.parse_args(argv)
    try:
        if arguments.lock:
            remake_lock()
        elif not is_current(arguments.python):
            set_up_alone(arguments.python)
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def fingerprint() -> str:
    """A hash of everything that decides what the environment holds."""
    digest = hashlib.sha256(str(ROOT).encode())  # a moved checkout has to be installed again
    own = (Path(__file__).with_name(f"{name}.py") for name in OWN_MODULES)
    for path in (ROOT / "pyproject.toml", LOCK, *own):
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def version_text(python: str | Path) -> str:
    """The version of a suitable interpreter as "3.12". Raises SetupError for others."""
    return ".".join(map(str, required_version(python)))


def is_current(asked: str | None) -> bool:
    """Whether .venv was made from the files as they are now, by the Python asked for."""
    if not STAMP.is_file() or not VENV_PYTHON.exists():
        return False
    version, _, made_from = STAMP.read_text(encoding="utf-8").strip().partition(" ")
    return made_from == fingerprint() and (asked is None or version == version_text(asked))


def set_up_alone(asked: str | None) -> None:
    """Set up while no other set-up of this checkout runs."""
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not is_current(asked):  # the one we waited for may have done it
            set_up(asked)


def set_up(asked: str | None) -> None:
    """Everything from a bare machine to a working .venv."""
    check_machine()
    if asked is not None:
        required_version(asked)
    if sys.platform == "linux":
        supply_libraries()
    make_venv(asked)
    say("installing the locked packages")
    calm = () if sys.stderr.isatty() else ("--quiet",)  # progress bars are for people
    run_uv("pip", "sync", *calm, "--require-hashes", "--python", str(VENV), LOCK.name)
    # What builds our own package is in the lock, so this needs no network.
    own = ("--offline", "--no-deps", "--no-build-isolation", "--editable", ".")
    run_uv("pip", "install", "--quiet", "--python", str(VENV), *own, attempts=1)
    check_imports()
    version = version_text(VENV_PYTHON)
    STAMP.write_text(f"{version} {fingerprint()}\n", encoding="utf-8")
    say(f"ready, with Python {version} in .venv")


def check_machine() -> None:
    """Raises SetupError where no build of MLX exists."""
    machine = platform.machine()
    if sys.platform == "darwin":
        # An x86_64 Python also runs on Apple silicon: ask the hardware and the system, not the process.
        if output_of(["sysctl", "-n", "hw.optional.arm64"]) != "1":
            raise SetupError("this Mac has an Intel processor; MLXR needs Apple silicon (M1 or later)")
        release = output_of(["sw_vers", "-productVersion"]) or ""
        if release.split(".")[0].isdigit() and int(release.split(".")[0]) < 14:
            raise SetupError(f"this is macOS {release}; MLXR needs macOS 14 or later")
    elif sys.platform != "linux" or machine not in linux_libraries.OLDEST_GLIBC:
        raise SetupError(f"MLXR does not run on {sys.platform} {machine}; use Apple silicon, or 64-bit Linux")
    elif linux_libraries.glibc() < linux_libraries.OLDEST_GLIBC[machine]:
        needed = ".".join(map(str, linux_libraries.OLDEST_GLIBC[machine]))
        raise SetupError(
            f"MLXR needs glibc {needed}; use a newer system (Debian 12 has 2.36, Ubuntu 24.04 2.39)"
        )


def supply_libraries() -> None:
    """Install missing packages as root, or name them. Raises SetupError when needed ones stay missing."""
    missing = linux_libraries.missing_parts()
    if needs_venv_package():
        missing.append(linux_libraries.Missing("Python's venv module", "python3-venv", needed=True))
    if not missing:
        return
    remedy = linux_libraries.remedy(missing)
    if linux_libraries.can_install():
        packages = [part.package for part in missing]
        say(f"installing {' '.join(packages)}")
        linux_libraries.apt_update()
        if not linux_libraries.apt_install(packages):
            raise SetupError(f"apt-get failed for the reason above; when that is mended, {remedy}")
    elif any(part.needed for part in missing):
        raise SetupError(f"this machine lacks system libraries; {remedy}")
    else:
        say(f"note: without these MLXR runs slower, or cannot open a window; {remedy}")


def make_venv(asked: str | None) -> None:
    """Create .venv unless a suitable one exists. Raises SetupError when no Python can be found or fetched."""
    inside = probe(VENV_PYTHON)
    if inside in SUITABLE and (asked is None or inside == required_version(asked)):
        return
    python = shutil.which(asked) if asked else suitable_python() or fetched_python()
    if python is None:
        raise SetupError(
            "no Python 3.11, 3.12 or 3.13 is here and none could be fetched; install one "
            "and name it: make setup PYTHON=/path/to/python3.12"
        )
    if VENV.exists():
        shutil.rmtree(VENV)
    run_uv("venv", "--quiet", "--no-project", "--relocatable", "--python", python, str(VENV), attempts=1)


def fetched_python() -> str | None:
    """A Python that uv fetches; where it cannot, one of the system's packages (as root), else None."""
    say(f"no Python 3.11, 3.12 or 3.13 here: fetching {FETCHED_PYTHON}")
    try:
        run_uv("python", "install", FETCHED_PYTHON, attempts=1)  # uv tries again by itself
    except SetupError:
        if not linux_libraries.can_install():
            return None
        linux_libraries.apt_update()
        return suitable_python() if linux_libraries.apt_install_python(SUITABLE) else None
    return output_of([find_uv(), "python", "find", "--no-project", FETCHED_PYTHON])


def check_imports() -> None:
    """Raises SetupError when what was installed does not load on this machine."""
    command = [str(VENV_PYTHON), "-c", "import mlx.core, PySide6.QtWidgets"]
    result = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    if result.returncode != 0:
        reason = result.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise SetupError(f"what was installed does not load on this machine: {reason}")


def remake_lock() -> None:
    """Resolve pyproject.toml anew, for every supported Python and machine, and write requirements.lock."""
    run_uv(
        *("pip", "compile", "--quiet", "--universal", "--generate-hashes", "--upgrade", "--group", "dev"),
        *("--python-version", "3.11", "--no-emit-index-url", "--custom-compile-command", "make lock"),
        *("--output-file", LOCK.name, "pyproject.toml"),
    )


if __name__ == "__main__":
    sys.exit(main())
