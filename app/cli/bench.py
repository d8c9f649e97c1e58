"""`mlxr bench`: speed on this machine, beside mlx-lm in the same run, each number with its target."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from pathlib import Path

from app.cli.inputs import positive
from app.cli.model_option import add_model_option
from app.cli.opening import open_session
from app.cli.rows import Row, table
from app.cli.session import Session
from app.cli.speed import Plan, check_plan, engine_runner, measure, peer_runner
from app.cli.terminal import Terminal
from app.errors import AppError
from app.model_location import GUIDE, GUIDE_NAME
from engine import EngineError, ModelInfo, Peer

CONTEXTS = (200, 4000)
PAIRS = 7
DECODED = 64


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    add_model_option(parser, otherwise="the guide, for which the targets are")
    parser.add_argument(
        "--contexts",
        type=_contexts,
        default=CONTEXTS,
        metavar="N,N",
        help="prompt lengths (default 200,4000)",
    )
    parser.add_argument(
        "--decode", type=_at_least_two, default=DECODED, metavar="N", help="tokens to write (64)"
    )
    parser.add_argument(
        "--pairs", type=positive, default=PAIRS, metavar="N", help="measurements of each side (7)"
    )
    parser.add_argument(
        "--vs", choices=("mlx-lm", "none"), help="the peer (default: mlx-lm where it is installed)"
    )
    parser.add_argument(
        "--window",
        action=BooleanOptionalAction,
        help="measure the window too (default: only when no model is named)",
    )
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON object")


def run(args: Namespace) -> int:
    """Measure and print; a number short of its target does not make it fail."""
    named = getattr(args, "model", None) is not None
    if not named:
        args.model = GUIDE_NAME  # the targets are the guide's
    terminal = Terminal(sys.stdout, sys.stderr)
    plan = Plan(args.contexts, args.pairs, args.decode)
    with open_session(args, terminal) as (session, model):
        check_plan(plan, model)
        peer = _peer(args.vs, model, terminal)
        rows = _speed(plan, session, model, peer, terminal)
    if args.window or (args.window is None and not named):
        rows += _window(Path(model.path), plan.pairs, terminal)
    if args.json:
        peer_name = f"mlx-lm {peer.version}" if peer else None
        result = {"model": model.path, "device": model.device, "dtype": model.dtype, "peer": peer_name}
        terminal.answer(json.dumps({**result, "rows": [row.as_json() for row in rows]}, indent=2) + "\n")
        return 0
    against = f", beside mlx-lm {peer.version}" if peer else ""
    terminal.answer(
        f"{model.name} on {model.device} in {model.dtype}{against}; {plan.pairs} pairs, median (spread)\n"
    )
    terminal.answer("".join(f"{line}\n" for line in table(rows)))
    return 0


def _speed(
    plan: Plan, session: Session, model: ModelInfo, peer: Peer | None, terminal: Terminal
) -> list[Row]:
    is_guide_on_cpu = Path(model.path).resolve() == GUIDE and model.device == "CPU"
    theirs = peer_runner(peer) if peer else None
    return list(measure(plan, engine_runner(session), theirs, is_guide_on_cpu, terminal.progress))


def _window(model: Path, runs: int, terminal: Terminal) -> list[Row]:
    try:
        from app.cli.window_speed import measure_window
    except ImportError as error:
        raise AppError(f"Qt cannot be loaded ({error}); give --no-window, or see `mlxr doctor`") from None
    return list(measure_window(model, runs, terminal.progress))


def _peer(asked: str | None, model: ModelInfo, terminal: Terminal) -> Peer | None:
    """mlx-lm with the same model; None where it was not asked for by name and cannot be had."""
    if asked == "none":
        return None
    terminal.progress("loading the model into mlx-lm")
    try:
        return Peer(Path(model.path), model.dtype)
    except EngineError as error:
        if asked is None:
            terminal.say(f"without a peer: {error}")
            return None
        raise AppError(str(error)) from None


def _contexts(text: str) -> tuple[int, ...]:
    return tuple(positive(part) for part in text.split(","))


def _at_least_two(text: str) -> int:
    number = positive(text)
    if number < 2:
        raise ArgumentTypeError("a speed needs at least 2 tokens")
    return number
