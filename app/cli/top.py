"""`mlxr top`: the live figures of the MLXR that is running, in the terminal."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace

from rich.live import Live

from app.cli.top_screen import TopScreen, make_console
from app.instance.client import LiveLines
from app.paths import default_paths

REDRAW_SECONDS = 0.25
TICK_SECONDS = 1.0
"""How long a screen stays as it is when nothing is said: after that it follows the terminal's size."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--once", action="store_true", help="print what there is now, and end")
    parser.add_argument("--json", action="store_true", help="print each change as one line of JSON")


def run(args: Namespace) -> int:
    """Show the figures until Ctrl-C, or until the app ends; 0. Raises AppError where none runs."""
    with LiveLines(default_paths().home) as live:
        try:
            if args.json:
                _print_lines(live, args.once)
            else:
                _show(live, args.once)
        except KeyboardInterrupt:  # the way to leave
            pass
        except EOFError:
            print("MLXR has ended.", file=sys.stderr)
    return 0


def _print_lines(live: LiveLines, once: bool) -> None:
    """Each line as it comes; with `once`, those of the models that are there now."""
    left = live.app["models"]
    while left or not once:
        print(json.dumps(live.next(None)), flush=True)
        left -= 1


def _show(live: LiveLines, once: bool) -> None:
    """The screen; where nobody can be shown a changing one, what there is now."""
    screen, console = TopScreen(live.app), make_console()
    for _ in range(live.app["models"]):
        if line := live.next(None):
            screen.take(line)
    if once or not console.is_terminal or console.is_dumb_terminal:
        console.print(screen.drawn(console.width, is_live=False))
        return
    with Live(console=console, screen=True, auto_refresh=False) as shown:
        while True:
            shown.update(screen.drawn(console.width, is_live=True), refresh=True)
            _gather(live, screen)


def _gather(live: LiveLines, screen: TopScreen) -> None:
    """Take in what comes until it is time to draw again: at once when it was quiet, else a moment later."""
    line = live.next(TICK_SECONDS)
    until = time.monotonic() + REDRAW_SECONDS
    while line is not None:
        screen.take(line)
        left = until - time.monotonic()
        line = live.next(left) if left > 0 else None
