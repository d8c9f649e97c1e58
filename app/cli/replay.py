"""`mlxr replay`: a file of requests on one engine, each result as it ends, and what it all came to."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path

from app.amounts import counted, size
from app.cli.generate import INTERRUPTED, json_line
from app.cli.inputs import natural, positive
from app.cli.model_option import add_draft_option, add_model_option
from app.cli.opening import show_progress
from app.cli.replay_file import Ask, Step, read_steps
from app.cli.replay_player import Player
from app.cli.replay_result import Result
from app.cli.replay_table import Table
from app.cli.replay_totals import Totals
from app.cli.terminal import Terminal
from app.errors import AppError, UsageError
from app.model_location import locate
from app.paths import default_paths
from app.settings import SettingsFile
from engine import Engine, EngineSettings, Failed, ModelInfo, SsdSettings

log = logging.getLogger(__name__)

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NAMED = 5
"""Requests that the closing line names; more are counted."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("file", metavar="FILE", help="one JSON object a line; - is standard input")
    add_model_option(parser)
    add_draft_option(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    group = parser.add_argument_group("settings of the engine")
    group.add_argument("--pages", type=positive, metavar="N", help="most pages of KV memory")
    group.add_argument("--page-size", type=positive, metavar="N", help="tokens of a page (default: 16)")
    group.add_argument(
        "--prefill-chunk", type=positive, metavar="N", help="most prompt tokens computed at once"
    )
    group.add_argument("--kv-bits", type=int, choices=(4, 8), help="keep keys and values in so many bits")
    group.add_argument(
        "--ssd", type=_folder, metavar="FOLDER", help="let pages spill to FOLDER (default: they do not)"
    )
    group.add_argument(
        "--ssd-cap",
        type=byte_count,
        metavar="BYTES",
        help="most that they may take there, such as 512M or 2G",
    )
    group.add_argument(
        "--ssd-floor", type=byte_count, metavar="BYTES", help="space on that disk that stays free"
    )
    group.add_argument("--no-speculation", action="store_true", help="never guess tokens ahead")


def _folder(text: str) -> Path:
    """An argparse type; no name at all, as of a variable that is not set, would be the current folder."""
    if not text.strip():
        raise ArgumentTypeError("no folder is named")
    return Path(text)


def byte_count(text: str) -> int:
    """An argparse type: bytes, as a whole number or with K, M, G or T (of 1024) behind it."""
    unit = _UNITS.get(text[-1:].upper(), 1)
    try:
        return natural(text if unit == 1 else text[:-1]) * unit
    except ArgumentTypeError:
        raise ArgumentTypeError(f"{text!r} is not a number of bytes such as 1048576, 512M or 2G") from None


def run(args: Namespace) -> int:
    """Play the file; 0, 1 when a request did not end as it should, or 130 after Ctrl-C. Raises AppError."""
    settings = engine_settings(args)
    steps = read_steps(args.file)
    terminal = Terminal(sys.stdout, sys.stderr)
    path = _model_path(args, terminal)
    draft = None if args.draft_model is None else locate(args.draft_model)
    with Player(lambda emit: Engine(emit, settings)) as player:
        model = player.load(path, lambda event: show_progress(event, terminal), draft)
        _check_page(args.page_size, model)
        _check_cap(args.ssd_cap, model)
        totals = _play(player, steps, model, terminal, args.json)
    if player.interrupted:
        return INTERRUPTED
    _judge(totals)
    return 0


def engine_settings(args: Namespace) -> EngineSettings:
    """What the options ask for. Raises UsageError for a contradiction, AppError for a folder of no use."""
    if args.ssd is None and (args.ssd_cap is not None or args.ssd_floor is not None):
        raise UsageError("--ssd-cap and --ssd-floor need --ssd FOLDER: without it nothing spills")
    if args.no_speculation and args.draft_model is not None:
        raise UsageError("--draft-model guesses ahead, and --no-speculation forbids it; leave one out")
    ssd = None
    if args.ssd is not None:
        limits = {"cap_bytes": args.ssd_cap, "floor_bytes": args.ssd_floor}
        given = {name: value for name, value in limits.items() if value is not None}
        ssd = SsdSettings(_usable(args.ssd.expanduser()), **given)
        _check_floor(ssd)
    sizes = {"page_size": args.page_size, "prefill_chunk": args.prefill_chunk}
    return EngineSettings(
        kv_pages=args.pages,
        kv_bits=args.kv_bits,
        ssd=ssd,
        speculation=not args.no_speculation,
        cache=default_paths().kernels,
        **{name: value for name, value in sizes.items() if value is not None},
    )


def _usable(folder: Path) -> Path:
    """`folder`, made if need be: the engine would go on without one, and measure something else."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise AppError(f"--ssd {folder} cannot be used: {reason}; give a folder") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise AppError(f"--ssd {folder} cannot be written; give another folder")
    return folder


def _check_floor(ssd: SsdSettings) -> None:
    disk = shutil.disk_usage(ssd.folder).total
    if ssd.floor_bytes >= disk:
        raise AppError(
            f"the disk of {ssd.folder} has {size(disk)} in all, and {size(ssd.floor_bytes)} are to stay free "
            "there, so that nothing could spill; give a smaller --ssd-floor"
        )


def _check_page(tokens: int | None, model: ModelInfo) -> None:
    if tokens is not None and tokens > model.context_length:
        raise AppError(
            f"--page-size is {counted(tokens, 'token')}, and a request of {model.name} has at most "
            f"{model.context_length:,}: each page would take {size(model.page_bytes)} of memory, and none "
            "could be filled; give a smaller one"
        )


def _check_cap(cap: int | None, model: ModelInfo) -> None:
    if cap is not None and cap <= model.page_bytes:
        raise AppError(
            f"--ssd-cap is {size(cap)}, and one page of {model.name} takes more than "
            f"{size(model.page_bytes)} there, so that nothing could spill; give a larger one"
        )


def _model_path(args: Namespace, terminal: Terminal) -> Path:
    loaded = SettingsFile(default_paths().settings).load()
    if loaded.problem:
        terminal.say(loaded.problem)
    return locate(getattr(args, "model", None), loaded.settings.last_model, terminal.say)


def _play(
    player: Player, steps: Sequence[Step], model: ModelInfo, terminal: Terminal, as_json: bool
) -> Totals:
    table, results = Table(steps), list[Result]()

    def show(result: Result) -> None:
        results.append(result)
        if isinstance(result.end, Failed) and result.end.detail:
            log.error("%s\n%s", result.end.error, result.end.detail)
        terminal.answer(json_line(result.as_json()) if as_json else table.row(result) + "\n")

    if not as_json:
        terminal.answer(table.heading() + "\n")
    player.play(steps, model, show)
    totals = Totals.of(results, player.tally, model, player.left_out)
    if as_json:
        terminal.answer(json_line(totals.as_json()))
    else:
        terminal.answer("\n" + "".join(f"{line}\n" for line in totals.lines()))
    return totals


def _judge(totals: Totals) -> None:
    """Raises AppError when pages leaked, or a request did not end as its line says."""
    if pages := totals.leaked_pages:
        are = "is" if pages == 1 else "are"
        raise AppError(
            f"{counted(pages, 'page')} {are} still held although every request has ended; "
            "this is a mistake of MLXR: please report it with the file"
        )
    wrong = totals.unexpected
    if wrong:
        named = ", ".join(f"{result.end.id} ({_how(result)})" for result in wrong[:_NAMED])
        more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        they = "it" if len(wrong) == 1 else "they"
        raise AppError(f"{len(wrong)} of the requests did not end as {they} should: {named}{more}; see above")


def _how(result: Result) -> str:
    ask: Ask = result.ask
    return result.state if ask.expected is None else f"{result.state}, expected {ask.expected}"
