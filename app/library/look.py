"""Reading a model's headers, in the engine's words, and its licence where only its card tells it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from app.library.records import Facts
from app.library.stamp import bytes_of
from app.library.tree import place_at
from engine import ModelError, outline_model

_CARD, _CONFIG = "README.md", "config.json"
_BESIDE = ("tokenizer.json", "tokenizer.model", _CONFIG)
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
        vocab_size=outline.vocab_size,
    )


def model_files(path: Path) -> list[Path]:
    """The files that hold the model at `path`, its config.json last: without that it is none any more.

    Of a folder that is not whole those that have the usual names. Raises OSError.
    """
    if not path.is_dir():
        place = place_at(path)
        return list(place.files) if place else [path]
    try:
        files = list(outline_model(path).files)
    except ModelError:
        files = [*sorted(path.glob("model*.safetensors")), *(path / name for name in _BESIDE)]
    return sorted((file for file in files if os.path.lexists(file)), key=lambda file: file.name == _CONFIG)


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
