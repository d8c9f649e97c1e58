"""The command line of `mlxr`: reads it, runs the subcommand, and says what goes wrong in one line."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn, TextIO

from app import VERSION
from app.cli.commands import COMMANDS, Subcommand
from app.errors import AppError, RequestFailed, UsageError
from app.paths import default_paths

INTERRUPTED = 130
SIGNALLED = 128
"""What a shell adds to the number of the signal that ended a program."""

BROKEN_PIPE = 141
"""What a shell reports for a program ended by SIGPIPE."""


class _Parser(argparse.ArgumentParser):
    """Reports mistakes as UsageError instead of printing the usage."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")


class _Terminated(SystemExit):
    """SIGTERM has come, or the terminal was closed: what is open closes as it does at any end.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def main(argv: Sequence[str] | None = None) -> int:
    """Run `mlxr` with `argv` (the process's own without) and return the exit code."""
    _prepare_streams()
    try:
        return _run(sys.argv[1:] if argv is None else list(argv))
    except AppError as error:
        return _report(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except _Terminated as end:
        return SIGNALLED + end.number
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  the top of the main thread
        return _report_internal(error)


def _run(argv: list[str]) -> int:
    argv, wanted = _without_wanted(argv)
    _check_start(argv)
    parser, subcommand = _parser(argv)
    args, rest = parser.parse_known_args(argv, Namespace(wanted=wanted))
    if rest:
        of = f"mlxr {args.command}" if args.command else "mlxr"
        raise UsageError(f"unrecognized arguments: {shlex.join(rest)}; see `{of} --help`")
    from app.log import start_logging

    start_logging(default_paths().log)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if subcommand is not None:
        if args.safe:
            raise UsageError("--safe is for the window; commands run so with MLXR_EXECUTOR=reference")
        _end_well()
        return subcommand.run(args)
    from app.cli import window

    return window.run(args)


def _end_well() -> None:
    """Let SIGTERM, and SIGHUP of a closed terminal, end a command as an end of its own would.

    Killed at once, it would leave kernels marked as in their first runs (twice, and they are disabled), and a
    chat's pages on disk. What `nohup` began hears nothing of a closed terminal.
    """

    def terminated(number: int, _frame: FrameType | None) -> NoReturn:
        # Whoever asks again is heard at once; of a closed terminal the system and the shell both tell.
        signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else signal.SIG_DFL)
        raise _Terminated(number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, terminated)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, terminated)


def _parser(argv: list[str]) -> tuple[argparse.ArgumentParser, Subcommand | None]:
    """The parser, with the arguments of the one subcommand that `argv` uses, and that subcommand.

    The others are not imported: the engine takes longer to load than `mlxr --help` should.
    """
    parser = _Parser(
        prog="mlxr",
        description="A private chat with a language model on this machine.",
        epilog="`mlxr FILE` opens a .gguf model or a .mlxrchat chat in the window, `mlxr ./FOLDER` a model's "
        "folder, `mlxr mlxr://…` a link.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mlxr {VERSION}")
    parser.add_argument("--model", metavar="M", help="the model to open in the window")
    parser.add_argument("--safe", action="store_true", help="open the window in safe mode")
    subparsers = parser.add_subparsers(
        title="commands", metavar="COMMAND", description="without one, the window opens", dest="command"
    )
    place = _chosen_at(argv)
    chosen = None if place is None else argv[place]
    subcommand = None
    for spec in COMMANDS:
        under = subparsers.add_parser(
            spec.name, help=spec.summary, description=_sentence(spec.summary), allow_abbrev=False
        )
        if spec.name == chosen:
            subcommand = spec.load()
            subcommand.add_arguments(under)
    return parser, subcommand


def _check_start(argv: list[str]) -> None:
    """Raises BadStart, seen in a window first where one is wanted, where no part of MLXR can run.

    Before MLX is imported: on a system that is too old that fails in words of its own. `mlxr doctor` says it
    among the rest.
    """
    place = _chosen_at(argv)
    command = None if place is None else argv[place]
    if command == "doctor" or {"-h", "--help", "--version"}.intersection(argv):
        return
    # Imported here, as below: `mlxr --version` is to be there at once.
    from app.bad_start import contents_problem, frozen_folder, machine_problem, this_machine

    problem = machine_problem(this_machine()) or contents_problem(frozen_folder())
    if problem is None:
        return
    if command is None:
        from app.bad_start_alert import wants_to_go_on

        wants_to_go_on(problem)
    raise problem


def _without_wanted(argv: list[str]) -> tuple[list[str], str | None]:
    """The arguments without the link or file that the window is to open, and that.

    It stands where a command would.
    """
    place = _chosen_at(argv)
    if place is None or any(argv[place] == spec.name for spec in COMMANDS):
        return argv, None
    from app.opening.target import is_openable

    if not is_openable(argv[place]):
        return argv, None
    return argv[:place] + argv[place + 1 :], argv[place]


def _chosen_at(argv: list[str]) -> int | None:
    """Where the first argument stands that is neither an option nor the value of `--model`."""
    places = iter(range(len(argv)))
    for place in places:
        if argv[place] == "--model":
            next(places, None)
        elif not argv[place].startswith("-"):
            return place
    return None


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


def _report(error: AppError) -> int:
    from app.cli.terminal import one_line

    _say(f"error: {one_line(str(error))}")
    _drop_output()
    if isinstance(error, RequestFailed) and error.detail:
        _log(str(error), error.detail)
    return 2 if isinstance(error, UsageError) else 1


def _report_internal(error: Exception) -> int:
    import traceback

    from app.cli.terminal import one_line

    what = one_line(f"{type(error).__name__}: {error}")
    if isinstance(error, ImportError):
        _say(f"error: a part of MLXR cannot be loaded ({what}); `mlxr doctor` says more")
    else:
        _say(f"error: MLXR made a mistake ({what})")
    _log(what, "".join(traceback.format_exception(error)))
    return 1


def _log(words: str, trace: str) -> None:
    """Keep what went wrong in the log file and say where; on a disk that refuses, show it."""
    from app.log import append

    path = default_paths().log
    try:
        append(path, words, trace)
    except OSError:
        _say(trace)
    else:
        _say(f"details are in {path}")


def _say(line: str) -> None:
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)


def _drop_output() -> None:
    """Let what cannot be written go: the flush at exit would fail again, with a traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _prepare_streams() -> None:
    """Closed streams become empty ones, and characters that a stream cannot show do not stop the program."""
    sys.stdin = sys.stdin or _nothing("r")
    sys.stdout = sys.stdout or _nothing("w")
    sys.stderr = sys.stderr or _nothing("w")
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _nothing(mode: str) -> TextIO:
    return open(os.devnull, mode, encoding="utf-8")  # type: ignore[return-value]  # noqa: PTH123
