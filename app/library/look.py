"""Reading a model's headers, in the engine's words, and its licence where only its card tells it."""

from __future__ import annotations

import re
from pathlib import Path

from app.library.records import Facts, LibraryError, Model
from app.library.stamp import bytes_of
from engine import ModelError, outline_model

_CARD = "README.md"
_MOST_CARD = 65_536
_FRONT = re.compile(r"---\s*\n(.*?)\n---", re.DOTALL)
_LICENCE = re.compile(r"^license:[ \t]*[\"']?([\w.+-]{1,60})", re.MULTILINE)


def look(path: Path) -> Facts:
    """What the headers of the model folder or GGUF file `path` tell; never raises for what is there."""
    try:
        outline = outline_model(path)
        size = bytes_of(outline.files)
    except ModelError as error:
        return Facts(whole=False, problem=str(error))
    except OSError as error:  # it went away under our eyes
        return Facts(whole=False, problem=f"{path} cannot be read ({error.strerror})")
    return Facts(
        whole=True,
        problem=outline.problem,
        format=outline.format,
        size=size,
        family=outline.family,
        parameters=outline.parameters,
        quantization=outline.quantization,
        licence=outline.licence or _card_licence(path if path.is_dir() else path.parent),
        weight_bytes=outline.weight_bytes,
        context_length=outline.context_length,
        largest_window=outline.largest_window,
        kv_bytes_per_token=outline.kv_bytes_per_token,
        fingerprint=outline.fingerprint,
    )


def model_files(model: Model) -> list[Path]:
    """The files that hold the model, as its headers tell. Raises LibraryError where they do not."""
    try:
        return list(outline_model(model.path).files)
    except ModelError as error:
        raise LibraryError(
            f"what belongs to {model.name} cannot be told ({error}); delete it by hand"
        ) from None


def _card_licence(folder: Path) -> str:
    """`license` in the header of the model card beside the weights; "" without one."""
    try:
        with (folder / _CARD).open("rb") as file:
            text = file.read(_MOST_CARD).decode("utf-8", "replace")
    except OSError:
        return ""
    front = _FRONT.match(text)
    found = _LICENCE.search(front[1]) if front else None
    return found[1] if found else ""
