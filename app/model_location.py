"""Where a model is: from what a person typed, or without a word the last one used, else the guide."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import ModelNotFound
from app.paths import default_paths

if TYPE_CHECKING:
    from app.hub.choice import Choice

GUIDE_NAME = "guide"
GUIDE = Path(__file__).resolve().parents[1] / "resources" / "guide" / "model"
_GGUF = ".gguf"
_PART = re.compile(r"-\d{5}-of-\d{5}$")
_SNAPSHOT = re.compile(r"/models--(.+?)--(.+)/snapshots/[0-9a-f]{40}/?$")
_REPOSITORY = re.compile(r"[\w][\w.-]*/[\w][\w.-]*", re.ASCII)


def locate(
    spec: str | None, last_model: str | None = None, say: Callable[[str], None] = lambda line: None
) -> Path:
    """The folder or GGUF file of the model that `spec` names.

    Args:
        spec: a folder, a `.gguf` file (any part of a split one), "guide" for the built-in model, the id of a
            Hugging Face repository that the local cache holds (HF_HOME is honoured; nothing is downloaded),
            with the quantisation behind a colon where it holds several, or a name in the library.
            None: `last_model`, else the guide.
        last_model: what the settings remember, in the same notation.
        say: told in one line when `last_model` is gone and the guide takes its place.

    Raises:
        ModelNotFound: nothing is there; the message says what to do.
    """
    if spec is not None:
        return _find(spec)
    if last_model:
        try:
            return _find(last_model)
        except ModelNotFound as error:
            say(f"the model used last is gone ({error}); using the built-in guide")
    return _guide()


def remembered(spec: str) -> str:
    """The notation of `spec` to keep as the last model: it means the same in any working folder."""
    try:
        path = Path(spec).expanduser()
        if path.is_file():
            return str(path.parent.resolve() / path.name)  # itself it may be a link to a file with no name
        return str(path.resolve()) if path.is_dir() else spec
    except (OSError, RuntimeError):  # it cannot even be looked at
        return spec


@lru_cache(maxsize=64)
def model_title(path: Path) -> str:
    """The name for people of the model at `path`; the Hugging Face cache calls folders after a hash.

    The disk is asked once: the window says the name with each word that is written.
    """
    if path.resolve() == GUIDE:
        return "the guide"
    if path.suffix.lower() == _GGUF:
        return _PART.sub("", path.stem)
    cached = _SNAPSHOT.search(path.as_posix())
    return f"{cached[1]}/{cached[2]}" if cached else path.resolve().name


def _find(spec: str) -> Path:
    if not spec.strip():
        raise ModelNotFound("the model's name is empty; give a folder or a name that `mlxr models` lists")
    try:
        return _find_path(spec, Path(spec).expanduser())
    except (OSError, RuntimeError) as error:  # a name too long, a folder that is closed to us, nobody's home
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ModelNotFound(f"{spec:.80}: no model can be there ({why}); give another path") from None


def _find_path(spec: str, path: Path) -> Path:
    if path.is_dir():
        return path
    if spec == GUIDE_NAME:
        return _guide()
    if path.suffix.lower() == _GGUF:
        if path.is_file():
            return path
        raise ModelNotFound(f"{spec}: no such file; give a .gguf file or a model's folder")
    if path.exists():
        raise ModelNotFound(
            f"{spec} is no .gguf file; give one, or the folder that holds config.json and the weights"
        )
    repository, colon, choice = spec.partition(":")
    if _REPOSITORY.fullmatch(repository):
        return _cached_choice(repository, choice) if colon else _cached_model(repository)
    return _in_library(spec)


def _in_library(name: str) -> Path:
    # Imported here: most starts name a path or nothing, and the library knows this module.
    from app.library.lookup import find_model, words_for_missing
    from app.library.records import LibraryError

    try:
        model = find_model(name, default_paths())
    except LibraryError as error:
        raise ModelNotFound(f"{name}: no such folder, and the library cannot be asked: {error}") from None
    if model is None:
        raise ModelNotFound(f"{name}: no such folder, and {words_for_missing(name, default_paths())}")
    if model.state == "gone" or not model.path.exists():  # it may have gone since the last scan
        raise ModelNotFound(f"{name}: its files are gone from {model.path}; `mlxr rm {name}` forgets it")
    if model.state == "damaged":
        raise ModelNotFound(f"{name} is not whole any more ({model.facts.problem}); get it again")
    return model.path


def _guide() -> Path:
    if not (GUIDE / "config.json").is_file():
        raise ModelNotFound(
            f"the built-in guide is missing at {GUIDE}; install MLXR again, or name another model"
        )
    return GUIDE


def _cached_repository(spec: str) -> Path:
    # Imported here: it takes a third of a second, and most starts do not need it.
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import (
        HFValidationError,
        IncompleteSnapshotError,
        LocalEntryNotFoundError,
    )

    try:
        return Path(snapshot_download(spec, local_files_only=True))
    except IncompleteSnapshotError as error:
        return Path(error.snapshot_path)  # without files that a model needs not: the load tells if it does
    except LocalEntryNotFoundError:
        raise ModelNotFound(
            f"{spec}: no such folder, and not in the Hugging Face cache {constants.HF_HUB_CACHE}; "
            f"download it with `mlxr pull {spec}`"
        ) from None
    except HFValidationError:
        raise ModelNotFound(f"{spec}: neither a folder nor the name of a Hugging Face repository") from None


def _cached_model(repository: str) -> Path:
    """The one model that a repository has in the cache."""
    folder = _cached_repository(repository)
    if any(folder.glob(f"*{_GGUF}")) and not any(folder.glob("*.safetensors")):
        keys = [choice.key for choice in _choices_in(folder)]
        if len(keys) > 1:
            raise ModelNotFound(
                f"{repository}: there are several models of it here; name one behind a colon, such as "
                f"{repository}:{keys[0]}; there is {', '.join(keys[:12])}"
            )
    return folder


def _choices_in(folder: Path) -> tuple[Choice, ...]:
    # Imported here: it loads the engine.
    from app.hub.choice import RepoFile
    from app.hub.choices import repo_choices

    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return repo_choices([RepoFile(name) for name in names]).choices


def _cached_choice(repository: str, wanted: str) -> Path:
    """One of several models in a repository, in the words that `mlxr pull` takes behind the colon."""
    # Imported here: it loads the engine.
    from app.hub.choices import find_choice
    from app.hub.errors import NoSuchChoice

    folder = _cached_repository(repository)
    try:
        choice = find_choice(_choices_in(folder), wanted)
    except NoSuchChoice as error:
        raise ModelNotFound(
            f"{repository}: {error}; `mlxr pull {repository}:{wanted}` downloads it"
        ) from None
    first = folder / choice.files[0].name
    return first if choice.format == "gguf" else first.parent
