"""Which models may be newer on the Hub by now, and which of a repository's choices each of them is."""

from __future__ import annotations

from pathlib import PurePosixPath

from app.hub.choice import Choice
from app.hub.details import RepoDetails
from app.library.records import Model


def can_be_newer(model: Model) -> bool:
    """Whether it came from the Hub and is not an older revision, kept beside the main one."""
    is_older = bool(model.revision) and model.key.endswith(f"@{model.revision}")
    return model.source == "hugging face" and model.state == "here" and not is_older


def is_choice(model: Model, choice: Choice) -> bool:
    """Whether a model of the same repository is this choice of it, at whatever commit."""
    if model.facts.format != choice.format:
        return False
    return choice.format == "safetensors" or model.path.name == PurePosixPath(choice.files[0].name).name


def wanted_again(model: Model, details: RepoDetails) -> tuple[str, str] | None:
    """The repository and the choice in it, "" where there is one only, that fetch the model as it is now.

    None where the repository has none like it any more.
    """
    choices = details.choices.choices
    for choice in choices:
        if is_choice(model, choice):
            return details.repo, choice.key if len(choices) > 1 else ""
    return None
