"""The list of files that MLXR reads beside its code, put into the frozen app: by it a damaged one is known.

Programs and libraries are not in it: signing and stripping change them, and one that is missing says so
itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Iterable

from running import ROOT

from app.bad_start import CONTENTS

Entry = tuple[str, str, str]
"""PyInstaller's: the path inside the app, the path here, the kind."""

LISTED = ("metal/", "resources/")
SHADERS = ".metallib"
OUT = ROOT / "build" / "freezing"


def contents_entry(entries: Iterable[Entry], out: Path = OUT) -> Entry:
    """Write the list of what `entries` put into the app to the folder `out`; returns its own entry."""
    sizes = {
        name: Path(path).stat().st_size
        for name, path, kind in entries
        if kind == "DATA" and (name.startswith(LISTED) or name.endswith(SHADERS))
    }
    out.mkdir(parents=True, exist_ok=True)
    path = out / CONTENTS
    path.write_text(json.dumps(sizes, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    return CONTENTS, str(path), "DATA"
