"""Models in the Hugging Face cache, each revision on its own.

The layout is the one that the hub client documents ("Understand caching"): `models--OWNER--NAME` holds
`refs/`, of which each file has a commit in it, `blobs/`, and `snapshots/COMMIT/` with links to blobs.
Files that are still coming have names of their own in `blobs/` and no link.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from app.library.names import file_title
from app.library.records import Candidate, Found
from app.library.stamp import bytes_of
from app.library.tree import Place, is_text, walk_tree

_PREFIX = "models--"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_PICKLED = frozenset((".bin", ".pt", ".pth", ".ckpt", ".pkl"))
_LEAST_TOLD = 1_000_000
"""Bytes from which on a repository without a model is worth a word."""


def cache_folder() -> Path:
    """The cache's folder, as HF_HOME and HF_HUB_CACHE say; it need not be there."""
    # Imported here: the client takes a moment, and not every start needs it.
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def find_in_cache(cache: Path) -> Found:
    """The models of every repository in `cache`: of the main revision first, then of others, newest first."""
    cache = Path(os.path.realpath(cache))
    try:
        with os.scandir(cache) as entries:
            names = sorted(entry.name for entry in entries)
    except FileNotFoundError:
        return Found()
    except OSError:
        return Found(unread=(cache,))
    candidates: list[Candidate] = []
    unread: list[Path] = []
    for name in names:
        if not name.startswith(_PREFIX) or not is_text(name):
            continue
        try:
            snapshots = _snapshots(cache / name)
        except OSError:
            unread.append(cache / name)
            continue
        walks = [(snapshot, walk_tree(snapshot)) for snapshot in snapshots]
        closed = [folder for _, walk in walks for folder in walk.unread]
        repository = _repository(name)
        found = [_candidate(repository, snapshot, place) for snapshot, walk in walks for place in walk.places]
        if not found and not closed:
            found = _without_model(repository, cache / name)
        candidates += found
        unread += closed
    return Found(tuple(candidates), tuple(unread))


def repository_at(path: Path, cache: Path) -> str:
    """The repository whose folder in `cache` holds `path` or is it, "" where none does."""
    if path == cache or not path.is_relative_to(cache):
        return ""
    name = path.relative_to(cache).parts[0]
    return _repository(name) if name.startswith(_PREFIX) else ""


def _repository(folder_name: str) -> str:
    return folder_name.removeprefix(_PREFIX).replace("--", "/")


def _snapshots(repository: Path) -> Iterator[Path]:
    """Its revisions' folders, the main one first, then the newest. Raises OSError."""
    folder = repository / "snapshots"
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if _COMMIT.fullmatch(entry.name) and entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):  # nothing was downloaded yet, or it is no repository
        return iter(())
    main = _main(repository)
    found.sort(key=lambda entry: (entry.name != main, -entry.stat().st_mtime_ns, entry.name))
    return iter([folder / entry.name for entry in found])


def _main(repository: Path) -> str:
    try:
        return (repository / "refs" / "main").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def _without_model(repository: str, folder: Path) -> list[Candidate]:
    """What takes room and holds no model: as a candidate with a fault, so that people hear of it."""
    files = tuple(
        sorted(Path(within) / name for within, _, names in os.walk(folder / "snapshots") for name in names)
    )
    try:
        if bytes_of(file for file in files if file.exists()) < _LEAST_TOLD:
            return []
    except OSError:
        return []
    pickled = [file.name for file in files if file.suffix in _PICKLED]
    begin = ", ".join(file.name for file in files[:3])
    fault = f"{repository} holds no model that MLXR reads, but {begin}"
    if pickled:
        fault = f"{repository} holds pickled weights only, such as {pickled[0]}; MLXR opens none of these"
    owner, _, name = repository.rpartition("/")
    key = f"hf:{repository}"
    return [Candidate(key, key, folder, "hugging face", repository, name, owner, "", files, fault)]


def snapshot_around(path: Path) -> tuple[str, Path] | None:
    """The repository and the snapshot's folder where `path` is, or lies in, one of any cache of this form."""
    for folder in (path, *path.parents):
        repository = folder.parent.parent.name
        is_snapshot = folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name)
        if is_snapshot and repository.startswith(_PREFIX):
            return _repository(repository), folder
    return None


def title_in(repository: str, snapshot: Path, place: Place) -> str:
    """What the name of a model is made of that lies in a snapshot: its folder there says nothing."""
    name = repository.rpartition("/")[2]
    if place.path in place.files:
        return file_title(place.title, name)
    return name if place.path == snapshot else f"{name}-{place.title}"


def _candidate(repository: str, snapshot: Path, place: Place) -> Candidate:
    within = place.path.relative_to(snapshot).as_posix()
    key = f"hf:{repository}" + ("" if within == "." else f":{within}")
    return Candidate(
        key=key,
        spare_key=f"{key}@{snapshot.name}",
        path=place.path,
        source="hugging face",
        origin=repository,
        title=title_in(repository, snapshot, place),
        publisher=repository.rpartition("/")[0],
        revision=snapshot.name,
        files=place.files,
    )
