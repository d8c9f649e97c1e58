"""Every source of models, one after the other: the guide, what other apps keep, and what the user named."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from app.library.folders import find_in_folder, find_named, lm_studio_folders
from app.library.hugging_face import cache_folder, find_in_cache
from app.library.ollama import find_in_store, ollama_stores
from app.library.records import Candidate, Found
from app.model_location import GUIDE, GUIDE_NAME

_GUIDE_FILES = tuple(GUIDE / name for name in ("config.json", "model.safetensors", "tokenizer.model"))
_GUIDE = Candidate("guide", "guide", GUIDE, "built in", "MLXR", GUIDE_NAME, "", "", _GUIDE_FILES)


def find_everywhere(named: Iterable[Path], links: Path) -> Found:
    """What all sources have now; a path may come several times.

    Args:
        named: folders and files that the user named.
        links: the folder for links to files of Ollama's, whose own names do not tell what they are.
    """
    homes = _homes()
    all_found = [
        Found((_GUIDE,)),
        find_in_cache(cache_folder()),
        *(find_in_folder(folder, "lm studio") for home in homes for folder in lm_studio_folders(home)),
        *(find_in_store(store, links) for home in homes for store in ollama_stores(home)),
        find_named(named),
    ]
    return Found(
        tuple(one for found in all_found for one in found.candidates),
        tuple(one for found in all_found for one in found.unread),
        tuple(one for found in all_found for one in found.notes),
    )


def _homes() -> list[Path]:
    """The account's home folder; an account may have none."""
    try:
        return [Path.home()]
    except RuntimeError:
        return []
