"""What is wrong with an MLXR.app before it is signed: what would not start, or not on another Mac."""

from __future__ import annotations

import plistlib
from collections.abc import Iterator
from pathlib import Path
from xml.parsers.expat import ExpatError

from bundle_info import INFO
from machos import architectures

from app.bad_start import contents_problem

# Where MLX and Qt look: the shaders beside libmlx, the window system's plugin in the folder of its kind. And
# what must go along.
NEEDED = (
    "mlx/lib/libmlx.dylib",
    "mlx/lib/mlx.metallib",
    "plugins/platforms/libqcocoa.dylib",
    "licences/licences.json",
)

TOP_FOLDERS = {"MacOS", "Frameworks", "Resources", "Info.plist", "PkgInfo", "_CodeSignature"}


def problems(app: Path) -> list[str]:
    """One line for each thing that is wrong with the bundle `app`; none where all is well."""
    contents = app / "Contents"
    if not contents.is_dir():
        return [f"{app} is no bundle: it has no Contents folder"]
    files = list(_files(contents))
    return [
        *_plist_problems(contents / "Info.plist"),
        *(
            f"{path.name} does not belong in Contents"
            for path in contents.iterdir()
            if path.name not in TOP_FOLDERS
        ),
        *(
            f"{name} is missing"
            for name in NEEDED
            if not any(f"/{path}".endswith(f"/{name}") for path in files)
        ),
        *(_link_problems(app)),
        *(_processor_problems(contents, files)),
        *(_contents_problems(contents / "Frameworks")),
    ]


def _plist_problems(path: Path) -> Iterator[str]:
    try:
        info = plistlib.loads(path.read_bytes())
    except (OSError, ValueError, ExpatError) as error:
        yield f"Info.plist cannot be read: {error}"
        return
    for key, value in INFO.items():
        if info.get(key) != value:
            yield f"Info.plist: {key} is {info.get(key)!r}, not {value!r}"
    for part, folder in (("CFBundleExecutable", "MacOS"), ("CFBundleIconFile", "Resources")):
        if not (path.parent / folder / INFO[part]).is_file():
            yield f"{folder}/{INFO[part]} is missing"


def _link_problems(app: Path) -> Iterator[str]:
    inside = app.resolve()
    for path in app.rglob("*"):
        if path.is_symlink() and (not path.exists() or inside not in path.resolve().parents):
            yield f"{path.relative_to(app)} links to {path.readlink()}, which is not in the bundle"


def _processor_problems(contents: Path, files: list[Path]) -> Iterator[str]:
    for path in files:
        found = architectures(contents / path)
        if found and "arm64" not in found:
            yield f"{path} is for {', '.join(found)} alone"


def _contents_problems(folder: Path) -> Iterator[str]:
    """What the app would say of itself when it starts: PyInstaller links its data into this folder."""
    problem = contents_problem(folder)
    if problem is not None:
        yield str(problem)


def _files(folder: Path) -> Iterator[Path]:
    """Every file under `folder`, links to files too, relative to it."""
    return (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
