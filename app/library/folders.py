"""Models in LM Studio's folders and in places that the user named: trees of model folders and GGUF files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from app.library.hugging_face import snapshot_around, title_in
from app.library.names import file_title
from app.library.records import Candidate, Found, Source
from app.library.tree import DEEPEST, MOST_FOLDERS, Place, place_at, walk_tree

_MOST_SETTINGS = 10_000_000


def lm_studio_folders(home: Path) -> list[Path]:
    """Where LM Studio keeps models: `models` in its home, or where its settings say.

    Its home is `~/.lmstudio`, or what the first line of `~/.lmstudio-home-pointer` names; versions before
    0.3.6 used `~/.cache/lm-studio`. Models lie there as PUBLISHER/MODEL/FILE (LM Studio's manual, "Import
    models"); another folder chosen in its window is `downloadsFolder` in `settings.json`.
    """
    homes = [home / ".lmstudio", home / ".cache" / "lm-studio"]
    with suppress(OSError, ValueError, IndexError):
        homes.insert(0, Path((home / ".lmstudio-home-pointer").read_text("utf-8").splitlines()[0].strip()))
    folders = [folder for one in homes for folder in (_chosen(one), one / "models") if folder]
    real = (Path(os.path.realpath(folder)) for folder in folders if folder.is_absolute())
    return list(dict.fromkeys(folder for folder in real if folder.is_dir()))


def _chosen(home: Path) -> Path | None:
    settings = home / "settings.json"
    try:
        if settings.stat().st_size > _MOST_SETTINGS:
            return None
        value = json.loads(settings.read_text("utf-8"))
        folder = value.get("downloadsFolder") if isinstance(value, dict) else None
    except (OSError, ValueError, RecursionError):
        return None
    return Path(folder) if isinstance(folder, str) and folder else None


def find_in_folder(root: Path, source: Source) -> Found:
    """What lies in the tree `root`. Where that is gone, nothing is found; where it is closed, it is said."""
    root = Path(os.path.realpath(root))
    if not root.is_dir():
        return Found()
    walk = walk_tree(root)
    notes = ()
    if walk.is_cut:
        notes = (
            f"{root} holds more than is looked through ({DEEPEST} levels, {MOST_FOLDERS:,} folders); "
            "import the folders with models in them one by one",
        )
    candidates = tuple(_candidate(place, root, source) for place in walk.places)
    return Found(candidates, walk.unread, notes)


def find_named(places: Iterable[Path]) -> Found:
    """What lies in the folders and files that the user named."""
    found = [_find_one(place) for place in places]
    return Found(
        tuple(candidate for one in found for candidate in one.candidates),
        tuple(path for one in found for path in one.unread),
        tuple(note for one in found for note in one.notes),
    )


def _find_one(path: Path) -> Found:
    if path.suffix.lower() != ".gguf" or path.is_dir():
        return find_in_folder(path, "folder")
    try:
        place = place_at(path)
    except FileNotFoundError:
        return Found()
    except OSError:
        return Found(unread=(path,))
    return Found((_candidate(place, path.parent, "folder"),) if place else ())


def _candidate(place: Place, root: Path, source: Source) -> Candidate:
    is_file = place.path in place.files
    folder = place.path.parent if is_file else place.path
    title = file_title(place.title, folder.name) if is_file else place.title
    publisher = folder.parent.name if folder != root and folder.parent != root else ""
    if (cached := snapshot_around(place.path)) is not None:
        title, publisher = title_in(*cached, place), cached[0].rpartition("/")[0]
    origin = str(root)
    if source == "lm studio" and folder != root:
        origin = folder.relative_to(root).as_posix()
    return Candidate(
        key=f"path:{place.path}",
        spare_key=f"path:{place.path}",
        path=place.path,
        source=source,
        origin=origin,
        title=title,
        publisher=publisher,
        revision="",
        files=place.files,
    )
