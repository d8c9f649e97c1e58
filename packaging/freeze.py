"""`make app`: MLXR as a folder that needs no Python, the sizes of its parts, and an archive of it.

On Linux; on a Mac `make app` runs packaging/macos/app.spec. Both freeze what `make setup` made from the lock.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Sequence

from desktop_files import add_desktop_files
from icu_tables import IcuError, shorten
from running import ROOT
from size_report import MB, MOST, sizes, table
from stripping import StripError, strip_symbols

SPEC = Path(__file__).with_name("mlxr.spec")
OUT = ROOT / "build" / "app"
WORK = ROOT / "build" / "freezing"
QT_CONF = "[Paths]\nPrefix = lib/PySide6/Qt\n"
"""Where Qt's parts lie, from the program on: PySide6 would tell the whole path, which a comma ends."""


class FreezeError(Exception):
    """Why there is no app, in one line for a person."""


def main(argv: Sequence[str] | None = None) -> int:
    """Build the app. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Build the app that runs without Python.")
    parser.add_argument("--out", type=Path, default=OUT, help="where to put it (default: build/app)")
    parser.add_argument("--no-archive", action="store_true", help="only the folder")
    arguments = parser.parse_args(argv)
    try:
        app = freeze(arguments.out.absolute())
        report(app)
        if not arguments.no_archive:
            archive(app)
    except FreezeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def freeze(out: Path) -> Path:
    """Build the folder `out`/MLXR anew and return it. Raises FreezeError."""
    if sys.platform != "linux":
        raise FreezeError("this builds the folder for Linux; on a Mac make app builds MLXR.app")
    app = out / "MLXR"
    shutil.rmtree(app, ignore_errors=True)
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "ERROR"]
    command += ["--distpath", str(out), "--workpath", str(WORK), str(SPEC)]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise FreezeError("PyInstaller could not build the app, for the reason above")
    add_desktop_files(app)
    (app / "qt.conf").write_text(QT_CONF, encoding="ascii")
    try:
        strip_symbols(app / "lib")
        shorten(app / "lib" / "PySide6" / "Qt" / "lib")
    except (StripError, IcuError) as error:
        raise FreezeError(str(error)) from None
    return app


def report(app: Path) -> None:
    """Print what the app's parts take and write it, in bytes, beside the app as sizes.json.

    Raises FreezeError when that is more than it may be.
    """
    found = sizes(app)
    print(f"{app}\n{table(found)}")
    text = json.dumps({"total": sum(found.values()), "components": found}, indent=1)
    app.with_name("sizes.json").write_text(text + "\n", encoding="utf-8")
    _hold_to_budget("folder", sum(found.values()))


def archive(app: Path) -> Path:
    """Pack the app beside itself as a .tar.xz, and return that. Raises FreezeError when it is too large."""
    packed = app.with_name(f"{app.name}-{sys.platform}-{platform.machine()}.tar.xz")
    with tarfile.open(packed, "w:xz") as tar:
        tar.add(app, arcname=app.name, filter=_of_nobody)
    print(f"{packed}\n{packed.stat().st_size / MB:8.1f}  MB")
    _hold_to_budget("archive", packed.stat().st_size)
    return packed


def _hold_to_budget(what: str, size: int) -> None:
    if size > MOST[what] * MB:
        raise FreezeError(f"the {what} takes {size / MB:.1f} MB, more than {MOST[what]} (size_report.py)")


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Who built it is nobody's business."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    sys.exit(main())
