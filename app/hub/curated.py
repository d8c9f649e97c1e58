"""A short list of models to begin with, which needs no network: resources/models/curated.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).resolve().parents[2] / "resources" / "models" / "curated.json"


@dataclass(frozen=True, slots=True)
class Curated:
    """A model that is known to run and worth a look; sizes are as they were when the list was made.

    Attributes:
        name: for people.
        repo: on the Hub.
        choice: the key of the recommended quantisation in it.
        format: "gguf" or "mlx".
        family: that the engine runs it as.
        parameters: number of weights.
        bytes: to download, about.
        context: tokens the model takes at most.
        licence: its short name on the Hub.
        good_for: one line.
    """

    name: str
    repo: str
    choice: str
    format: str
    family: str
    parameters: int
    bytes: int
    context: int
    licence: str
    good_for: str


def curated_models() -> tuple[Curated, ...]:
    """The list, smallest first."""
    return tuple(Curated(**entry) for entry in json.loads(LIST.read_text(encoding="utf-8"))["models"])
