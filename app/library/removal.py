"""Deleting a model: what would go and how much that frees, then doing it; never more than its own files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from huggingface_hub import (
    CachedRepoInfo,
    CachedRevisionInfo,
    DeleteCacheStrategy,
    HFCacheInfo,
    scan_cache_dir,
)

from app.downloads.cache_layout import CacheLayout
from app.downloads.part_file import ENDING
from app.downloads.repo_lock import repo_lock
from app.library.disk import entries, freed_by
from app.library.hugging_face import cache_folder
from app.library.library import Library
from app.library.look import model_files
from app.library.names import folded
from app.library.records import NOTHING_SET, Facts, LeftOut, LibraryError, Model

_OWN = frozenset(
    "config.json generation_config.json model.safetensors.index.json tokenizer.json tokenizer.model "
    "tokenizer_config.json special_tokens_map.json added_tokens.json vocab.json merges.txt "
    "chat_template.json chat_template.jinja README.md LICENSE LICENSE.md LICENSE.txt USE_POLICY.md "
    ".gitattributes".split()
)
"""Files beside the weights that come with a model in Hugging Face's form."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What removing a model does.

    Attributes:
        model: the one.
        deletes: files and folders that go; empty where it is only forgotten.
        freed: bytes that this gives back.
        kept: bytes of its files that stay, since others need them or since it is only forgotten.
        also_lost: names of other models that lose files with it.
        why_kept: in words, why its files stay; "" where they go.
        execute: deletes, and returns the bytes that it gave back. Raises LibraryError, and DownloadFailed
            while MLXR downloads into the same repository.
    """

    model: Model
    deletes: tuple[Path, ...]
    freed: int
    kept: int
    also_lost: tuple[str, ...]
    why_kept: str
    execute: Callable[[], int]


def plan_removal(model: Model, others: Sequence[Model], *, files: bool) -> Removal:
    """What removing `model` would do; nothing is changed yet.

    Args:
        model: to remove.
        others: all models of the library.
        files: delete the files of a model that the user imported, too.

    Raises LibraryError where it cannot be removed.
    """
    if model.source == "built in":
        raise LibraryError("the guide is a part of MLXR and stays")
    if model.state == "gone":
        return _forgetting(model, "its files are gone already")
    try:
        match model.source:
            case "hugging face":
                return _from_cache(model, others)
            case "lm studio" | "ollama":
                return _left_to_its_app(model, files)
            case _:
                if not files:
                    return _forgetting(model, "they were yours before; --files deletes them")
                return _own_files(model, others)
    except OSError as error:
        raise LibraryError(f"{error.filename or model.path} cannot be read: {error.strerror}") from None


def plan_leftover(left: LeftOut, others: Sequence[Model], waiting: Collection[str]) -> Removal:
    """What deleting something in the Hugging Face cache that is no model would do; nothing is changed yet.

    The repository goes whole where no model of the library lies in it.

    Args:
        left: what to delete.
        others: all models of the library.
        waiting: repositories that unfinished downloads are of.

    Raises LibraryError where it cannot be removed, and DownloadFailed where links lead out of the cache.
    """
    if not left.repository:
        raise LibraryError(f"{left.path} is not in the Hugging Face cache; delete it where it lies")
    for repo in waiting:
        if folded(repo) == folded(left.repository):  # in whatever case: a Mac's disk has one folder for both
            raise LibraryError(f"a download of {repo} waits; `mlxr pull {repo} --cancel` gives it up")
    model = _as_model(left)
    layout = CacheLayout(Path(os.path.realpath(cache_folder())), left.repository)
    if any(other.path.is_relative_to(layout.folder) for other in others if other.state != "gone"):
        return plan_removal(model, others, files=False)
    try:
        there = entries([layout.folder])
        whole = replace(model, name=left.repository, path=layout.folder)

        def delete() -> None:
            with repo_lock(layout.lock, left.repository):
                if entries([layout.folder]) != there:  # somebody was asked, and took his time
                    raise LibraryError(f"{left.repository} has changed meanwhile; nothing was deleted")
                shutil.rmtree(layout.folder)

        return _deleting(whole, others, (layout.folder,), delete)
    except OSError as error:
        raise LibraryError(f"{error.filename or left.path} cannot be read: {error.strerror}") from None


def _as_model(left: LeftOut) -> Model:
    """A model that is not whole, and has no name of its own."""
    return Model(
        key=f"left out:{left.path}",
        name=str(left.path),
        path=left.path,
        source="hugging face",
        origin=left.repository,
        revision="",
        state="damaged",
        favourite=False,
        last_used=None,
        settings=NOTHING_SET,
        facts=Facts(False, left.problem, size=left.size),
    )


def carry_out(removal: Removal, library: Library) -> int:
    """Do it, and have the library know; returns the bytes that were freed. Raises AppError."""
    if not removal.deletes:
        library.forget(removal.model)
        return 0
    freed = removal.execute()
    library.delete(removal.model)
    return freed


def _forgetting(model: Model, why: str) -> Removal:
    return Removal(model, (), 0, model.facts.size, (), why, lambda: 0)


def _left_to_its_app(model: Model, files: bool) -> Removal:
    app = "Ollama" if model.source == "ollama" else "LM Studio"
    advice = f"`ollama rm {model.origin}` deletes them" if model.source == "ollama" else "delete them there"
    if files:
        raise LibraryError(f"{model.name} belongs to {app}, which counts on its files: {advice}")
    return _forgetting(model, f"they belong to {app}; {advice}")


def _from_cache(model: Model, others: Sequence[Model]) -> Removal:
    """Through the hub client's own strategy: blobs that other revisions use stay."""
    cache = Path(os.path.realpath(cache_folder()))
    strategy, files = _cache_strategy(cache, model, others)
    deletes = (*strategy.repos, *strategy.snapshots, *strategy.files, *strategy.refs, *strategy.blobs)
    lock = CacheLayout(cache, model.origin).lock

    def delete() -> None:
        with repo_lock(lock, model.origin):  # or a download would lose what it has fetched
            now = _cache_strategy(cache, model, others)
            if now != (strategy, files):  # somebody was asked, and took his time
                raise LibraryError(f"{model.origin} has changed meanwhile; nothing was deleted: try again")
            strategy.execute()

    return _deleting(model, others, deletes, delete)


def _cache_strategy(
    cache: Path, model: Model, others: Sequence[Model]
) -> tuple[DeleteCacheStrategy, frozenset[Path]]:
    """What is to be deleted, and every file of the repository that it was derived from."""
    info, repository, revision = _cached(scan_cache_dir(cache), model)
    for file in revision.files:
        inside = (repository.repo_path / "blobs", revision.snapshot_path)
        if not any(file.blob_path.is_relative_to(folder) for folder in inside):
            raise LibraryError(
                f"{file.file_path} is a link out of the cache, to {file.blob_path}; nothing was deleted. "
                "Remove that link by hand first"
            )
    beside = [
        other
        for other in others
        if other.key != model.key and other.path.is_relative_to(revision.snapshot_path)
    ]
    if beside:
        own = set(model_files(model.path))
        strategy = info.delete_files(*(file for file in revision.files if file.file_path in own))
    elif _is_unfinished(repository.repo_path):
        strategy = info.delete_files(*revision.files)  # what is still coming needs the folder
    else:
        strategy = info.delete_revisions(revision.commit_hash)
    return strategy, frozenset(file.file_path for one in repository.revisions for file in one.files)


def _is_unfinished(repository: Path) -> bool:
    """Whether a download into it waits to be gone on with."""
    return any(blob.name.endswith((ENDING, ".incomplete")) for blob in (repository / "blobs").glob("*"))


def _cached(info: HFCacheInfo, model: Model) -> tuple[HFCacheInfo, CachedRepoInfo, CachedRevisionInfo]:
    """The cache with the model's repository alone: another one may have a revision of the same number."""
    for repository in info.repos:
        for revision in repository.revisions:
            if model.path.is_relative_to(revision.snapshot_path):
                return replace(info, repos=frozenset({repository})), repository, revision
    faults = [str(warning) for warning in info.warnings if model.origin.replace("/", "--") in str(warning)]
    raise LibraryError(
        f"{model.origin} is not as the Hugging Face cache should be ({' '.join(faults) or 'not found'}); "
        f"nothing was deleted. `hf cache verify {model.origin}` looks at it"
    )


def _own_files(model: Model, others: Sequence[Model]) -> Removal:
    """The weights and what comes with them; other files of the folder stay, and so does it then."""
    folder = model.path if model.path.is_dir() else model.path.parent
    files = model_files(model.path)
    if model.path.is_dir():
        beside = [folder / name for name in sorted(_OWN) if os.path.lexists(folder / name)]
        files = [*(file for file in beside if file not in files), *files]
    for file in files:
        target = Path(os.path.realpath(file))
        if not target.is_relative_to(os.path.realpath(folder)):
            raise LibraryError(
                f"{file} is a link out of its folder, to {target}; nothing was deleted. "
                "Remove that link by hand first"
            )
    is_folder = model.path.is_dir()
    return _deleting(model, others, tuple(files), lambda: _unlink(files, folder if is_folder else None))


def _unlink(files: Iterable[Path], folder: Path | None) -> None:
    for file in files:
        file.unlink(missing_ok=True)
    if folder is not None:
        with suppress(OSError):  # there is more in it than the model
            folder.rmdir()


def _deleting(
    model: Model, others: Sequence[Model], deletes: tuple[Path, ...], delete: Callable[[], None]
) -> Removal:
    going = {os.path.realpath(path) for entry in entries(deletes).values() for path in entry.paths}
    freed = freed_by(deletes)

    def execute() -> int:
        try:
            delete()
        except OSError as error:
            raise LibraryError(f"{error.filename} cannot be deleted: {error.strerror}") from None
        left = [path for path in deletes if os.path.lexists(path)]
        if left:
            raise LibraryError(f"{left[0]} could not be deleted; check its permissions, then try again")
        return freed

    here = (other for other in others if other.key != model.key and other.state == "here")
    lost = tuple(other.name for other in here if _reaches(other, going))
    return Removal(model, deletes, freed, max(0, model.facts.size - freed), lost, "", execute)


def _reaches(model: Model, going: Collection[str]) -> bool:
    """Whether one of the model's files is a link to one of `going`."""
    files = list(model.path.iterdir()) if model.path.is_dir() else [model.path]
    return any(os.path.realpath(file) in going for file in files)
