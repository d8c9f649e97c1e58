"""`mlxr bench`: speed on this machine, beside mlx-lm in the same run, each number with its target."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from app.amounts import size
from app.cli.batch_speed import loads, measure_batches
from app.cli.bench_cache import SHAPE, cache_report
from app.cli.bench_model import shape_model
from app.cli.bench_options import add_bench_arguments, cache_plan_of, plan_of
from app.cli.bench_report import Report
from app.cli.cache_speed import measures_text
from app.cli.opening import open_session
from app.cli.rows import Row
from app.cli.speed import Plan, check_plan, engine_runner, measure, peer_runner
from app.cli.targets import THE_GUIDE, Subject, Targets, targets_of
from app.cli.terminal import Terminal, open_terminal
from app.errors import AppError
from app.model_location import GUIDE, GUIDE_NAME, locate
from app.paths import default_paths
from engine import (
    EngineError,
    EngineSettings,
    ModelInfo,
    Peer,
    RunnerBench,
    kernel_table,
    machine_report,
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    add_bench_arguments(parser)


def run(args: Namespace) -> int:
    """Measure and print; a number short of its target does not make it fail."""
    with open_terminal(keeps_progress=args.progress) as terminal:
        report = _cache(args, terminal) if args.cache else _speed(args, terminal)
        if args.json:
            terminal.answer(json.dumps(report.as_json(), indent=2) + "\n")
        else:
            terminal.answer("".join(f"{line}\n" for line in report.lines()))
    return 0


def _speed(args: Namespace, terminal: Terminal) -> Report:
    plan, wants_window = plan_of(args), args.window
    if wants_window is None:
        wants_window = args.shape is None and getattr(args, "model", None) is None
    with _model_named(args, plan.longest, terminal):
        return _measure(args, plan, wants_window, terminal)


def _cache(args: Namespace, terminal: Terminal) -> Report:
    plan = cache_plan_of(args)
    if args.shape is None and getattr(args, "model", None) is None:
        args.shape = SHAPE
    with _model_named(args, plan.longest, terminal):
        _try_kernels(locate(args.model), terminal)
        if args.shape is not None and measures_text(plan):  # its weights write none: the guide does
            _try_kernels(GUIDE, terminal)
        return cache_report(args, plan, terminal)


@contextmanager
def _model_named(args: Namespace, longest: int, terminal: Terminal) -> Generator[None]:
    """Make `args.model` name what is to be measured: a shape is written for as long as it is needed.

    `args.peer` is what mlx-lm loads instead; None for the same.
    """
    if args.shape is None:
        args.model = getattr(args, "model", GUIDE_NAME)  # the targets are the guide's
        args.peer = None
        yield
        return
    terminal.progress(f"writing {args.shape} with random weights")
    with shape_model(args.shape, args.quant or "none", longest) as written:
        args.model, args.peer = str(written.model), written.peer
        yield


def _measure(args: Namespace, plan: Plan, wants_window: bool, terminal: Terminal) -> Report:
    began = datetime.now().astimezone()
    _try_kernels(locate(args.model), terminal)
    with open_session(args, terminal, is_measured=True) as (session, model):
        check_plan(plan, model)
        _check_memory(loads(plan), model)
        peer = _peer(args.vs, args.peer, model, terminal)
        machine = machine_report()
        subject = _subject(args, model, machine.device_name)
        targets = targets_of(subject)
        theirs = peer_runner(peer) if peer else None
        rows = measure(plan, engine_runner(session), theirs, targets, terminal.progress)
    rows += _beyond_one_chat(plan, model, peer, targets, terminal)
    if wants_window:
        rows += _window(Path(model.path), plan.pairs, terminal)
    if args.peer is not None and args.peer != Path(args.model):  # other weights, which say other things
        rows = [row for row in rows if not row.what.startswith("same tokens")]
    version = peer.version if peer else None
    return Report(model, args.shape, subject, machine, version, plan, began, rows)


def _try_kernels(model: Path, terminal: Terminal) -> None:
    """What is measured is what runs on a machine that had time to try kernels, and tries none meanwhile."""
    try:
        table = kernel_table(default_paths().kernels, model, terminal.progress)
        if table.problem:
            terminal.say(table.problem)
    except EngineError as error:
        raise AppError(str(error)) from None


def _subject(args: Namespace, model: ModelInfo, device_name: str) -> Subject:
    is_guide = Path(model.path).resolve() == GUIDE
    return Subject(
        args.shape or (THE_GUIDE if is_guide else ""), args.quant or "none", model.device, device_name
    )


def _beyond_one_chat(
    plan: Plan, model: ModelInfo, peer: Peer | None, targets: Targets, terminal: Terminal
) -> list[Row]:
    """Batches and cached prompts, on a runner of their own: the session has ended and freed its model."""
    if not loads(plan):
        return []
    terminal.progress("loading the model for several sequences")
    try:
        settings = EngineSettings(cache=default_paths().kernels, speculation=False)
        runner = RunnerBench(Path(model.path), settings)
        return list(measure_batches(plan, runner, peer, targets, terminal.progress))
    except EngineError as error:
        raise AppError(str(error)) from None


def _check_memory(loads: Sequence[tuple[int, int]], model: ModelInfo) -> None:
    """Raises AppError where this machine cannot hold the keys and values of so many sequences at once."""
    memory = machine_report().memory_bytes
    for sequences, tokens in loads:
        kv_bytes = sequences * -(-tokens // model.page_size) * model.page_bytes
        if kv_bytes > memory:
            raise AppError(
                f"{sequences} x {tokens} tokens need {size(kv_bytes)} of KV memory, and this machine has "
                f"{size(memory)}; give smaller --batches, --cached or --contexts"
            )


def _window(model: Path, runs: int, terminal: Terminal) -> list[Row]:
    try:
        from app.cli.window_speed import measure_window
    except ImportError as error:
        raise AppError(f"Qt cannot be loaded ({error}); give --no-window, or see `mlxr doctor`") from None
    return list(measure_window(model, runs, terminal.progress))


def _peer(asked: str | None, path: Path | None, model: ModelInfo, terminal: Terminal) -> Peer | None:
    """mlx-lm with the model at `path`, or ours; None where it was not asked for by name and cannot be had."""
    if asked == "none":
        return None
    terminal.progress("loading the model into mlx-lm")
    try:
        return Peer(path or Path(model.path), model.dtype)
    except EngineError as error:
        if asked is None:
            terminal.say(f"without a peer: {error}")
            return None
        raise AppError(str(error)) from None
