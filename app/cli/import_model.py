"""`mlxr import`: models in a folder or file of the user's, listed from now on where they lie."""

from __future__ import annotations

import json
import shlex
from argparse import ArgumentParser, Namespace

from app.amounts import size
from app.cli.model_fits import Fits
from app.cli.models import as_json, show_progress
from app.cli.terminal import Terminal, one_line, open_terminal
from app.errors import UsageError
from app.library.importing import checked_place, take_in
from app.library.library import open_library
from app.library.look import look
from app.library.names import checked_name
from app.library.records import SOURCES, LibraryError, Model
from app.paths import default_paths


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "path",
        metavar="PATH",
        help="a folder with models in it, however deep, or a .gguf file; nothing is copied",
    )
    parser.add_argument("--name", metavar="N", help="what to call it, if it is one model")
    parser.add_argument("--json", action="store_true", help="print the models as one JSON object")


def run(args: Namespace) -> int:
    """Take in and list. Raises AppError."""
    with open_terminal() as terminal:
        return _run(args, terminal)


def _run(args: Namespace, terminal: Terminal) -> int:
    name = None if args.name is None else checked_name(args.name)
    path = checked_place(args.path)
    with open_library(default_paths(), terminal.say, must_save=True) as library:
        imported = take_in(library, path, look, lambda done, total: show_progress(terminal, done, total))
        models = imported.models
        if name is not None:
            if len(models) != 1:
                names = ", ".join(model.name for model in models[:3])
                raise UsageError(
                    f"{path} holds {len(models)} models ({names} …), which are listed now; --name is for "
                    "one: `mlxr models --rename` gives each its name"
                )
            try:
                library.rename(models[0], name)
            except LibraryError as error:
                raise LibraryError(f"{error}; until then this one is called {models[0].name}") from None
            models = (library.named(name),)
        fits = Fits(library.models())
    for note in imported.notes:
        terminal.say(note)
    if args.json:
        report = as_json(models, (), fits)
        terminal.answer(json.dumps({"models": report["models"]}, indent=2, ensure_ascii=False) + "\n")
    else:
        terminal.answer("".join(f"{line}\n" for line in map(_line, models)))
    return 0


def _line(model: Model) -> str:
    where = "" if model.source == "folder" else f" (already known from {SOURCES[model.source]})"
    how = f"; it cannot be run here: {model.facts.problem}" if model.facts.problem else ""
    advice = "" if model.facts.problem else f"; chat with it: mlxr chat --model {shlex.quote(model.name)}"
    return one_line(f"{model.name}: {size(model.facts.size)}, {model.path}{where}{how}{advice}")
