"""The licences of all that is in the app, gathered while it is frozen: a part without one ends the build.

Python packages bring theirs with them. A library of the system is told by the package that it came with,
Debian's or Homebrew's. What is neither must be in KNOWN_LIBRARIES.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from running import ROOT

from app.about.distributions import TEXTS, complete, installed_parts, part_of, runtime_distributions
from app.about.parts import LIST, Part, write_parts
from app.errors import AppError

Entry = Tuple[str, str, str]
"""PyInstaller's: the path inside the app, the path here, the kind."""

FOLDER = ROOT / "build" / "freezing" / "licences"
INSIDE = "licences"
DOCUMENTS = Path("/usr/share/doc")
COMMON = Path("/usr/share/common-licenses")
FREEZERS = ("pyinstaller", "pyinstaller-hooks-contrib")  # what they bring starts our program

# What Python's own builds for Macs bring: the start of a library's name, whose it is, its licence, the text.
KNOWN_LIBRARIES: Mapping[str, Tuple[str, str, str]] = {
    "libcrypto": ("OpenSSL", "Apache-2.0", "Apache-2.0.txt"),
    "libssl": ("OpenSSL", "Apache-2.0", "Apache-2.0.txt"),
    "liblzma": ("XZ Utils", "0BSD", "XZ.txt"),
    "libncurses": ("ncurses", "X11", "ncurses.txt"),
    "libpanel": ("ncurses", "X11", "ncurses.txt"),
    "libsqlite3": ("SQLite", "public domain", "SQLite.txt"),
}

_LICENCE_FILE = re.compile(r"(UN)?LICEN[CS]E|COPYING|COPYRIGHT", re.IGNORECASE)
_COMMON_NAME = re.compile(re.escape(str(COMMON)) + r"/([A-Za-z]+(?:-[0-9.]*[0-9])?)")


def licence_entries(entries: Iterable[Entry]) -> List[Entry]:
    """The files that tell the licences of `entries` and of the program, made anew. Raises AppError."""
    parts = parts_of(entries)
    shutil.rmtree(FOLDER, ignore_errors=True)
    write_parts(parts, FOLDER)
    files = sorted(path for path in FOLDER.iterdir() if path.name != LIST)
    return [(f"{INSIDE}/{path.name}", str(path), "DATA") for path in (FOLDER / LIST, *files)]


def parts_of(entries: Iterable[Entry]) -> List[Part]:
    """The Python packages, what starts the program, and what the libraries among `entries` belong to.

    Raises AppError that names each part without the text of a licence.
    """
    packages = [*installed_parts(), *(part_of(metadata.distribution(name)) for name in FREEZERS)]
    inside, own = list(entries), _owned_files()
    known, unknown = system_parts(_strange_libraries(inside, own))
    unknown |= _strange_modules(inside, own)
    if unknown:
        raise AppError(
            f"nobody is known to have made {', '.join(sorted(unknown))}; leave it out of the app, or tell in "
            "KNOWN_LIBRARIES of packaging/licences.py whose it is, with its licence in resources/licences"
        )
    return complete([*packages, *known])


def system_parts(libraries: Iterable[Path]) -> Tuple[List[Part], Set[str]]:
    """The parts that libraries of the system belong to, and the names of those that nothing is known of."""
    wanted = sorted(set(libraries))
    parts: Dict[str, Part] = {}
    unknown: Set[str] = set()
    debian = _debian_packages(wanted)
    versions = _debian_versions(set(debian.values()))
    for library in wanted:
        if library in debian:
            part = _debian_part(debian[library], versions)
        else:
            part = _homebrew_part(library) or _known_part(library)
        if part is None:
            unknown.add(library.name)
        else:
            parts[part.name] = part
    named = {name for part in parts.values() for name in _COMMON_NAME.findall(part.text)}
    common = [_common_part(name) for name in sorted(named) if (COMMON / name).is_file()]
    return [*(parts[name] for name in sorted(parts)), *common], unknown


def _strange_modules(entries: Iterable[Entry], own: Set[Path]) -> Set[str]:
    """Installed Python modules that belong to no package that MLXR needs."""
    modules = {name: Path(source) for name, source, kind in entries if kind == "PYMODULE"}
    installed = {name: path for name, path in modules.items() if "site-packages" in path.parts}
    return {name for name, path in installed.items() if path not in own and path.resolve() not in own}


def _strange_libraries(entries: Iterable[Entry], own: Set[Path]) -> Iterator[Path]:
    """Libraries that belong neither to Python nor to a package that MLXR needs."""
    python = Path(sys.base_prefix).resolve()
    for name, source, kind in entries:
        path = Path(source)
        if kind not in ("BINARY", "EXTENSION") or path in own or path.resolve() in own:
            continue
        inside = python in path.resolve().parents
        if inside and (
            "lib-dynload" in path.parts or Path(name).name.lower().startswith(("libpython", "python"))
        ):
            continue
        yield path


def _owned_files() -> Set[Path]:
    """Every installed file of the packages in the app, as it is named and as it really lies."""
    found: Set[Path] = set()
    for name in {*runtime_distributions(), *FREEZERS}:
        distribution = metadata.distribution(name)
        folder = Path(str(distribution.locate_file("")))
        for root in {folder, folder.resolve()}:
            found |= {root / file for file in distribution.files or []}
    return found


def _debian_packages(libraries: Iterable[Path]) -> Dict[Path, str]:
    """The Debian package that each library came with, as "zlib1g:amd64"; the others are left out."""
    if shutil.which("dpkg-query") is None:
        return {}
    asked: Dict[str, Path] = {}
    for library in libraries:
        for path in (library, library.resolve()):
            asked[str(path)] = library
            if path.parts[1:2] == ("usr",):  # packages may still name /lib what is /usr/lib by now
                asked[str(Path("/", *path.parts[2:]))] = library
    found: Dict[Path, str] = {}
    for line in _output("dpkg-query", "--search", *asked).splitlines() if asked else []:
        package, _, path = line.partition(": ")
        if path in asked:
            found[asked[path]] = package.split(", ")[0]
    return found


def _debian_versions(packages: Set[str]) -> Dict[str, str]:
    shown = "${binary:Package} ${Version}\n"
    lines = _output("dpkg-query", "--show", f"--showformat={shown}", *packages) if packages else ""
    return {line.split()[0].partition(":")[0]: line.split()[1] for line in lines.splitlines()}


def _debian_part(package: str, versions: Mapping[str, str]) -> Part:
    """The package with its copyright file; without one, without a text."""
    name = package.partition(":")[0]
    file = DOCUMENTS / name / "copyright"
    text = file.read_text("utf-8", errors="replace") if file.is_file() else ""
    return Part(
        name, versions.get(name, ""), _debian_licence(text), text, "A package of Debian or of its kind."
    )


def _debian_licence(text: str) -> str:
    """The licence of most files, of a copyright file in Debian's form; "" for other forms.

    https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
    """
    files = re.search(r"^Files: ?\*$.*?^License: *([^\n]+)$", text, re.MULTILINE | re.DOTALL)
    return files[1].strip() if files else ""


def _homebrew_part(library: Path) -> Optional[Part]:
    """The keg that a library lies in, with the licence beside it; None elsewhere."""
    real = library.resolve()
    if "Cellar" not in real.parts:
        return None
    at = real.parts.index("Cellar")
    keg = Path(*real.parts[: at + 3])
    texts = [path for path in sorted(keg.iterdir()) if path.is_file() and _LICENCE_FILE.match(path.name)]
    text = "\n\n".join(path.read_text("utf-8", errors="replace") for path in texts)
    return Part(keg.parent.name, keg.name, "", text)


def _known_part(library: Path) -> Optional[Part]:
    for start, (name, licence, file) in KNOWN_LIBRARIES.items():
        if library.name.startswith(start):
            return Part(name, "", licence, (TEXTS / file).read_text("utf-8"))
    return None


def _common_part(name: str) -> Part:
    """A licence that other parts refer to by where Debian keeps it."""
    text = (COMMON / name).read_text("utf-8", errors="replace")
    return Part(f"Text of {name}", "", name, text, f"Other parts name it as {COMMON / name}.")


def _output(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout  # also where a part of the question has no answer
