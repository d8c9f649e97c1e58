"""`mlxr` without a subcommand: the window, or where none can open the terminal chat."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from app.bad_start import start_problem, unloadable
from app.bad_start_alert import wants_to_go_on
from app.crash.crash_words import SAFE_ELSEWHERE
from app.crash.restart import restart
from app.crash.session import Session
from app.display import display_problem
from app.errors import AppError, UsageError
from app.instance.address import Claim
from app.instance.first import is_first
from app.instance.protocol import Opening
from app.model_location import locate
from app.opening.link import is_link
from app.opening.target import GGUF, path_of
from app.paths import Paths, default_paths
from app.settings import SettingsFile


def run(args: Namespace) -> int:
    """Open the window and stay until it is closed; where the app runs, have it show that. Raises AppError."""
    spec, wanted = _asked(args)
    problem = display_problem()
    if problem:
        return _chat_instead(args, spec, wanted, problem)
    paths = default_paths()
    claim, model = Claim(paths.home), str(locate(spec).absolute()) if spec else None
    if not _begin(claim, paths, Opening(model, wanted)):
        _say("MLXR is running already: its window comes to the front.")
        if getattr(args, "safe", False):
            _say(SAFE_ELSEWHERE)
        return 0
    with Session(paths.crashes, is_safe_asked=getattr(args, "safe", False)) as session:
        try:
            from app.running import run_window
        except ImportError as error:
            claim.release()
            if (error.name or "").partition(".")[0] not in {"PySide6", "shiboken6"}:
                wants_to_go_on(unloadable(error))
                raise unloadable(error) from error
            return _chat_instead(args, spec, wanted, f"Qt cannot be loaded ({error})")
        settings = SettingsFile(paths.settings).load().settings
        found = locate(spec, settings.last_model, _say).absolute()
        code = run_window(found, claim, session, wanted)
    if session.wants_restart:
        restart(sys.argv[1:])
    return code


def _begin(claim: Claim, paths: Paths, opening: Opening) -> bool:
    """Whether this process is to open the window, and holds `claim`; else the one that runs opens it.

    Where something is wrong with its data, the person is asked first. Raises AppError.
    """
    is_accepted = False
    while is_first(claim, paths.home, opening):
        problem = None if is_accepted else start_problem(paths)
        if problem is None:
            return True
        claim.release()  # whoever starts meanwhile may be able to run
        is_accepted = wants_to_go_on(problem)
    return False


def _asked(args: Namespace) -> tuple[str | None, str | None]:
    """The model to open, and the link or the file's absolute path.

    What is wrong with a link is said in the window: it comes from a browser more often than from a terminal.
    Raises AppError for a file that is not there.
    """
    model: str | None = getattr(args, "model", None)
    wanted: str | None = getattr(args, "wanted", None)
    if wanted is None or is_link(wanted):
        return model, wanted
    path = path_of(wanted).expanduser().absolute()
    if path.suffix.lower() == GGUF or path.is_dir():
        if model is not None:
            raise UsageError(f"--model {model} and {path.name} are two models; give one")
        return str(path), None
    if not path.is_file():
        raise AppError(f"{path}: no such file; give a model, a .mlxrchat chat or an mlxr:// link")
    return model, str(path)


def _chat_instead(args: Namespace, model: str | None, wanted: str | None, problem: str) -> int:
    if wanted is not None:
        raise AppError(f"{wanted[:200]} opens in the window, and none can open: {problem}")
    _say(f"No window can open: {problem}. Starting the chat in the terminal.")
    from app.cli import chat

    parser = ArgumentParser()
    chat.add_arguments(parser)
    defaults = parser.parse_args([])
    return chat.run(Namespace(**vars(defaults) | vars(args) | {"model": model}))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
