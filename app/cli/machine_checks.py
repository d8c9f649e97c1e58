"""Checks of the machine and of MLXR's own files, none of which needs the engine to work."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from app import VERSION
from app.amounts import size
from app.bad_start import contents_problem, frozen_folder, newer_data_problem
from app.cli.findings import Finding
from app.display import display_problem
from app.errors import ModelNotFound
from app.model_location import GUIDE_NAME, locate
from app.paths import HOME_VARIABLE, Paths
from app.settings import SettingsFile

LOW_SPACE = 1_000_000_000
OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)


def check_system() -> list[Finding]:
    """MLXR, the operating system, the chip, memory, Python."""
    area = "System"
    return [
        Finding(area, "MLXR", VERSION),
        _operating_system(area),
        Finding(area, "chip", f"{_chip()}, {os.cpu_count()} cores"),
        Finding(area, "memory", size(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))),
        _python(area),
    ]


def check_window() -> list[Finding]:
    """Whether Qt loads and a display answers."""
    area = "Window"
    try:
        from PySide6 import QtCore, QtWidgets  # noqa: F401  # pyright: ignore[reportUnusedImport] — loading is the check
    except ImportError as error:
        advice = "run `make setup`, which installs Qt and names the libraries of the system that it needs"
        return [Finding(area, "Qt", f"cannot be loaded ({error})", "broken", advice)]
    qt = Finding(area, "Qt", QtCore.qVersion())
    problem = display_problem()
    if problem:
        advice = "`mlxr chat` works without one"
        return [qt, Finding(area, "display", problem, "note", advice)]
    return [qt, Finding(area, "display", "a window can open")]


def check_files(paths: Paths) -> list[Finding]:
    """The data folder, the settings and the built-in guide."""
    return [
        *_app(),
        _data_folder(paths.home),
        _free_space(paths.home),
        *_disk_cache(paths.kv_cache),
        *_data(paths),
        _settings(paths),
        _guide(),
    ]


def _operating_system(area: str) -> Finding:
    machine = platform.machine()
    if sys.platform == "darwin":
        release = platform.mac_ver()[0]
        name = f"macOS {release}, {machine}"
        if machine != "arm64" or int(release.partition(".")[0] or 0) < 14:
            return Finding(area, "system", name, "broken", "MLXR needs macOS 14 or newer on Apple silicon")
        return Finding(area, "system", name)
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = platform.system()
    return Finding(area, "system", f"{name}, Linux {platform.release()}, {machine}")


def _chip() -> str:
    if sys.platform == "darwin":
        return _mac_chip()
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))]
    return names[0] if names else platform.machine()


def _mac_chip() -> str:
    """Such as "Apple M4"; Python itself only knows "arm"."""
    command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return platform.machine()


def _python(area: str) -> Finding:
    name = f"{platform.python_version()}, {sys.executable or 'inside the app'}"
    if OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON:
        return Finding(area, "Python", name)
    supported = " to ".join(".".join(map(str, version)) for version in (OLDEST_PYTHON, NEWEST_PYTHON))
    return Finding(area, "Python", name, "broken", f"MLXR runs on Python {supported}: run `make setup`")


def _data_folder(home: Path) -> Finding:
    """Try a file in the folder, or in the nearest one that exists above it; nothing is left behind."""
    area, what = "Files", "data folder"
    nearest = next(folder for folder in (home, *home.parents) if folder.exists())
    advice = (
        f"make it writable or set {HOME_VARIABLE} to another folder; until then chats stay in memory only"
    )
    if not nearest.is_dir():
        return Finding(area, what, f"{nearest} is not a folder", "broken", advice)
    try:
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"\0" * 4096)
    except OSError as error:
        return Finding(area, what, f"{home} cannot be written: {error.strerror}", "broken", advice)
    return Finding(area, what, f"{home}, writable" + ("" if nearest == home else " (not made yet)"))


def _disk_cache(folder: Path) -> list[Finding]:
    """Try a file in the folder; nothing is found where none was made yet."""
    if not os.path.lexists(folder):
        return []
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)
    except OSError as error:
        problem = f"{folder} cannot be written: {error.strerror}"
        advice = "move it away or make it writable; until then chats are read again after a restart"
        return [Finding("Files", "disk cache", problem, "note", advice)]
    return [Finding("Files", "disk cache", f"{folder}, writable")]


def _free_space(home: Path) -> Finding:
    nearest = next(folder for folder in (home, *home.parents) if folder.exists())
    free = shutil.disk_usage(nearest).free
    if free < LOW_SPACE:
        return Finding("Files", "free space", size(free), "note", "models need gigabytes: free some space")
    return Finding("Files", "free space", size(free))


def _app() -> list[Finding]:
    """The frozen app's own files, where this is one."""
    folder = frozen_folder()
    if folder is None:
        return []
    problem = contents_problem(folder)
    if problem is not None:
        return [Finding("Files", "app", problem.title, "broken", problem.words)]
    return [Finding("Files", "app", f"{folder}, whole")]


def _data(paths: Paths) -> list[Finding]:
    """Data that this MLXR cannot open: it is of a newer one."""
    problem = newer_data_problem(paths)
    return [Finding("Files", "data", problem.title, "broken", problem.words)] if problem else []


def _settings(paths: Paths) -> Finding:
    problem = SettingsFile(paths.settings).load().problem
    if problem:
        return Finding(
            "Files", "settings", problem, "broken", "choose your settings again; they are written anew"
        )
    return Finding(
        "Files", "settings", str(paths.settings) if paths.settings.exists() else "all at their defaults"
    )


def _guide() -> Finding:
    try:
        return Finding("Files", "guide", str(locate(GUIDE_NAME)))
    except ModelNotFound as error:
        return Finding("Files", "guide", str(error), "broken", "get MLXR again")
