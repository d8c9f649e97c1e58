"""The Python packages that MLXR needs to run, and the licences that they bring with them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from app.about.parts import Part
from app.errors import AppError

OWN = "mlxr"
TEXTS = Path(__file__).resolve().parents[2] / "resources" / "licences"
"""Texts of licences that some packages name and do not bring."""

QT_NOTE = (
    "Qt and its Python bindings are used under the GNU Lesser General Public License, version 3, as they "
    "are: MLXR changes nothing in them. Their sources are at "
    "https://download.qt.io/official_releases/QtForPython/ and https://download.qt.io/official_releases/qt/. "
    "They are libraries of their own in the app's folders PySide6 and shiboken6: builds of yours of the same "
    "version may take their place (on a Mac, sign the app anew afterwards: "
    "codesign --force --deep --sign - MLXR.app). The licences of what Qt itself contains are at "
    "https://doc.qt.io/qt-6/licenses-used-in-qt.html."
)
LGPL = ("LGPL-3.0", ("LGPL-3.0.txt", "GPL-3.0.txt"), QT_NOTE)  # the first adds to the second
APACHE = ("Apache-2.0", ("Apache-2.0.txt",), "")
NOT_WHOLE = {
    "certifi": ("MPL-2.0", ("MPL-2.0.txt",), "Its source is at https://pypi.org/project/certifi/."),
    "pyside6-essentials": LGPL,
    "sentencepiece": APACHE,
    "shiboken6": LGPL,
    "tokenizers": APACHE,
    "tqdm": ("MPL-2.0 AND MIT", ("MPL-2.0.txt",), "Its source is at https://pypi.org/project/tqdm/."),
}
"""Licence, files of TEXTS and a note of packages that name a licence without bringing its whole text."""

_LICENCE_FILE = re.compile(
    r"(UN)?LICEN[CS]E|COPYING|NOTICE|COPYRIGHT|AUTHORS|.*[-_]LICEN[CS]E\b", re.IGNORECASE
)
_CODE = {".py", ".pyc", ".pyi", ".so", ".h"}
_LONGEST_NAME = 80


def runtime_distributions() -> set[str]:
    """The names of what MLXR needs to run, and of what that needs in turn, on this system and Python."""
    found: set[tuple[str, str]] = set()
    left = [(OWN, "")]
    while left:
        one = left.pop()
        if one in found:
            continue
        found.add(one)
        for line in metadata.requires(one[0]) or []:
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": one[1]}):
                left += [(canonicalize_name(wanted.name), extra) for extra in ("", *wanted.extras)]
    return {name for name, _ in found}


def installed_parts() -> list[Part]:
    """MLXR itself, Python, and each package that MLXR needs to run, in the order of their names.

    Raises AppError that names every one of them without the text of a licence.
    """
    others = sorted(runtime_distributions() - {OWN})
    parts = [part_of(metadata.distribution(name)) for name in (OWN, *others)]
    return complete([parts[0], python_part(), *parts[1:]])


def complete(parts: Sequence[Part]) -> list[Part]:
    """The parts, when each has a text. Raises AppError that names those without."""
    lacking = [part.name for part in parts if not part.text.strip()]
    if lacking:
        raise AppError(
            f"no text of a licence is known of {', '.join(lacking)}; put it into resources/{TEXTS.name}, and "
            f"name it in NOT_WHOLE of app/about/{Path(__file__).name}"
        )
    return list(parts)


def part_of(distribution: metadata.Distribution) -> Part:
    """An installed package with the text of its licence, "" where it brings none and none is known."""
    fields = distribution.metadata  # read anew each time it is asked for
    name = str(fields["Name"])
    shown = "MLXR" if name == OWN else name
    texts = list(_texts(distribution))
    licence, note = _licence(fields), ""
    if canonicalize_name(name) in NOT_WHOLE:
        licence, files, note = NOT_WHOLE[canonicalize_name(name)]
        texts += [(TEXTS / file).read_text("utf-8") for file in files]
    return Part(shown, str(fields["Version"]), licence, "\n\n".join(texts), note)


def python_part() -> Part:
    """Python itself, with the text that `license()` of its prompt shows."""
    version = ".".join(map(str, sys.version_info[:3]))
    library = Path(sys.modules["os"].__file__ or "").parent  # Python's own way to it: site.setcopyright
    debian = Path(f"/usr/share/doc/python{sys.version_info[0]}.{sys.version_info[1]}/copyright")
    candidates = (library / "LICENSE.txt", library.parent / "LICENSE.txt", library.parent / "LICENSE", debian)
    text = next((path.read_text("utf-8") for path in candidates if path.is_file()), "")
    return Part("Python", version, "PSF-2.0", text)


def _texts(distribution: metadata.Distribution) -> Iterator[str]:
    """Each text of a licence or notice that the package brings, under the path that tells what it is of."""
    found = {
        _told(file): Path(str(distribution.locate_file(file)))
        for file in distribution.files or []
        if _is_licence(file)
    }
    for told, path in sorted(found.items(), key=lambda item: (item[0].count("/"), item[0])):
        text = path.read_text("utf-8", errors="replace").strip()
        yield f"{told}\n{'-' * len(told)}\n\n{text}" if len(found) > 1 else text


def _told(file: metadata.PackagePath) -> str:
    parts = file.parts
    inside = parts[1:] if parts[0].endswith(".dist-info") else parts
    return "/".join(inside[1:] if inside[0] == "licenses" and len(inside) > 1 else inside)


def _is_licence(path: PurePosixPath) -> bool:
    return bool(_LICENCE_FILE.match(path.name)) and path.suffix.lower() not in _CODE


def _licence(fields: metadata.PackageMetadata) -> str:
    """The licence in a few words, as the package names it; "" where it does not."""
    for name in ("License-Expression", "License"):
        words = "".join(map(str, fields.get_all(name) or [])).strip()
        if words and "\n" not in words and len(words) <= _LONGEST_NAME:
            return words
    classifiers = [str(one) for one in fields.get_all("Classifier") or []]
    named = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License :: ")]
    return " AND ".join(named)
