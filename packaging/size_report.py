"""How large the parts of the frozen app are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, Mapping

MB = 1_000_000
LARGEST = 20
MOST = {"folder": 300, "archive": 90}
"""What may be made for Linux at most, in MB: a dependency that grows is seen when it comes."""

LIBRARIES = "libraries of the system"
PROGRAM = "program and Python modules"


def sizes(app: Path) -> dict[str, int]:
    """Bytes of each component in the folder `app`, the largest first. A link counts nothing."""
    found: Dict[str, int] = {}
    for folder, _, names in os.walk(app):
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink():
                part = component(path.relative_to(app))
                found[part] = found.get(part, 0) + path.stat().st_size
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def component(path: Path) -> str:
    """The component that a file belongs to, by its path in the app."""
    parts = path.parts[1:] if path.parts[0] == "lib" else path.parts
    if len(parts) == 1:
        name = parts[0]
        if name == "mlxr" or name.endswith(".zip"):
            return PROGRAM
        if name.startswith(("libopenblas", "libpython")):
            return name.partition(".so")[0]
        return LIBRARIES
    if parts[:3] == ("PySide6", "Qt", "lib"):
        return "Qt: " + parts[3].partition(".so")[0]
    if parts[:3] == ("PySide6", "Qt", "plugins"):
        return "Qt: plugins"
    if parts[0] == "resources":
        return f"resources/{parts[1]}"
    name = parts[0].partition(".")[0]  # numpy and numpy.libs are one
    return "package metadata" if parts[0].endswith(".dist-info") else name


def table(found: Mapping[str, int]) -> str:
    """The largest components and the total, in MB of a million bytes."""
    total = sum(found.values())
    lines = [f"{size / MB:8.1f}  {name}" for name, size in list(found.items())[:LARGEST]]
    rest = total - sum(list(found.values())[:LARGEST])
    lines += [f"{rest / MB:8.1f}  {len(found) - LARGEST} others"] if len(found) > LARGEST else []
    return "\n".join(["      MB  component", *lines, f"{total / MB:8.1f}  total"])
