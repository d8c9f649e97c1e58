"""`mlxr` without a subcommand: the window, or where none can open the terminal chat."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from app.display import display_problem
from app.instance.address import Claim
from app.instance.first import is_first
from app.model_location import locate
from app.paths import default_paths
from app.settings import SettingsFile


def run(args: Namespace) -> int:
    """Open the window and stay until it is closed; where the app runs, have it show that. Raises AppError."""
    problem = display_problem()
    if problem:
        return _chat_instead(args, problem)
    paths, spec = default_paths(), getattr(args, "model", None)
    claim, wanted = Claim(paths.home), locate(spec).absolute() if spec else None
    if not is_first(claim, paths.home, wanted):
        _say("MLXR is running already: its window comes to the front.")
        return 0
    try:
        from app.wiring import run_window
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in {"PySide6", "shiboken6"}:
            raise
        claim.release()
        return _chat_instead(args, f"Qt cannot be loaded ({error})")
    settings = SettingsFile(paths.settings).load().settings
    return run_window(locate(spec, settings.last_model, _say).absolute(), claim)


def _chat_instead(args: Namespace, problem: str) -> int:
    _say(f"No window can open: {problem}. Starting the chat in the terminal.")
    from app.cli import chat

    parser = ArgumentParser()
    chat.add_arguments(parser)
    defaults = parser.parse_args([])
    return chat.run(Namespace(**vars(defaults) | vars(args)))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
