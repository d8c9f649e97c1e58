"""`mlxr models --updates`: which models the Hub has newer files of, and what fetches them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from app.cli.terminal import Terminal
from app.errors import AppError
from app.hub.client import HubClient
from app.hub.details import RepoDetails, read_details
from app.hub.errors import NotFound
from app.hub.keychain import SystemKeychain
from app.hub.token import TokenStore
from app.library.records import Model
from app.library.updates import can_be_newer, wanted_again


def tell_updates(models: Sequence[Model], terminal: Terminal, *, as_json: bool) -> None:
    """Ask the Hub about those of `models` that came from there, and answer. Raises AppError."""
    asked = [model for model in models if can_be_newer(model)]
    found = _details({model.origin for model in asked}, terminal)
    newer = [
        model
        for model in asked
        if model.origin in found and found[model.origin].is_newer_than(model.revision)
    ]
    if as_json:
        updates = [_as_json(model, found[model.origin]) for model in newer]
        terminal.answer(json.dumps({"updates": updates}, indent=2, ensure_ascii=False) + "\n")
    elif newer:
        terminal.answer("".join(f"{_line(model, found[model.origin])}\n" for model in newer))
    elif found:
        terminal.answer(
            f"{asked[0].name} is up to date\n" if len(asked) == 1 else "all models are up to date\n"
        )
    else:
        terminal.answer("none of these models came from the Hub\n")


def _details(repositories: set[str], terminal: Terminal) -> dict[str, RepoDetails]:
    """What the Hub says, a request for each repository; those that it has no more are said and left out."""
    client = HubClient(TokenStore(SystemKeychain()).get)
    found: dict[str, RepoDetails] = {}
    gone: list[AppError] = []
    for number, repository in enumerate(sorted(repositories), 1):
        terminal.progress(f"asking about {repository}: {number} of {len(repositories)}")
        try:
            found[repository] = read_details(client, repository)
        except NotFound as error:
            gone.append(error)
    if gone and not found:
        raise gone[0]
    for error in gone:
        terminal.say(str(error))
    return found


def _command(model: Model, details: RepoDetails) -> str | None:
    wanted = wanted_again(model, details)
    return shlex.join(("mlxr", "pull", ":".join(filter(None, wanted)))) if wanted else None


def _line(model: Model, details: RepoDetails) -> str:
    command = _command(model, details)
    advice = (
        f"`{command}` fetches what changed"
        if command
        else f"{details.repo} has no {model.name} in it any more"
    )
    return f"{model.name}: there is a newer one, commit {details.commit[:7]}; {advice}"


def _as_json(model: Model, details: RepoDetails) -> dict[str, object]:
    return {
        "name": model.name,
        "repository": details.repo,
        "here": model.revision,
        "there": details.commit,
        "command": _command(model, details),
    }
