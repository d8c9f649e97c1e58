"""`mlxr` without a subcommand: the window, or where none can open the terminal chat."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from app.display import display_problem
from app.model_location import locate
from app.paths import default_paths
from app.settings import SettingsFile


def run(args: Namespace) -> int:
    """Open the window and stay until it is closed. Raises AppError."""
    problem = display_problem()
    if problem:
        return _chat_instead(args, problem)
    try:
        from app.wiring import run_window
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in {"PySide6", "shiboken6"}:
            raise
        return _chat_instead(args, f"Qt cannot be loaded ({error})")
    settings = SettingsFile(default_paths().settings).load().settings
    return run_window(locate(getattr(args, "model", None), settings.last_model, _say))


def _chat_instead(args: Namespace, problem: str) -> int:
    _say(f"No window can open: {problem}. Starting the chat in the terminal.")
    from app.cli import chat

    parser = ArgumentParser()
    chat.add_arguments(parser)
    defaults = parser.parse_args([])
    return chat.run(Namespace(**vars(defaults) | vars(args)))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
