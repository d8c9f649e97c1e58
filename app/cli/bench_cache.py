"""`mlxr bench --cache` from its options to its report."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from app.amounts import counted
from app.cli.bench_report import Report
from app.cli.cache_speed import FEWEST, measure_cache
from app.cli.cache_speed_scene import ROOM, CachePlan, Scene
from app.cli.targets import Subject, cache_targets
from app.cli.terminal import Terminal
from app.errors import AppError
from app.measure.engine_client import EngineClient
from app.model_location import GUIDE, locate, model_title
from app.paths import default_paths
from engine import (
    EngineError,
    EngineSettings,
    ModelInfo,
    Peer,
    machine_report,
)

SHAPE = "guide-like"
"""The built-in model's own context is too short for the chats that are promised to be quick: this is its
shape, with random weights and as long a context as is asked for."""


def cache_report(args: Namespace, plan: CachePlan, terminal: Terminal) -> Report:
    """Measure the model that `args.model` names. Raises AppError."""
    began, machine = datetime.now().astimezone(), machine_report()
    model = locate(args.model)
    settings = EngineSettings(cache=default_paths().kernels, speculation=False)
    info = _info(model, settings)
    plan = plan.within(info.context_length)
    if plan.context < FEWEST:
        raise AppError(
            f"{info.name} has a context of {counted(info.context_length, 'token')}, and {FEWEST + ROOM} are "
            f"needed; give another --model"
        )
    _check_asked(args, info)
    peer = _peer(args.vs, args.peer or Path(info.path), info, terminal)
    subject = Subject(args.shape or "", args.quant or "none", info.device, machine.device_name)
    with tempfile.TemporaryDirectory(prefix="mlxr-bench-cache-") as scratch:
        scene = Scene(
            model=model,
            text_model=GUIDE if args.shape else model,
            settings=settings,
            device=info.device,
            scratch=Path(scratch),
            plan=plan,
            targets=cache_targets(subject),
            peer=peer,
            say=terminal.progress,
        )
        try:
            rows = measure_cache(scene)
        except EngineError as error:
            raise AppError(str(error)) from None
    version = peer.version if peer else None
    return Report(info, args.shape, subject, machine, version, plan, began, rows)


def _check_asked(args: Namespace, info: ModelInfo) -> None:
    """Raises AppError where more was asked for than the model takes; without being asked it is less."""
    for option, asked in (("--context", args.context), ("--long", args.long)):
        if asked is not None and asked + ROOM > info.context_length:
            raise AppError(
                f"{option} {asked} and {ROOM} more do not fit {info.name}'s context of {info.context_length} "
                f"here; give at most {info.context_length - ROOM}"
            )


def _info(model: Path, settings: EngineSettings) -> ModelInfo:
    """What the engine says of `model`, under the name that people know it by."""
    with EngineClient(settings) as client:
        return replace(client.load(model), name=model_title(model))


def _peer(asked: str | None, path: Path, info: ModelInfo, terminal: Terminal) -> Peer | None:
    """mlx-lm with the same model, where it was asked for: only the batches have it beside them."""
    if asked != "mlx-lm":
        return None
    terminal.progress("loading the model into mlx-lm")
    try:
        return Peer(path, info.dtype)
    except EngineError as error:
        raise AppError(str(error)) from None
