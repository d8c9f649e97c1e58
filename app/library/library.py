"""The library's face: scanning all places, the models with their names, and what a person changes of them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from app import VERSION
from app.downloads.journal import waiting_repos
from app.errors import ModelNotFound
from app.library.drafts import have_one_vocabulary
from app.library.folders import find_named
from app.library.hugging_face import cache_folder, repository_at
from app.library.names import checked_name, folded, near_names
from app.library.ollama import drop_links
from app.library.records import (
    NOTHING_SET,
    Candidate,
    Facts,
    LeftOut,
    LibraryError,
    Model,
    ModelSettings,
)
from app.library.registry import Registry
from app.library.schema import LIBRARY
from app.library.sources import find_everywhere
from app.library.stamp import bytes_of, stamp_of
from app.model_location import locate
from app.paths import Paths
from app.store.database import open_database

Look = Callable[[Path], Facts]
"""Reads a model's headers; app.library.look has the one that does."""


class Library:
    """All models that this account's MLXR knows. Used by one thread, within `open_library`."""

    def __init__(self, registry: Registry, paths: Paths) -> None:
        self._registry = registry
        self._paths = paths

    def refresh(
        self,
        look: Look,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        *,
        again: bool = False,
    ) -> tuple[str, ...]:
        """Look through all places, and at what is new or changed there.

        Args:
            look: reads headers.
            on_progress: told of models looked at and of all that must be, before each one and at the end.
            again: look at everything, also where nothing changed.

        Returns what people should know, a line each.
        """
        found = find_everywhere(self._registry.places(), self._paths.library_links)
        candidates = {str(one.path): one for one in reversed(found.candidates)}  # the first of a path stays
        ordered = [one for one in found.candidates if candidates[str(one.path)] is one]
        stamps = {one.path: stamp_of(one.files) for one in ordered}
        known = {
            one.path: None
            if again
            else self._registry.facts_of(one.path, stamps[one.path], self._reader(one))
            for one in ordered
        }
        unknown = [one for one in ordered if known[one.path] is None]
        for done, one in enumerate(unknown):
            on_progress(done, len(unknown))
            facts = Facts(False, one.fault) if one.fault else look(one.path)
            known[one.path] = facts = facts if facts.whole else replace(facts, size=_size(one.files))
            self._registry.save_facts(one.path, stamps[one.path], self._reader(one), facts)
        on_progress(len(unknown), len(unknown))
        whole = [one for one in ordered if (facts := known[one.path]) is not None and facts.whole]
        self._registry.take_in(_by_key(whole), found.unread, [one.path for one in ordered])
        if not found.unread:
            drop_links(self._paths.library_links, [one.path for one in whole])
        closed = (f"{path} cannot be looked into; check its permissions" for path in found.unread)
        return (*closed, *found.notes)

    @staticmethod
    def _reader(candidate: Candidate) -> str:
        """Who reads: another version may run more, and another executor needs other memory."""
        return f"{VERSION} {os.environ.get('MLXR_EXECUTOR', '')} {candidate.fault}"

    def models(self) -> list[Model]:
        """All models, favourites first, then by name."""
        return self._registry.models()

    def left_out(self) -> list[LeftOut]:
        """What looks like a model and is none."""
        cache = Path(os.path.realpath(cache_folder()))
        return [replace(one, repository=repository_at(one.path, cache)) for one in self._registry.left_out()]

    def find(self, name: str) -> Model | None:
        """The model of that name, whatever the case."""
        return next((model for model in self.models() if folded(model.name) == folded(name)), None)

    def named(self, text: str) -> Model:
        """The model of that name, else the one that `--model` opens by it: a repository's id or a path.

        Raises LibraryError: with names that may have been meant, or where there are several.
        """
        model = self.find(text) or self._opened_by(text)
        if model is None:
            raise LibraryError(f"{text.strip() or 'the empty name'}: {self.missing(text)}")
        return model

    def _opened_by(self, text: str) -> Model | None:
        if "/" not in text and not folded(text).endswith(".gguf"):  # the others are names
            return None
        models, repository = self.models(), text.partition(":")[0]
        of_it = [one for one in models if one.origin == repository and one.source == "hugging face"]
        try:
            path = real_place(locate(text))
        except ModelNotFound as error:
            if any(model.state != "gone" for model in of_it):
                raise LibraryError(str(error)) from None
            meant = [model for model in of_it if model.state == "gone"]
        else:
            meant = [model for model in models if model.path == path]
            meant = meant or [model for model in of_it if model.path.parent == path]
        return meant[0] if len(meant) == 1 else None

    def missing(self, name: str) -> str:
        """What to say where no model has this name."""
        models, repository = self.models(), folded(name.partition(":")[0])
        near = [model.name for model in models if folded(model.origin) == repository][:3]
        coming = [one for one in waiting_repos(self._paths.downloads) if folded(one) == repository]
        if coming and not near:
            return f"its download is not finished; `mlxr pull {coming[0]}` goes on with it"
        left = [one for one in self.left_out() if one.repository and folded(one.repository) == repository]
        if left and not near:
            return f"it holds no whole model ({left[0].problem}); `mlxr rm {left[0].repository}` deletes it"
        near = near or near_names(name, [model.name for model in models])
        if near:
            return f"the library has no model of this name; did you mean {' or '.join(near)}?"
        return "the library has no model of this name; `mlxr models` lists what there is"

    def rename(self, model: Model, name: str) -> str:
        """Give `model` another name, and return it. Raises LibraryError where that cannot be."""
        if model.source == "built in":
            raise LibraryError("the guide keeps its name, by which it can always be opened")
        name = checked_name(name)
        if not self._registry.rename(model.key, name):
            raise LibraryError(
                f"another model is called {name}; choose another name, or rename that one first"
            )
        for other in self.models():
            if folded(other.settings.draft_model) == folded(model.name):
                self._registry.save_settings(other.key, replace(other.settings, draft_model=name))
        return name

    def set_favourite(self, model: Model, favourite: bool) -> None:
        """Note whether it stands in front."""
        self._registry.set_favourite(model.key, favourite)

    def save_settings(self, model: Model, settings: ModelSettings) -> ModelSettings:
        """Keep what a person set for `model`, and return it with its draft model by the name that this has.

        Raises LibraryError for another draft model than before that is not there, is the model itself, or has
        other tokens.
        """
        if settings.draft_model and settings.draft_model != model.settings.draft_model:
            draft = self.named(settings.draft_model)
            if not have_one_vocabulary(draft, model):
                raise LibraryError(
                    f"{draft.name} cannot guess for {model.name}: {draft.facts.vocab_size:,} tokens in its "
                    f"vocabulary, and {model.facts.vocab_size:,}; choose a smaller model of the same family"
                )
            if draft.key == model.key:
                raise LibraryError(f"{draft.name} cannot guess ahead of itself; choose a smaller model")
            settings = replace(settings, draft_model=draft.name)
        self._registry.save_settings(model.key, settings)
        return settings

    def settings_at(self, path: Path) -> ModelSettings:
        """What is set for the model at `path`; nothing where the library does not know it."""
        model = self.model_at(path)
        return model.settings if model else NOTHING_SET

    def model_at(self, path: Path) -> Model | None:
        """The model at `path`; None where the library does not know it."""
        key = self._registry.key_at(real_place(path))
        return next((model for model in self.models() if model.key == key), None)

    def has_known(self, path: Path) -> bool:
        """Whether the model at `path` is listed, or was until a person took it off the list."""
        return self._registry.key_at(real_place(path)) is not None

    def note_use(self, path: Path) -> None:
        """Note that the model at `path` was opened now."""
        self._registry.note_use(real_place(path))

    def places(self) -> list[Path]:
        """Folders and files that the user named."""
        return self._registry.places()

    def add_place(self, path: Path) -> frozenset[Path]:
        """Look into a folder, or at a GGUF file, from now on; paths of what may be models there."""
        place = real_place(path)
        paths = frozenset(one.path for one in find_named([place]).candidates)
        self._registry.add_place(place)
        self._registry.recall(paths)
        return paths

    def drop_place(self, path: Path) -> None:
        """Look there no more."""
        self._registry.drop_place(real_place(path))

    def place(self, text: str) -> Path | None:
        """The folder or file that the user named, and now means by `text`; it need not be there any more."""
        try:
            place = real_place(Path(text).expanduser())
        except (OSError, RuntimeError, ValueError):
            return None
        return place if text and place in self.places() else None

    def only_in(self, place: Path) -> list[Model]:
        """The models that are listed since the user named `place`, and for no other reason."""
        others = [other for other in self.places() if other != place]
        return [
            model
            for model in self.models()
            if model.source == "folder"
            and model.path.is_relative_to(place)
            and not any(model.path.is_relative_to(other) for other in others)
        ]

    def forget_place(self, place: Path) -> None:
        """Look at `place` no more, and list nothing that only it led to; files stay."""
        for model in self.only_in(place):
            self._registry.delete(model.key)
        self._registry.drop_place(place)

    def forget(self, model: Model) -> None:
        """Do not list it any more; its files stay."""
        if model.path in self._registry.places():
            self._registry.drop_place(model.path)
        if model.state == "here":
            self._registry.forget(model.key)
        else:
            self._registry.delete(model.key)

    def delete(self, model: Model) -> None:
        """Drop it with all that was kept of it: its files were deleted."""
        self._registry.drop_place(model.path)
        self._registry.delete(model.key)
        self._registry.drop_facts(model.path)


def _size(files: Iterable[Path]) -> int:
    """Bytes of those of the files that are there."""
    return bytes_of(file for file in files if file.exists())


def _by_key(candidates: Iterable[Candidate]) -> dict[str, Candidate]:
    """Whole models by key: the first one takes it, and those that come later their spare one."""
    keyed: dict[str, Candidate] = {}
    for one in candidates:
        keyed.setdefault(one.spare_key if one.key in keyed else one.key, one)
    return keyed


def real_place(path: Path) -> Path:
    """Where `path` is, behind links of its folders; a file's own name stays, since it tells what it is."""
    if path.is_dir():
        return Path(os.path.realpath(path))
    return Path(os.path.realpath(path.parent)) / path.name


@contextmanager
def open_library(
    paths: Paths, say: Callable[[str], None] = lambda line: None, *, must_save: bool = False
) -> Generator[Library]:
    """The library of the data home `paths`; `say` is told where it cannot be kept.

    Raises LibraryError where the disk refuses later; with `must_save`, for changes that a person makes, also
    where the library could be kept in memory only.
    """
    opened = open_database(paths.library, LIBRARY)
    with closing(opened.connection):
        if must_save and not opened.saved:
            raise LibraryError(opened.problem)
        if opened.problem:
            say(opened.problem)
        try:
            yield Library(Registry(opened.connection), paths)
        except sqlite3.Error as error:  # such as a full disk, or another process that writes for long
            raise LibraryError(
                f"{paths.library} cannot be used now ({error}); free some space or end what holds it, then "
                "try again"
            ) from error
