"""`mlxr convert`: a Hugging Face model in MLX form, quantised or not."""

from __future__ import annotations

import shlex
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path

from app.amounts import duration, size
from app.cli.inputs import positive
from app.cli.terminal import Terminal, open_terminal
from app.errors import AppError, UsageError
from app.model_location import locate, model_title
from engine import (
    CONVERT_DTYPES,
    CONVERT_QUANTS,
    ConversionError,
    Converted,
    ConvertSettings,
    EngineError,
    convert_model,
)

_REDRAW = 0.1
"""Seconds between two progress lines."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "source",
        metavar="SRC",
        help="the folder of a model in .safetensors, or a Hugging Face repository in the local cache",
    )
    parser.add_argument("target", metavar="DST", help="the new folder; it must not exist")
    parser.add_argument(
        "--quant",
        choices=CONVERT_QUANTS,
        required=True,
        help="bits of a weight: q4 is 4 bits, with a scale and an offset for each group; mxfp4, mxfp8 and "
        "nvfp4 are small floats; none quantises nothing",
    )
    parser.add_argument(
        "--group-size", type=positive, metavar="G", help="weights in a group: 32, 64 or 128 (default: 64)"
    )
    parser.add_argument(
        "--dtype", choices=CONVERT_DTYPES, help="of scales and what is not packed (default: the model's own)"
    )


def run(args: Namespace) -> int:
    """Convert and say what came of it."""
    with open_terminal() as terminal:
        return _run(args, terminal)


def _run(args: Namespace, terminal: Terminal) -> int:
    try:
        settings = ConvertSettings(args.quant, args.group_size, args.dtype)
    except ConversionError as error:
        raise UsageError(str(error)) from None
    if not args.target.strip():
        raise UsageError("DST is empty; give the new folder's name")
    source, target = locate(args.source), Path(args.target).expanduser()
    try:
        done = convert_model(source, target, settings, progress_line(terminal))
    except EngineError as error:
        raise AppError(str(error)) from None
    terminal.answer("".join(f"{line}\n" for line in result_lines(done, model_title(source))))
    return 0


def progress_line(
    terminal: Terminal, clock: Callable[[], float] = time.monotonic
) -> Callable[[int, int], None]:
    """Who is told of bytes read, of all, and shows "converting: 1.2 GB of 15.0 GB, 300 MB/s, 46 s left"."""
    began, shown = clock(), float("-inf")

    def show(done: int, total: int) -> None:
        nonlocal shown
        now = clock()
        if now - shown < _REDRAW and done < total:
            return
        shown = now
        words = f"converting: {size(done)} of {size(total)}"
        if done and now > began:
            rate = done / (now - began)
            words += f", {size(rate)}/s, {duration((total - done) / rate)} left"
        terminal.progress(words)

    return show


def result_lines(done: Converted, title: str) -> list[str]:
    """What was written, for people."""
    before, after = size(done.source_bytes), size(done.result_bytes)
    packed = f", {done.packed} matrices quantised" if done.packed else ""
    lines = [f"{title}: {before} of weights are {after} in {done.path}{packed}"]
    if done.left:
        lines.append(f"{len(done.left)} stayed as they were: they do not divide into groups ({done.left[0]})")
    return [*lines, f"chat with it: mlxr chat --model {shlex.quote(str(done.path))}"]
