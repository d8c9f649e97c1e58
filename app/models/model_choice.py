"""Which model a path stands for that was chosen in a dialog or dropped on the window."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

FILES = ("*.gguf", "config.json", "*.safetensors", "*.safetensors.index.json")
"""Files that stand for a model: a GGUF file for itself, the others for the folder around them."""
_LATER_PART = re.compile(r"-\d{5}(-of-\d{5}\.gguf)$", re.IGNORECASE)


def model_at(path: Path) -> Path | None:
    """The folder or GGUF file to open, of a split one the first part; None when the path is no model's."""
    if path.is_dir():
        return path
    if not path.is_file() or not any(fnmatchcase(path.name.lower(), pattern) for pattern in FILES):
        return None
    if path.suffix.lower() != ".gguf":
        return path.parent
    first = path.with_name(_LATER_PART.sub(r"-00001\1", path.name))
    return first if first.is_file() else path
