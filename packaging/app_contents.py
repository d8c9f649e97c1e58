"""What goes into the frozen app, and what stays out. `mlxr.spec` reads it."""

from __future__ import annotations

import ctypes
import os
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Callable, Iterable

from linux_libraries import SPEED_LIBRARIES
from packaging.utils import canonicalize_name
from running import ROOT

from app.about.distributions import runtime_distributions

Entry = tuple[str, str, str]
"""PyInstaller's: the path inside the app, the path here, the kind."""

DATA_FILES = (
    "metal/**/*.metal",
    "metal/**/*.h",
    "metal/**/*.cpp",
    "CHANGELOG.md",
    "resources/guide/model/*",
    "resources/icons/**/*.svg",
    "resources/models/*.json",
    "resources/themes/*.qss",
)
# MLX's binary imports these by name; PyInstaller sees only imports that are written in Python.
HIDDEN_IMPORTS = ("mlx._reprlib_fix", "mlx.__array_api_info")
READ_METADATA = ("mlx",)  # its version is asked for while it runs
NEVER_USED = ("tkinter",)

# Each start would load inspect, multiprocessing and Qt's bindings for them. A file qt.conf tells Qt where its
# plugins lie, and not, as a variable would, the programs that MLXR starts; frozen_main.py knows
# multiprocessing's helper; sources and modules to be counted are not in the app.
STARTED_FOR_NOTHING = frozenset({
    "pyi_rth_cryptography_openssl",
    "pyi_rth_inspect",
    "pyi_rth_multiprocessing",
    "pyi_rth_pkgutil",
    "pyi_rth_pyside6",
})  # fmt: skip

MLX_BLAS = ("libblas", "liblapack")
_MLX_LIBRARIES = PurePosixPath("mlx_cpu.libs")

QT_MODULES = frozenset(
    {"QtCore", "QtGui", "QtSvg", "QtWidgets", "QtDBus"}
)  # the last one: for desktop themes
QT_PLUGINS = (
    "iconengines/libqsvgicon.so",
    "imageformats/libqjpeg.so",
    "imageformats/libqsvg.so",
    "imageformats/libqwebp.so",
    "platforminputcontexts/libcompose*",
    "platforminputcontexts/libibus*",
    "platforms/libqoffscreen.so",
    "platforms/libqwayland*",
    "platforms/libqxcb.so",
    "platformthemes/libqxdgdesktopportal.so",
    "wayland-decoration-client/*",
    "wayland-graphics-integration-client/libqt-plugin-wayland-egl.so",
    "wayland-shell-integration/libxdg-shell.so",
    "xcbglintegrations/*",
)
_PLUGINS = PurePosixPath("PySide6/Qt/plugins")
_TRANSLATIONS = PurePosixPath("PySide6/Qt/translations")  # of Qt's own words; the app's are English


def data_files() -> list[tuple[str, str]]:
    """Each file that the code reads beside itself, and the folder inside the app where it looks for it."""
    found = [path for pattern in DATA_FILES for path in sorted(ROOT.glob(pattern))]
    return [(str(path), str(path.parent.relative_to(ROOT))) for path in found]


def own_modules() -> list[str]:
    """Every module of ours that may run: some are imported by name only, as kernels' cases are."""
    paths = (
        path for package in ("app", "engine", "metal") for path in sorted((ROOT / package).rglob("*.py"))
    )
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)
    return [name.removesuffix(".__init__") for name in names]


def left_out() -> list[str]:
    """Modules that the app must not hold: tools of development, and parts of Qt that it does not use."""
    needed = runtime_distributions()
    tools = [
        module
        for module, owners in metadata.packages_distributions().items()
        if not any(canonicalize_name(owner) in needed for owner in owners)
    ]
    package = metadata.distribution("PySide6-Essentials").locate_file("PySide6")
    bindings = {path.name.partition(".")[0] for path in Path(str(package)).glob("Qt*.pyi")}
    unused = [f"PySide6.{name}" for name in sorted(bindings - QT_MODULES)]
    return [*NEVER_USED, *gnu_readline(), *tools, *unused]


def gnu_readline() -> list[str]:
    """Python's module for editing a line, where it holds GNU's library: an app with that is under the GPL.

    The chat in the terminal does without it, as with a Python that has none; with libedit it keeps it.
    """
    try:
        import readline
    except ImportError:
        return []
    return [] if "libedit" in (readline.__doc__ or "") else ["readline"]


def openblas() -> tuple[str, str]:
    """The system's OpenBLAS and where it lies in the app. Raises OSError where there is none."""
    (name,) = SPEED_LIBRARIES
    ctypes.CDLL(name)
    loaded = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    path = next(Path(line.split()[-1]) for line in loaded if "/libopenblas" in line)
    return str(path.with_name(name)), "."


def started(scripts: Iterable[Entry]) -> list[Entry]:
    """The scripts that run at each start: without what PyInstaller puts before the program in vain."""
    return [entry for entry in scripts if entry[0] not in STARTED_FOR_NOTHING]


def with_one_blas(entries: Iterable[Entry]) -> list[Entry]:
    """MLX's BLAS and LAPACK, which OpenBLAS replaces as soon as it is loaded, become links to OpenBLAS.

    It defines every name of theirs that MLX uses. What is in their folder only for them goes.
    """
    (library,) = SPEED_LIBRARIES
    found: list[Entry] = []
    for entry in entries:
        path = PurePosixPath(entry[0])
        if PurePosixPath(_target(entry)).parent != _MLX_LIBRARIES:
            found.append(entry)
        elif path.name.partition("-")[0] in MLX_BLAS:
            found.append((entry[0], os.path.relpath(library, path.parent), "SYMLINK"))
    return found


def wanted(
    entries: Iterable[Entry], libraries_of: Callable[[str], Iterable[tuple[str, str | None]]]
) -> list[Entry]:
    """Without Qt's words and plugins that the app does not use, and the libraries that only those need.

    `libraries_of` gives the name and path of each library that the binary at a path is linked to.
    """
    kept = [entry for entry in entries if _is_used(PurePosixPath(entry[0]))]
    files = [entry for entry in kept if entry[2] != "SYMLINK"]
    by_name: dict[str, list[Entry]] = {}
    for entry in files:
        by_name.setdefault(PurePosixPath(entry[0]).name, []).append(entry)
    reached: set[str] = set()
    left = [entry for entry in files if not _is_shared(entry)]
    while left:
        name, path, kind = left.pop()
        if name not in reached:
            reached.add(name)
            linked = libraries_of(path) if kind in ("BINARY", "EXTENSION") else ()
            left += [found for library, _ in linked for found in by_name.get(library, [])]
    return [entry for entry in kept if _target(entry) in reached]


def _target(entry: Entry) -> str:
    """Where the file of an entry lies in the app: a link's second field is its target, from where it lies."""
    name, source, kind = entry
    return os.path.normpath(PurePosixPath(name).parent / source) if kind == "SYMLINK" else name


def _is_used(path: PurePosixPath) -> bool:
    if _PLUGINS in path.parents:
        return any(path.relative_to(_PLUGINS).match(one) for one in QT_PLUGINS)
    return _TRANSLATIONS not in path.parents


def _is_shared(entry: Entry) -> bool:
    """Whether it is there only for what is linked to it: a library of the system or of Qt."""
    path, kind = PurePosixPath(entry[0]), entry[2]
    is_system = len(path.parts) == 1 and not path.name.startswith(("libpython", *SPEED_LIBRARIES))
    return kind == "BINARY" and (is_system or path.parent == PurePosixPath("PySide6/Qt/lib"))
