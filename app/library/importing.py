"""Taking in what the user names: listed from now on where it lies, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.library.library import Library, Look, open_library, real_place
from app.library.records import LibraryError, Model
from app.library.tree import is_text
from app.paths import Paths


@dataclass(frozen=True, slots=True)
class Imported:
    """The models that lie at a place, also those known before, and what people should know, a line each."""

    models: tuple[Model, ...]
    notes: tuple[str, ...]


def checked_place(text: str) -> Path:
    """The path that was typed or chosen. Raises LibraryError where nothing can be imported from it."""
    if not text.strip():
        raise LibraryError("the path is empty; give a folder or a .gguf file")
    if not is_text(text):
        raise LibraryError(f"{text!a:.80}: this name is no UTF-8 text and cannot be kept; rename it")
    try:
        path = Path(text).expanduser().absolute()
        if not path.exists():
            raise LibraryError(f"{text}: there is no such file or folder")
        if path.is_file() and path.suffix.lower() != ".gguf":
            raise LibraryError(f"{text} is no .gguf file; give one, or the folder that holds a model")
    except (OSError, RuntimeError, ValueError) as error:
        raise LibraryError(f"{text:.80}: no model can be there ({error}); give another path") from None
    return path


def take_in(
    library: Library,
    path: Path,
    look: Look,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Imported:
    """List what lies at `path` from now on; nothing is copied.

    Raises LibraryError where there is no whole model, and then nothing has changed.
    """
    is_new = real_place(path) not in library.places()
    here = library.add_place(path)
    try:
        notes = library.refresh(look, on_progress)
    except BaseException:  # a person who ends a long look does not want that place at each start
        if is_new:
            library.drop_place(path)
        raise
    models = tuple(model for model in library.models() if model.path in here and model.state == "here")
    if not models:
        if is_new:
            library.drop_place(path)
        problems = [one.problem for one in library.left_out() if one.path in here]
        problems += [
            note for note in notes if note.startswith(f"{real_place(path)} ")
        ]  # such as a closed one
        raise LibraryError(problems[0] if problems else _none_at(path))
    if all(model.source != "folder" for model in models):
        library.drop_place(path)  # it is found all the same
    return Imported(models, notes)


def take_in_opened(path: Path, paths: Paths, look: Look, on_progress: Callable[[int, int], None]) -> None:
    """List what was opened where it lies, unless a person took it off the list. Raises LibraryError.

    `on_progress`: as for `Library.refresh`; what it raises ends the look, and nothing is listed.
    """
    with open_library(paths) as library:
        if path.exists() and not library.has_known(path):
            take_in(library, path, look, on_progress)


def _none_at(path: Path) -> str:
    return (
        f"{path} holds no model; give a folder with config.json, .safetensors files and a tokenizer, or with "
        ".gguf files"
    )
